"""Tests of 08.5, running sum, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("running_sum", deterministic=True, names_causes=False)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_vector():
    puzzle.check_or_raises(randn(3, 4), names="x")
    puzzle.check_or_raises(randn(), names="x")


def test_shapes_x_of_another_dtype():
    puzzle.check_or_raises(integers(5, dtype="int32"), names="x")
    puzzle.check_or_raises(randn(5).double(), names="x")


# Any size and layout.


@cases(every_third=3, every_second=2)
def test_masks_with_gaps(step):
    puzzle.check(strided(integers(20_000), step))


def test_masks_unaligned():
    puzzle.check(offset(integers(20_000)))


def test_masks_expanded():
    puzzle.check(integers(1, low=1).expand(20_000))


@cases(three=3, blocks_of_1024=1025, blocks_of_4096=4097, blocks_of_8192=8193)
def test_masks_offsets_beyond_32_bits(N):
    puzzle.check(far_apart(integers(N, dtype="float16")))


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(integers(1, dtype="float16").expand(2**31 + 5000))


def test_masks_limits():
    puzzle.limits(lambda N: (integers(N, low=1),), dtypes=FLOATS, N=2**21)


# Any value.


@cases(nan=float("nan"), inf=float("inf"), minus_inf=float("-inf"))
def test_numerics_special_values_stay_from_their_place_on(value):
    x = randn(20_000)
    x[9000] = value
    puzzle.check(x)


def test_numerics_inf_minus_inf():
    x = randn(20_000)
    x[3], x[12_000] = float("inf"), float("-inf")
    puzzle.check(x)
    puzzle.check(tensor([0.0, -0.0, float("inf"), 1.0]))


def test_numerics_large_terms_cancel():
    x = randn(20_000)
    x[7], x[15_000] = 1e5, -1e5
    puzzle.check(x)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(9000, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_with_gaps():
    N = 50_000
    puzzle.traffic(strided(randn(N), 2)).check(
        total_reads=2.1 * N, total_writes=2.1 * N, scratch=1, programs_at_least=4
    )


@cases(single_element=1, many_blocks=2**19 + 5)
def test_compiles(N):
    puzzle.compiles(randn(N))


def test_compiles_with_gaps():
    puzzle.compiles(strided(randn(20_000, dtype="float16"), 3))


def test_speedup():
    puzzle.race(randn(2**27), at_least=0.9, baseline="solution")
