"""Tests of 15.2, sort by expert, in production."""

from course.challenge import challenge
from course.inputs import INDICES, along, cases, dtypes, far_apart, integers, strided, tensor

puzzle = challenge("permute_tokens", results=("order", "inverse", "block_experts"))


def choices(T, k, E, dtype="int32", low=0):
    return integers(T, k, low=low, high=E, dtype=dtype), E


# Bad input: the error that the spec names, or the right answer.


def test_shapes_experts_are_not_a_matrix():
    experts, E = choices(6, 2, 4)
    puzzle.check_or_raises(experts[0], E, 16, names="experts", answer=False)
    puzzle.check_or_raises(experts[None], E, 16, names="experts", answer=False)


@dtypes("float32", "int16", "bool")
def test_shapes_experts_of_another_dtype(dtype):
    experts, E = choices(6, 2, 2, dtype)
    puzzle.check_or_raises(experts, E, 16, names="experts", answer=False)


@cases(none=0, negative=-1, too_many=1025)
def test_shapes_num_experts_out_of_range(E):
    experts, _ = choices(6, 2, 1)
    puzzle.check_or_raises(experts, E, 16, names="num_experts", answer=False)


@cases(not_a_power_of_2=48, none=0, too_small=8, too_large=256)
def test_shapes_another_block(block):
    puzzle.check_or_raises(*choices(6, 2, 4), block, names="block", answer=False)


# Any size and layout.


@cases(more_experts_than_assignments=(5, 2, 37, 16), most_experts=(300, 2, 1024, 32))
def test_masks(T, k, E, block):
    puzzle.check(*choices(T, k, E), block)


def test_masks_any_strides():
    experts, E = choices(3, 200, 5, "int64")
    puzzle.check(experts.T, E, 16)
    puzzle.check(strided(choices(70, 3, 5)[0], 2, 3), E, 16)
    puzzle.check(experts[:1].expand(40, 200)[:, :3], E, 16)


@cases(tokens=0, choices=1)
def test_masks_offsets_beyond_32_bits(dim):
    experts = along(far_apart(tensor([2, 0, 1], "int32")), dim, 3, 3)
    puzzle.check(experts, 3, 16)


def test_masks_limits():
    def build(T, k, E):
        experts, E = choices(T, k, E, "int64")
        experts[-1, -1] = E - 1
        return experts, E, 16

    puzzle.limits(build, dtypes=INDICES, T=2**17, k=2**14, E=2**10)


# Any value: dropped assignments.


@dtypes("int32", "int64")
def test_numerics_dropped(dtype):
    puzzle.check(*choices(900, 2, 6, dtype, low=-1), 16)


def test_numerics_all_dropped():
    puzzle.check(tensor([[-1, -1]] * 30, "int32"), 3, 16)


def test_numerics_dropped_whole_tiles():
    puzzle.check(tensor([[-1]] * 1100 + [[1]] * 1100 + [[0]] * 7, "int32"), 2, 64)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_many_experts():
    puzzle.traffic(*choices(4096, 2, 64), 16).check(reads={"experts": 3}, launches=4, scratch=1.0)


@cases(one_of_one=(1, 1, 1, 16), most_experts=(64, 2, 1024, 32), odd_sizes=(33, 3, 60, 128))
def test_compiles(T, k, E, block):
    puzzle.compiles(*choices(T, k, E), block)


def test_speedup():
    puzzle.race(*choices(131072, 8, 64), 128, at_least=0.9, baseline="solution")
