"""Tests of 08.4, L1 norms, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("l1_norms", names_causes=False)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    puzzle.check_or_raises(randn(10), names="x")
    puzzle.check_or_raises(randn(2, 3, 4), names="x")


def test_shapes_x_of_another_dtype():
    puzzle.check_or_raises(integers(4, 5, dtype="int32"), names="x")
    puzzle.check_or_raises(randn(4, 5).double(), names="x")


# Any size and layout.


@cases(no_rows=(0, 5), no_columns=(5, 0))
def test_shapes(M, N):
    puzzle.check(randn(M, N))


@cases(more_rows_than_columns=(130, 7), very_long=(1, 2**18 + 1))
def test_masks(M, N):
    puzzle.check(integers(M, N))


def test_masks_transposed():
    puzzle.check(integers(3000, 41).T)


def test_masks_both_strides():
    puzzle.check(strided(integers(5, 9000), 2, 3))


def test_masks_unaligned():
    puzzle.check(offset(integers(20, 256)))


@cases(rows=((1, 300), (20, 300)), columns=((20, 1), (20, 5000)))
def test_masks_expanded(shape, to):
    puzzle.check(integers(*shape).expand(*to))


def test_masks_offsets_beyond_32_bits():
    x = far_apart(integers(3, dtype="float16"))
    puzzle.check_offsets(x[:, None])
    puzzle.check_offsets(x[None, :])


@cases(of_1024=1025, of_2048=2049, of_4096=4097, of_8192=8193)
def test_masks_steps_beyond_32_bits(N):
    # Only a stride times the length of a step overflows.
    puzzle.check(far_apart(integers(N, dtype="float16"))[None, :])


def test_masks_more_rows_than_axis_1_takes():
    puzzle.check_grid(integers(1, 1025, dtype="float16").expand(65537, 1025))


def test_masks_limits():
    def build(M, N):
        # The last element is the largest: the rounding of a long sum hides a small one.
        x = integers(M, N, low=1)
        x[..., -1] = 1000
        return (x,)

    puzzle.limits(build, dtypes=FLOATS, M=2**17, N=2**18)


# Any value.


def test_numerics_special_values_stay_in_their_row():
    inf, nan = float("inf"), float("nan")
    x = randn(5, 5000)
    x[0, 3], x[1, 4999], x[2, 700] = inf, -inf, nan
    x[3, 0], x[3, 3000] = inf, -inf
    puzzle.check(x)
    puzzle.check(tensor([[0.0, -0.0], [-inf, 1.0], [1e30, -1.0]]))


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(6, 5000, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    puzzle.traffic(randn(5000, 48).T).check(reads=1, writes=1, launches=1)


def test_compiles_one_column():
    puzzle.compiles(randn(300, 1))


def test_compiles_transposed():
    puzzle.compiles(randn(3000, 41).T)


def test_speedup():
    puzzle.race(randn(32768, 8192, dtype="bfloat16"), at_least=0.9, baseline="solution")
