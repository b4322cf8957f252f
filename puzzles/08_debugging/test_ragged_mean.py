"""Tests of 08.2, ragged mean."""

import torch

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor

puzzle = challenge("ragged_mean", deterministic=True, names_causes=False)


def ragged(x, *lengths, dtype="int64"):
    """x with NaN behind the lengths of its rows, and the lengths."""
    for row, length in zip(x, lengths, strict=True):
        row[length:] = float("nan")
    return x, tensor(lengths, dtype)


@cases(one_row=(1, 1000), one_column=(100, 1), single_element=(1, 1))
def test_shapes(B, T):
    puzzle.check(*ragged(integers(B, T), *[T] * B))


def test_masks_full_rows():
    puzzle.check(*ragged(integers(3, 20_000), 20_000, 20_000, 20_000))


@cases(
    one_short_row=(2, 20_000, 3),
    one_short_of_a_block=(20_000, 4095, 1023),
    one_past_a_block=(20_000, 4097, 1025),
    length_0=(0, 20_000, 0),
)
def test_masks(first, second, third):
    puzzle.check(*ragged(integers(3, 20_000), first, second, third))


def test_masks_rows_of_one_block():
    puzzle.check(*ragged(integers(5, 500), 500, 1, 30, 256, 499))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    x = randn(3, 30_000, dtype=dtype)
    puzzle.check(*ragged(x, 30_000, 29_000, 28_673, dtype="int32"))


@cases(float16=("float16", 512), bfloat16=("bfloat16", 256))
def test_numerics_sums_in_float32(dtype, exact_below):
    # The second half of each row takes the first one away again, except for a small rest.
    large = integers(2, 32_768, low=exact_below // 2, high=exact_below, dtype=dtype)
    x = torch.cat([large, integers(2, 32_768, dtype=dtype) - large], dim=1)
    puzzle.check_exactly(*ragged(x, 65_536, 65_536))


def test_numerics_nan_within_the_length():
    x, lengths = ragged(randn(3, 20_000), 20_000, 20_000, 20_000)
    x[0, 5], x[1, 19_999] = float("nan"), float("nan")
    puzzle.check(x, lengths)


def test_traffic():
    x, lengths = ragged(randn(4, 20_000), 20_000, 5000, 1, 0)
    puzzle.traffic(x, lengths).check(
        reads={"x": int(lengths.sum()) / x.numel()}, writes=1, launches=2, sectors={"x": 1.1}
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*ragged(randn(3, 20_000, dtype=dtype), 2, 300, 20_000))


def test_speedup():
    x = randn(256, 2**20, dtype="bfloat16")
    lengths = integers(256, low=0, high=2**20, dtype="int64")
    half = int(lengths.sum()) * x.element_size()
    puzzle.race(x, lengths, at_least=6, bytes_moved=half)
