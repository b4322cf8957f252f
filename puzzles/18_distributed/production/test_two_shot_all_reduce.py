"""Tests of 18.2, all-reduce in two shots, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    cases,
    dtypes,
    integers,
    offset,
    randn,
    ranks,
    reserve,
    spread,
    tensor,
)
from course.values import special_values

puzzle = challenge("two_shot_all_reduce", ranks=True, alike=True)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_no_shards():
    puzzle.check_or_raises([], names="shards")


def test_shapes_shards_differ():
    x = ranks(3, 6, 10)
    puzzle.check_or_raises([*x[:2], x[2][:, :5]], names="shards", answer=False)
    puzzle.check_or_raises([*x[:2], x[2][:, :1].contiguous()], names="shards", answer=False)
    puzzle.check_or_raises([x[0], x[1].view(60), x[2]], names="shards", answer=False)
    puzzle.check_or_raises([x[0], x[1].half(), x[2]], names="shards", answer=False)


@dtypes("float64", "int32")
def test_shapes_of_another_dtype(dtype):
    puzzle.check_or_raises(ranks(2, 6, dtype=dtype, make=integers), names="shards")


def test_shapes_not_contiguous():
    x = ranks(2, 40, 31)
    puzzle.check_or_raises([part.T for part in x], names="shards")
    puzzle.check_or_raises([x[0][:, ::2], x[1][:, ::2].contiguous()], names="shards")


# Any size and layout.


@cases(one_rank=(1,), three_ranks=(3,))
def test_shapes_empty(R):
    puzzle.check(ranks(R, 0))


def test_masks_off_16_bytes():
    puzzle.check([offset(x) for x in ranks(3, 2000, make=integers, dtype="float16")])
    first, *others = ranks(3, 2000, make=integers)
    puzzle.check([first, *map(offset, others)])


def test_masks_scalars():
    puzzle.check(ranks(3, make=integers))


def test_masks_beyond_32_bits():
    # Both are the same memory, which nobody has touched.
    x = reserve(2**31 + 77, "float16")
    puzzle.check_large_offsets([x, x])


def test_masks_limits():
    puzzle.limits(lambda R, N: (ranks(R, N, make=integers),), dtypes=FLOATS, R=8, N=2**20)


# Any value.


@dtypes("float16", "bfloat16")
def test_numerics_eight_ranks(dtype):
    puzzle.check(ranks(8, 3000, dtype=dtype))


def test_numerics_special_values():
    inf, nan = float("inf"), float("nan")
    shards = [[inf, inf, nan, 1.0, -0.0], [1.0, -inf, 1.0, -inf, -0.0], [2.0, 1.0, 1.0, 1.0, -0.0]]
    puzzle.check(spread(tensor(values) for values in shards))


test_numerics_each_special_value = special_values(
    puzzle, lambda: (ranks(3, 70, dtype="float16"),), "shards"
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(eight_ranks=(8,), two_ranks=(2,))
def test_traffic_in_16_bits(R):
    puzzle.traffic(ranks(R, 8192, dtype="bfloat16")).check(
        reads={"shards": 1}, writes=1, launches=2 * R, sectors=1.1, scratch=0
    )


@cases(one_rank=(1,), eight_ranks=(8,))
def test_compiles(R):
    puzzle.compiles([offset(x) for x in ranks(R, 1003, dtype="float16")])


def test_compiles_without_spills():
    puzzle.compiles(ranks(4, 2**21, dtype="bfloat16"), spills=0)


def test_speedup():
    puzzle.race(
        [randn(2**25, dtype="bfloat16") for _ in range(4)], at_least=0.9, baseline="solution"
    )
