"""Tests of 02.6, upper triangle."""

import torch

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("triu", exact=True)


@cases(
    whole_tiles=(64, 128),
    wide=(7, 900),
    tall=(900, 7),
    one_row=(1, 300),
    one_column=(300, 1),
    single_element=(1, 1),
)
def test_shapes(M, N):
    puzzle.check(integers(M, N, low=1))


@cases(
    ragged_everywhere=(67, 131),
    one_past_a_tile=(65, 129),
    one_short_of_a_tile=(63, 127),
    many_rows=(2100, 20),
    many_columns=(20, 2100),
)
def test_masks(M, N):
    puzzle.check(randn(M, N))


@cases(
    one_above=1,
    one_below=-1,
    far_above=50,
    far_below=-50,
    nothing_kept=131,
    everything_kept=-67,
)
def test_masks_diagonal(diagonal):
    puzzle.check(randn(67, 131), diagonal)


def test_numerics_nan_below_the_diagonal():
    x = torch.full_like(randn(50, 70), float("nan"))
    x[:20, 40:] = float("inf")
    puzzle.check(x, 20)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(40, 90, dtype=dtype))


@cases(main=0, all_but_a_corner=-200, last_column=255)
def test_traffic(diagonal):
    kept = int(torch.ones(256, 256).triu(diagonal).sum())
    puzzle.traffic(randn(256, 256), diagonal).check(
        reads={"x": kept / 256**2}, writes=1, launches=1, sectors={"result": 1.1}
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(67, 131, dtype=dtype), 1)


def test_speedup():
    # Half of x is never loaded.
    puzzle.race(randn(16384, 16384), at_least=0.5, bytes_moved=6 * 16384**2)
