"""What 01.5, polynomial, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor, uniform

puzzle = challenge("polynomial")

EIGHT = (0.5, -1.25, 2.0, 0.75, -0.5, 1.5, -2.25, 1.0)


@cases(
    scalar=((),),
    vector=((1000,),),
    matrix=((33, 41),),
    four_dimensions=((3, 1, 5, 77),),
    empty=((0, 3),),
)
def test_shapes(shape):
    puzzle.check(randn(*shape), (1.0, 2.0, 3.0))


@cases(one=1, two=2, three=3, seven=7, eight=8)
def test_shapes_number_of_coefficients(count):
    puzzle.check(randn(100), EIGHT[:count])


def test_shapes_of_bad_input():
    puzzle.rejects(ValueError, randn(1, 2, 1, 2, 1), (1.0,), naming="x")
    puzzle.rejects(ValueError, integers(4, dtype="int32"), (1.0,), naming="x")
    puzzle.rejects(ValueError, randn(4), (), naming="coefficients")
    puzzle.rejects(ValueError, randn(4), (*EIGHT, 1.0), naming="coefficients")


@cases(single_element=1, one_short_of_a_block=1023, one_past_a_block=1025, ragged=1279)
def test_masks(N):
    puzzle.check(integers(N), (3, -2, 1))


@cases(transposed=(1, 0, 2, 3), reversed=(3, 2, 1, 0), rotated=(1, 2, 3, 0))
def test_masks_permuted(a, b, c, d):
    puzzle.check(randn(3, 4, 5, 21).permute(a, b, c, d), EIGHT[:4])


def test_masks_gaps():
    puzzle.check(strided(randn(3, 4, 5, 6), 2, 1, 3, 2), EIGHT[:4])


def test_masks_unaligned():
    puzzle.check(offset(randn(20, 30)), EIGHT[:4])


@cases(matrix=((70_000, 2),), four_dimensions=((300, 300, 1, 2),))
def test_masks_more_rows_than_axis_1_takes(shape):
    puzzle.check_grid(randn(*shape), EIGHT[:4])


def test_masks_offsets_beyond_32_bits():
    puzzle.check_offsets(far_apart(integers(3, dtype="float16")), EIGHT[:4])


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, dtype="float16").expand(2**31 + 77), EIGHT[:4])


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(uniform(3000, low=-1.5, high=1.5, dtype=dtype), EIGHT)


@dtypes("float16", "bfloat16")
def test_numerics_steps_in_float32(dtype):
    # 4097 has no room in 16 bits, and is needed on the way to 1.
    puzzle.check_exactly(tensor([1.0], dtype), (-4096, 4097, 0))


def test_numerics_order_of_coefficients():
    puzzle.check(tensor([0.0, 1.0, 2.0, 10.0, -1.0]), (1, 2, 3, 4, 5))


def test_numerics_special_values():
    puzzle.check(tensor([float("inf"), float("nan"), 1e20]), (1.0, 1.0, 1.0))


def test_traffic():
    puzzle.traffic(randn(5000), EIGHT).check(reads={"x": 1}, writes=1, launches=1, sectors=1.1)


def test_traffic_transposed():
    puzzle.traffic(randn(40, 48).T, EIGHT).check(reads={"x": 1}, writes=1, launches=1)


def test_compiles():
    puzzle.compiles(randn(5000, dtype="bfloat16"), EIGHT)


def test_compiles_one_coefficient():
    puzzle.compiles(randn(3, 4, 5, 21).permute(3, 2, 1, 0), (2,))


def test_speedup():
    puzzle.race(randn(2**26), EIGHT, at_least=4)
