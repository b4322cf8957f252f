"""Tests of 15.2, sort by expert."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, tensor

puzzle = challenge("permute_tokens", results=("order", "inverse", "block_experts"))


def choices(T, k, E, dtype="int32"):
    return integers(T, k, low=0, high=E, dtype=dtype), E


@cases(two_tokens=([[2, 0], [2, 1]], 3, 16), one_assignment=([[0]], 1, 16))
def test_shapes(experts, E, block):
    puzzle.check(tensor(experts, "int32"), E, block)


@cases(
    one_tile=(10, 2, 4, 16),
    several_tiles=(1500, 3, 5, 32),
    experts_no_power_of_2=(200, 2, 60, 64),
    blocks_of_128=(300, 1, 3, 128),
)
def test_masks(T, k, E, block):
    puzzle.check(*choices(T, k, E), block)


def test_masks_whole_blocks_are_not_padded():
    puzzle.check(tensor([[0] * 32 + [2] * 16 + [3] * 17], "int32"), 4, 16)


@cases(first=0, last=6)
def test_masks_all_to_one_expert(expert):
    puzzle.check(tensor([[expert]] * 700, "int32"), 7, 16)


@dtypes("int32", "int64")
def test_numerics(dtype):
    puzzle.check(*choices(400, 2, 8, dtype), 16)


def test_numerics_falling_experts():
    # Every assignment moves, and the last tile comes first.
    puzzle.check(tensor([[7 - a // 300] for a in range(2400)], "int64"), 8, 32)


def test_traffic():
    puzzle.traffic(*choices(512, 4, 16), 32).check(reads={"experts": 3}, launches=4, scratch=1.0)


@dtypes("int32", "int64")
def test_compiles(dtype):
    puzzle.compiles(*choices(512, 8, 64, dtype), 128)


def test_speedup():
    experts, E = choices(131072, 8, 64)
    puzzle.race(experts, E, 128, at_least=0.5, baseline="permute_by_sorting")
