"""What 01.3, fused multiply-add, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor

puzzle = challenge("fused_multiply_add")


def three(*shape, dtype="float32", make=randn):
    return make(*shape, dtype=dtype), make(*shape, dtype=dtype), make(*shape, dtype=dtype)


@cases(
    scalar=((),),
    vector=((1000,),),
    matrix=((33, 41),),
    three_dimensions=((5, 6, 37),),
    four_dimensions=((3, 1, 5, 77),),
    empty_dimension=((4, 0, 3),),
)
def test_shapes(shape):
    puzzle.check(*three(*shape))


def test_shapes_of_bad_input():
    x, y, z = three(4, 5)
    puzzle.rejects(ValueError, *three(1, 2, 1, 2, 1), naming="x")
    puzzle.rejects(ValueError, x, y.T, z, naming="y")
    puzzle.rejects(ValueError, x, y.half(), z, naming="y")
    puzzle.rejects(ValueError, x, y, z[:1], naming="z")
    puzzle.rejects(ValueError, x, y, z.half(), naming="z")


@cases(single_element=1, one_short_of_a_block=1023, one_past_a_block=1025, ragged=1279)
def test_masks(N):
    puzzle.check(*three(N, make=integers))


def test_masks_transposed():
    x, y, z = three(40, 31, make=integers)
    puzzle.check(x.T, y.T.contiguous(), z.T)


def test_masks_all_strides_differ():
    x, y, z = three(3, 4, 5, 21, make=integers)
    puzzle.check(x.permute(1, 0, 2, 3).transpose(0, 1), strided(y, 2, 1, 3, 2), offset(z))


def test_masks_permuted():
    x, y, z = three(3, 4, 5, 21, make=integers)
    puzzle.check(x.permute(3, 1, 0, 2), y.permute(3, 1, 0, 2), z.permute(3, 1, 0, 2).contiguous())


def test_masks_expanded():
    x, y, z = integers(1, 30), integers(20, 1), integers(20, 30)
    puzzle.check(x.expand(20, 30), y.expand(20, 30), z)


@cases(matrix=((70_000, 2),), four_dimensions=((300, 300, 1, 2),))
def test_masks_more_rows_than_axis_1_takes(shape):
    puzzle.check_grid(*three(*shape))


def test_masks_offsets_beyond_32_bits():
    x, y, z = three(3, dtype="float16", make=integers)
    puzzle.check_offsets(far_apart(x), y, z)
    puzzle.check_offsets(x, far_apart(y), z)
    puzzle.check_offsets(x, y, far_apart(z))


def test_masks_result_beyond_32_bits():
    x = randn(1, dtype="float16").expand(2**31 + 77)
    puzzle.check_large_offsets(x, x, x)


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*three(3000, dtype=dtype))


def test_numerics_one_rounding():
    tiny = 2.0**-12
    x = tensor([1 + tiny, 1 + tiny, 1 - tiny, 3.0])
    y = tensor([1 + tiny, 1 - tiny, 1 - tiny, 1 / 3])
    z = tensor([-(1 + 2 * tiny), -1.0, -(1 - 2 * tiny), -1.0])
    puzzle.check_exactly(x, y, z)


@dtypes("float16", "bfloat16")
def test_numerics_product_in_float32(dtype):
    tiny = 2.0**-5
    x = tensor([1 + tiny, 1 + tiny, 3.0, 300.0], dtype)
    y = tensor([1 + tiny, 1 - tiny, 1 / 3, 300.0], dtype)
    z = tensor([-(1 + 2 * tiny), -1.0, -1.0, -6e4], dtype)
    puzzle.check_exactly(x, y, z)


def test_traffic():
    puzzle.traffic(*three(5000)).check(
        reads={"x": 1, "y": 1, "z": 1}, writes=1, launches=1, sectors=1.1
    )


def test_traffic_transposed():
    puzzle.traffic(*(x.T for x in three(40, 48))).check(
        reads={"x": 1, "y": 1, "z": 1}, writes=1, launches=1
    )


def test_compiles():
    puzzle.compiles(*three(5000, dtype="float16"))


def test_compiles_strided():
    x, y, z = three(3, 4, 5, 21)
    puzzle.compiles(x.permute(1, 0, 2, 3).transpose(0, 1), strided(y, 2, 1, 3, 2), z)


def test_speedup():
    puzzle.race(*three(2**26), at_least=1.4)
