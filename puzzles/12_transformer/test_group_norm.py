"""Tests of 12.3, group norm."""

from course.challenge import challenge
from course.inputs import cases, dtypes, randn, tensor

puzzle = challenge("group_norm", results=("y", "mean", "rstd"))


def layer(B, C, L, groups, dtype="float32"):
    x = randn(B, C, L, dtype=dtype)
    return x, groups, randn(C, dtype=dtype), randn(C, dtype=dtype)


@cases(
    several_channels_a_group=(2, 6, 20, 3),
    one_group=(2, 6, 20, 1),
    one_channel_a_group=(3, 5, 40, 5),
    one_row=(1, 4, 1, 2),
)
def test_shapes(B, C, L, groups):
    puzzle.check(*layer(B, C, L, groups))


@cases(
    no_power_of_two=(2, 21, 37, 7),
    one_past_a_block=(1, 2, 1025, 2),
    one_short_of_a_block=(1, 2, 1023, 2),
    longer_than_any_block=(1, 6, 14_001, 2),
)
def test_masks(B, C, L, groups):
    puzzle.check(*layer(B, C, L, groups))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*layer(2, 12, 100, 3, dtype))


def test_numerics_parts_with_other_means():
    # Each block has a mean of its own, and the variance is mostly the distance of those.
    x, groups, weight, bias = layer(1, 2, 20_000, 1)
    x[0, 0] += 20
    x[0, 1, 10_000:] -= 20
    puzzle.check(x, groups, weight, bias)


def test_numerics_eps_under_the_root():
    x, groups, weight, bias = layer(2, 6, 50, 3)
    puzzle.check(x * 1e-2, groups, weight, bias, 1e-3)


def test_numerics_mean_of_100():
    # Far from 0 a masked lane of 0 counts for much.
    x, groups, weight, bias = layer(2, 6, 55, 3)
    puzzle.check(x + tensor([[[100.0]], [[-100.0]]]), groups, weight, bias)


def test_traffic():
    puzzle.traffic(*layer(2, 8, 2048, 2, "float16")).check(
        reads={"x": 2}, writes={"y": 1}, sectors={"x": 1.1, "y": 1.1}
    )


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*layer(2, 8, 300, 2, dtype))


def test_speedup():
    puzzle.race(*layer(16, 512, 4096, 32, "bfloat16"), at_least=3.5)
