"""Tests of 02.5, scale, in production: little is left."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, dtypes, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("scale")
INF, NAN = float("inf"), float("nan")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_float64():
    puzzle.check_or_raises(randn(4, 5).double(), 1 / 3, names="x")


def test_shapes_factor_is_a_tensor():
    puzzle.check_or_raises(randn(4, 5), tensor(2.0), names="factor", error=TypeError)


def test_shapes_factor_is_a_tuple():
    puzzle.check_or_raises(randn(4, 5), (1, 2), names="factor", error=TypeError)


def test_shapes_factor_is_true():
    puzzle.check_or_raises(randn(4, 5), True, names="factor", error=TypeError)


# Any size and layout.


@cases(no_rows=(0, 5), no_columns=(5, 0))
def test_shapes_empty(M, N):
    puzzle.check(randn(M, N), 2.0)


@cases(one_past_a_block=(65, 257), one_short_of_a_block=(63, 255))
def test_masks(M, N):
    puzzle.check(integers(M, N), -2)


def test_masks_unaligned():
    puzzle.check(offset(integers(20, 256), 3), 3)


def test_masks_overlapping_windows():
    puzzle.check(randn(100).unfold(0, 20, 3), 0.5)


def test_masks_limits():
    puzzle.limits(lambda M, N: (randn(M, N), 3), dtypes=FLOATS, M=2**17, N=2**18)


# Any value.


@cases(zero=0, one=1, minus_one=-1, sixteen=16, beyond_32_bits=2**40, beyond_63_bits=2**63)
def test_numerics_whole_factor(factor):
    puzzle.check_exactly(integers(20, 30), factor)


@cases(zero=0.0, two=2.0, infinite=INF, not_a_number=NAN, tiny=1e-40)
def test_numerics_special_values(factor):
    puzzle.check(tensor([[0.0, -0.0, INF, -INF], [NAN, 3e38, 1e-40, -1.5]]), factor)


@dtypes("float16", "bfloat16")
def test_numerics_special_values_of_16_bits(dtype):
    x = tensor([[0.0, INF, NAN, 1.0], [300.0, -3e4, 1e-7, 6e-5]], dtype)
    puzzle.check(x, 300)
    puzzle.check(x, 1e-3)


test_numerics_each_special_value = special_values(puzzle, lambda: (randn(20, 70), 1.5), "x")


# Traffic, compilation and speed of what the first level leaves out.


@cases(long_rows=(3, 9000), many_short_rows=(1024, 32))
def test_traffic(M, N):
    puzzle.traffic(randn(M, N), 0.5).check(reads=1, writes=1, launches=1, sectors=1.1)


@cases(square=(256, 256), wide=(32, 1024), tall=(1024, 32))
def test_traffic_transposed(M, N):
    puzzle.traffic(randn(M, N).T, 0.5).check(reads=1, writes=1, launches=1, sectors=1.1)


def test_traffic_every_second_row():
    x = strided(randn(64, 1024), 2, 1)
    puzzle.traffic(x, 0.5).check(reads=1, writes=1, launches=1, sectors=1.1)


@dtypes("float16", "bfloat16")
def test_traffic_of_narrow_dtypes(dtype):
    x = randn(256, 256, dtype=dtype)
    puzzle.traffic(x, 0.5).check(reads=1, writes=1, launches=1, sectors=1.1)
    puzzle.traffic(x.T, 0.5).check(reads=1, writes=1, launches=1, sectors=1.1)


@cases(one=1, whole=3, beyond_32_bits=2**40)
def test_compiles_whole_factor(factor):
    puzzle.compiles(randn(67, 131), factor)


def test_compiles_transposed():
    puzzle.compiles(randn(128, 256).T, 0.5)


def test_compiles_single_element():
    puzzle.compiles(randn(1, 1), 0.5)


def test_speedup():
    puzzle.race(randn(16384, 8192), 0.5, at_least=0.9, baseline="solution")
