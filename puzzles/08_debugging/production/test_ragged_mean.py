"""Tests of 08.2, ragged mean, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    INDICES,
    cases,
    far_apart,
    integers,
    offset,
    randn,
    strided,
    tensor,
)
from course.values import special_values

puzzle = challenge("ragged_mean", deterministic=True, names_causes=False)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    puzzle.check_or_raises(randn(10), tensor([3], "int64"), names="x", answer=False)
    puzzle.check_or_raises(randn(2, 3, 4), tensor([3, 3], "int64"), names="x", answer=False)


def test_shapes_x_of_another_dtype():
    lengths = tensor([3, 5], "int64")
    puzzle.check_or_raises(integers(2, 5, dtype="int32"), lengths, names="x", answer=False)
    puzzle.check_or_raises(randn(2, 5).double(), lengths, names="x")


def test_shapes_lengths_do_not_fit():
    x = randn(2, 5)
    puzzle.check_or_raises(x, tensor([3, 5, 1], "int64"), names="lengths", answer=False)
    puzzle.check_or_raises(x, tensor([[3, 5]], "int64"), names="lengths", answer=False)
    puzzle.check_or_raises(x, tensor([3.0, 5.0]), names="lengths", answer=False)
    puzzle.check_or_raises(x, tensor([3, 5], "int16"), names="lengths")


# Any size and layout.


@cases(no_rows=(0, 5), no_columns=(3, 0))
def test_shapes(B, T):
    puzzle.check(randn(B, T), integers(B, low=0, high=1, dtype="int64"))


def test_masks_transposed():
    puzzle.check(integers(5000, 3).T, tensor([5000, 4097, 20], "int64"))


def test_masks_all_strides_differ():
    x, lengths = integers(3, 5000), tensor([20, 5000, 4097], "int32")
    puzzle.check(strided(x, 2, 3), strided(lengths, 2))


def test_masks_unaligned():
    puzzle.check(offset(integers(3, 5000)), offset(tensor([5000, 4097, 20], "int64")))


def test_masks_expanded():
    x, lengths = integers(1, 5000), tensor([4097], "int64")
    puzzle.check(x.expand(3, 5000), tensor([20, 5000, 4097], "int64"))
    puzzle.check(integers(3, 1).expand(3, 5000), lengths.expand(3))


def test_masks_offsets_beyond_32_bits():
    x = far_apart(integers(3, dtype="float16"))
    puzzle.check_offsets(x[:, None], tensor([1, 1, 1], "int32"))
    puzzle.check_offsets(x[None, :], tensor([3], "int32"))


def test_masks_more_rows_than_axis_1_takes():
    lengths = tensor([3], "int64").expand(65537)
    puzzle.check_grid(integers(1, 5000, dtype="float16").expand(65537, 5000), lengths)


def test_masks_limits():
    def build(B, T):
        # The last element is the largest: the rounding of a long sum hides a small one.
        x = integers(B, T, low=1)
        x[..., -1] = 1000
        return x, tensor([T] * B, "int64")

    puzzle.limits(build, dtypes={"x": FLOATS, "lengths": INDICES}, B=2**17, T=2**18)


# Any value.


def test_numerics_special_values_stay_in_their_row():
    x, inf = randn(4, 9000), float("inf")
    x[0, 3], x[1, 8999], x[2, 700] = inf, -inf, inf
    x[3, 0], x[3, 5000] = inf, -inf
    puzzle.check(x, tensor([9000, 9000, 600, 9000], "int64"))


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(4, 900, dtype="float16"), tensor([900, 7, 450, 900], "int64")), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    puzzle.traffic(randn(9000, 4).T, tensor([9000, 5000, 1, 0], "int64")).check(
        reads={"x": 14_001 / 36_000}, writes=1, launches=2
    )


def test_compiles_transposed():
    puzzle.compiles(randn(5000, 3).T, tensor([20, 5000, 4097], "int32"))


def test_compiles_one_column():
    puzzle.compiles(randn(3, 1), tensor([1, 0, 1], "int32"))


def test_speedup():
    x = randn(256, 2**20, dtype="bfloat16")
    lengths = integers(256, low=0, high=2**20, dtype="int64")
    half = int(lengths.sum()) * x.element_size()
    puzzle.race(x, lengths, at_least=0.9, baseline="solution", bytes_moved=half)
