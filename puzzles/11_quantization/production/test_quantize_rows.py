"""Tests of 11.1, quantize rows, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, dtypes, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

# The bits of q and of scale.
puzzle = challenge("quantize_rows", results=("q", "scale"), exact=True)
inf, nan = float("inf"), float("nan")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    puzzle.check_or_raises(randn(10), names="x")
    puzzle.check_or_raises(randn(2, 3, 4), names="x", answer=False)


def test_shapes_x_is_of_integers():
    puzzle.check_or_raises(integers(4, 5, dtype="int32"), names="x")


def test_shapes_rows_are_too_long():
    puzzle.check_or_raises(randn(1, 2**16 + 1), names="x")


# Any size and layout.


def test_masks_masked_lanes():
    # Masked lanes of a load without `other` spoil the result here.
    puzzle.check(randn(67, 43))


@cases(ragged_everywhere=(37, 2500), longest=(2, 2**16))
def test_masks(M, N):
    puzzle.check(randn(M, N))


def test_masks_both_strides():
    puzzle.check(strided(randn(21, 130), 2, 3))


def test_masks_unaligned():
    puzzle.check(offset(randn(20, 256)))


@cases(rows=((1, 300), (20, 300)), columns=((20, 1), (20, 300)))
def test_masks_expanded(shape, to):
    puzzle.check(randn(*shape).expand(*to))


def test_masks_offsets_beyond_32_bits():
    x = far_apart(tensor([1, 5, 3], dtype="float16"))
    puzzle.check(x[:, None])
    puzzle.check(x[None, :])


def test_masks_more_rows_than_axis_1_takes():
    puzzle.check_grid(randn(1, 1025, dtype="float16").expand(2**16, 1025))


def test_masks_result_beyond_32_bits():
    # Results of one byte an element: beyond 2**32 the first and the last tile are 4 GiB apart.
    puzzle.check_large_offsets(randn(1, 1025, dtype="float16").expand(2**22 + 1, 1025))


def test_masks_limits():
    puzzle.limits(lambda M, N: (randn(M, N),), dtypes=FLOATS, M=2**17, N=2**16)


# The bits of PyTorch.


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    x = randn(17, 3000, dtype=dtype)
    puzzle.check(x * (1 + integers(17, 1, low=0, high=50, dtype=dtype)))


def test_numerics_halves_to_even():
    x = integers(16, 400, low=-126, high=126) + 0.5
    x[:, 200] = 127
    puzzle.check(x)


def test_numerics_scale_whose_reciprocal_is_infinite():
    puzzle.check(randn(3, 300) * 1e-37)


def test_numerics_special_values_stay_in_their_row():
    x = randn(6, 700)
    x[0, 3], x[1, 699], x[2, 70] = inf, -inf, nan
    x[3, 0], x[3, 1] = nan, inf
    x[4, 0] = 3e38
    puzzle.check(x)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(6, 300, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_of_the_longest_rows():
    puzzle.traffic(randn(2, 2**16, dtype="float16")).check(
        reads={"x": 1}, writes=1, launches=1, sectors=1.1
    )


def test_traffic_transposed():
    puzzle.traffic(randn(40, 48).T).check(reads={"x": 1}, writes=1, launches=1)


@cases(ragged_rows=(37, 2500), one_column=(200, 1), longest_rows=(2, 2**16))
def test_compiles(M, N):
    puzzle.compiles(randn(M, N), div_rn=True)


def test_compiles_transposed():
    puzzle.compiles(randn(300, 41).T, div_rn=True)


def test_speedup():
    puzzle.race(randn(16384, 4096, dtype="bfloat16"), at_least=0.9, baseline="solution")
