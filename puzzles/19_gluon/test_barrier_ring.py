"""Tests of 19.3, barrier ring."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("barrier_ring", capability=(9, 0))


@cases(
    more_tiles_than_slots=(16, 1024),
    one_tile=(8, 128),
    as_many_tiles_as_slots=(8, 256),
    one_row=(1, 640),
    smallest=(1, 8),
)
def test_shapes(M, N):
    puzzle.check(integers(M, N))


@cases(last_tile_ragged=(16, 712), rows_ragged=(13, 640), ragged_everywhere=(21, 1000))
def test_masks(M, N):
    puzzle.check(integers(M, N))


@cases(**{f"many_rounds_{number}": number for number in range(8)})
def test_masks_other_orders(number):
    # Another case runs in another order: more programs, each with an order of its own.
    puzzle.check(integers(64 + number, 1408))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(24, 1024, dtype=dtype))


def test_traffic():
    puzzle.traffic(randn(32, 1024)).check(reads=1, writes=1, launches=1, sectors=1.1)


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(32, 1024, dtype=dtype), targets=["sm_90"])


def test_speedup():
    puzzle.race(randn(8192, 8192), at_least=0.3)
