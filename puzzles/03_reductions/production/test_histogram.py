"""Tests of 03.7, histogram, in production."""

from course.challenge import challenge
from course.inputs import cases, far_apart, integers, offset, randn, strided, tensor

puzzle = challenge("histogram")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_of_another_dtype():
    x = integers(10, low=0, dtype="int32")
    puzzle.check_or_raises(randn(10), 4, names="x", answer=False)
    puzzle.check_or_raises(x.short(), 4, names="x")
    puzzle.check_or_raises(x.char(), 4, names="x")
    puzzle.check_or_raises(x.bool(), 4, names="x")


def test_shapes_no_bins():
    x = integers(10, low=0, dtype="int32")
    puzzle.check_or_raises(x, 0, names="bins")
    puzzle.check_or_raises(x, -1, names="bins")


# Any size and layout.


@cases(
    scalar=((),),
    matrix=((33, 41),),
    five_dimensions=((3, 2, 5, 1, 7),),
    nothing=((0,),),
    empty_dimension=((4, 0, 3),),
)
def test_shapes(shape):
    puzzle.check(integers(*shape, low=0, high=10, dtype="int32"), 10)


def test_shapes_thousands_of_bins():
    puzzle.check(integers(3000, low=0, high=5000, dtype="int32"), 5000)


def test_masks_masked_lanes():
    # Masked lanes of a load without `other` spoil the result here.
    puzzle.check(integers(1025, low=0, high=100, dtype="int32"), 100)


def test_masks_many_programs():
    puzzle.check(integers(300_000, low=0, high=100, dtype="int64"), 100)


def test_masks_many_blocks():
    # More than 1024 programs of 1024 elements, and more than 4096 of 8192.
    puzzle.check(integers(2**21 + 77, dtype="int32"), 5)
    puzzle.check_grid(integers(1, low=1, dtype="int32").expand(2**25 + 77), 5)


def test_masks_permuted():
    x = integers(3, 4, 5, 21, low=0, high=9, dtype="int32")
    puzzle.check(x.permute(3, 1, 0, 2), 9)


def test_masks_gaps():
    puzzle.check(strided(integers(3, 4, 5, 6, low=0, high=9, dtype="int64"), 2, 1, 3, 2), 9)


def test_masks_gaps_in_five_dimensions():
    x = integers(3, 4, 5, 6, 7, low=0, high=9, dtype="int32")
    puzzle.check(x.permute(4, 2, 0, 1, 3)[::2, :, :, ::3], 9)


def test_masks_unaligned():
    puzzle.check(offset(integers(20, 301, low=0, high=9, dtype="uint8")), 9)


def test_masks_expanded():
    puzzle.check(integers(7, 1, 30, low=0, high=9, dtype="int32").expand(7, 20, 30), 9)


def test_masks_offsets_beyond_32_bits():
    puzzle.check(far_apart(tensor([1, 2, 3], dtype="int32")), 4)


def test_masks_limits():
    def build(N, bins):
        x = integers(N, low=0, high=bins, dtype="int32")
        x[-1] = bins - 1
        return x, bins

    puzzle.limits(build, dtypes=("int32", "int64", "uint8"), N=2**20, bins=2**17)


def test_masks_limits_of_dimensions():
    def build(dims):
        return strided(integers(*[2] * dims, low=0, high=9, dtype="int32"), *[2] * dims), 9

    puzzle.limits(build, dims=range(10))


# Any value.


@cases(no_power_of_two=100, power_of_two=64, one=1, thousands=3000)
def test_numerics_values_out_of_range(bins):
    puzzle.check(integers(6000, low=-bins, high=3 * bins, dtype="int32"), bins)


@cases(no_power_of_two=100, power_of_two=128, one=1, thousands=3000)
def test_numerics_just_out_of_range(bins):
    around = [-bins - 1, -bins, -2, -1, 0, bins - 1, bins, bins + 1, 2 * bins, 4096, 8192]
    puzzle.check(tensor([*around, 2**31 - 1, -(2**31)], "int32"), bins)
    puzzle.check(tensor(around, "int64"), bins)


def test_numerics_values_beyond_32_bits():
    puzzle.check(tensor([2**32 + 1, -(2**32) + 2, 2**40, 2**63 - 1, -(2**63), 3], "int64"), 5)


@cases(all_values=256, more_bins_than_values=300, half=128)
def test_numerics_all_bytes(bins):
    puzzle.check(integers(5001, low=0, high=256, dtype="uint8"), bins)


def test_numerics_all_elements_equal_among_thousands_of_bins():
    puzzle.check(integers(20_000, low=7, high=8, dtype="int32"), 3000)


def test_numerics_none_in_range():
    puzzle.check(integers(3000, low=50, high=90, dtype="int32"), 50)


# Traffic, compilation and speed of what the first level leaves out.


@cases(thousands_of_bins=3000, as_many_bins=20_000)
def test_traffic(bins):
    x = integers(20_000, low=0, high=bins, dtype="int32")
    puzzle.traffic(x, bins).check(reads={"x": 1}, sectors={"x": 1.1}, scratch=10)


def test_traffic_transposed_with_gaps():
    x = strided(integers(200, 100, low=0, high=10, dtype="int32"), 2, 3)
    puzzle.traffic(x.T, 10).check(reads={"x": 1})


def test_compiles_bytes():
    puzzle.compiles(integers(20_000, low=0, high=100, dtype="uint8"), 100)


@cases(one=1, no_power_of_two=7, thousands=3000, more_than_a_block_takes=2**20 + 1)
def test_compiles_number_of_bins(bins):
    puzzle.compiles(integers(3000, low=0, high=bins, dtype="int32"), bins)


def test_speedup():
    x = integers(2**26, low=0, high=256, dtype="int32")
    puzzle.race(x, 256, at_least=0.9, baseline="solution")
