"""Tests of 11.1, quantize rows."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor

# q may be off by 1, which where no quotient is near n + 1/2 it need not be.
puzzle = challenge("quantize_rows", results=("q", "scale"), exact=False)
without_ties = challenge("quantize_rows", results=("q", "scale"))


def quarters(M, N, part, unit=1.0):
    """Multiples of `unit` plus or minus a part of it; the largest of each row is 127."""
    x = integers(M, N, low=-126, high=127) + part * (2 * integers(M, N, low=0, high=2) - 1)
    x[:, N // 2] = 127 * (2 * integers(M, low=0, high=2) - 1)
    return x * unit


@cases(one_row=(1, 1000), more_rows_than_columns=(130, 7), one_column=(300, 1), single=(1, 1))
def test_shapes(M, N):
    puzzle.check(randn(M, N))


@cases(
    last_block_of_rows_ragged=(67, 48),
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    long=(2, 40001),
)
def test_masks(M, N):
    x = randn(M, N)
    puzzle.check(x)
    x[:, -1] = -9
    puzzle.check(x)


def test_masks_transposed():
    puzzle.check(randn(300, 41).T)


@cases(scale_1=1.0, scale_small=2.0**-20)
def test_numerics_rounded_to_nearest(unit):
    without_ties.check(quarters(16, 400, 0.25, unit))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    x = randn(17, 3000, dtype=dtype)
    puzzle.check(x * (1 + integers(17, 1, low=0, high=50, dtype=dtype)))


def test_numerics_rows_of_zeros():
    x = randn(5, 300)
    x[1], x[4] = 0, 0
    puzzle.check(x)


def test_numerics_largest_is_negative():
    puzzle.check(tensor([[-127.0, 3.0, 20.0], [5.0, -254.0, 6.0]]).repeat(1, 30))


@dtypes("float32", "bfloat16")
def test_numerics_range(dtype):
    puzzle.check(randn(4, 300, dtype=dtype) * 1e6)
    puzzle.check(randn(4, 300, dtype=dtype) * 1e-6)


@cases(short_rows=(48, 1000), long_rows=(3, 20000))
def test_traffic(M, N):
    puzzle.traffic(randn(M, N, dtype="float16")).check(
        reads={"x": 1}, writes=1, launches=1, sectors=1.2
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(37, 1000, dtype=dtype))


def test_speedup():
    puzzle.race(randn(16384, 4096, dtype="bfloat16"), at_least=8)
