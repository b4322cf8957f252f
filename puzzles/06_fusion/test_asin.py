"""What 06.5, arc sine, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor, uniform

puzzle = challenge("asin")


def within(*shape, dtype="float32"):
    return uniform(*shape, low=-1, high=1, dtype=dtype)


@cases(
    scalar=((),),
    vector=((1000,),),
    matrix=((33, 41),),
    three_dimensions=((5, 6, 37),),
    four_dimensions=((3, 1, 5, 77),),
    empty=((0,),),
)
def test_shapes(shape):
    puzzle.check(within(*shape))


def test_shapes_of_bad_input():
    puzzle.rejects(ValueError, within(1, 2, 1, 2, 1), naming="x")
    puzzle.rejects(ValueError, integers(4, dtype="int32"), naming="x")
    puzzle.rejects(ValueError, within(4, dtype="float64"), naming="x")


@cases(single_element=1, one_short_of_a_block=1023, one_past_a_block=1025, ragged=1279)
def test_masks(N):
    puzzle.check(within(N))


@cases(transposed=(1, 0, 2, 3), reversed=(3, 2, 1, 0), rotated=(1, 2, 3, 0))
def test_masks_permuted(a, b, c, d):
    puzzle.check(within(3, 4, 5, 21).permute(a, b, c, d))


def test_masks_gaps():
    puzzle.check(strided(within(3, 4, 5, 6), 2, 1, 3, 2))


def test_masks_unaligned():
    puzzle.check(offset(within(20, 30)))


def test_masks_expanded():
    puzzle.check(within(1, 30).expand(20, 30))


def test_masks_offsets_beyond_32_bits():
    puzzle.check(far_apart(within(3, dtype="float16")))


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, dtype="float16").expand(2**31 + 77))


@cases(matrix=((70_000, 2),), four_dimensions=((300, 300, 1, 2),))
def test_masks_more_rows_than_axis_1_takes(shape):
    puzzle.check_grid(within(*shape))


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(within(3000, dtype=dtype))


def test_numerics_near_the_ends_and_near_zero():
    near = uniform(500, high=1e-4)
    puzzle.check(1 - near)
    puzzle.check(near - 1)
    puzzle.check(near * 1e-4)


@dtypes("float16", "bfloat16", "float32")
def test_numerics_outside_the_domain(dtype):
    puzzle.check(randn(500, dtype=dtype) * 2)


def test_numerics_special_values():
    inf, nan = float("inf"), float("nan")
    puzzle.check(tensor([1.0, -1.0, 0.0, -0.0, 1.0000001, -1.0000001, inf, -inf, nan, 1e-40]))


def test_traffic():
    puzzle.traffic(within(5000)).check(reads={"x": 1}, writes=1, launches=1, sectors=1.1)


def test_traffic_transposed():
    puzzle.traffic(within(40, 48).T).check(reads={"x": 1}, writes=1, launches=1)


def test_compiles():
    puzzle.compiles(within(5000, dtype="bfloat16"))


def test_compiles_permuted():
    puzzle.compiles(within(3, 4, 5, 21).permute(3, 2, 1, 0))


def test_speedup():
    puzzle.race(within(2**26), at_least=0.9)
