"""What 02.1, outer addition, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor

puzzle = challenge("outer_add")


def two(M, N, dtype="float32", make=randn):
    return make(M, dtype=dtype), make(N, dtype=dtype)


@cases(
    single_element=(1, 1),
    one_row=(1, 3000),
    one_column=(3000, 1),
    wide=(7, 900),
    tall=(900, 7),
)
def test_shapes(M, N):
    puzzle.check(*two(M, N))


def test_shapes_of_bad_input():
    x, y = two(4, 5)
    puzzle.rejects(ValueError, x[None], y, naming="x")
    puzzle.rejects(ValueError, x[0], y, naming="x")
    puzzle.rejects(ValueError, x, y[0], naming="y")
    puzzle.rejects(ValueError, x, y[:, None], naming="y")
    puzzle.rejects(ValueError, x, y.half(), naming="y")


@cases(
    one_short_of_a_block=(63, 255),
    one_past_a_block=(65, 257),
    whole_blocks=(64, 256),
    ragged_everywhere=(67, 131),
    last_block_of_many_columns=(20, 1300),
)
def test_masks(M, N):
    puzzle.check(*two(M, N, make=integers))


def test_masks_both_strides_differ():
    x, y = two(40, 70, make=integers)
    puzzle.check(strided(x, 2), strided(y, 5))


def test_masks_unaligned():
    x, y = two(40, 70, make=integers)
    puzzle.check(offset(x), offset(y, 3))


def test_masks_one_element_repeated():
    x, y = two(1, 70, make=integers)
    puzzle.check(x.expand(50), y)
    puzzle.check(y, x.expand(50))


def test_masks_the_same_tensor_twice():
    x = integers(70)
    puzzle.check(x, x)


def test_masks_offsets_beyond_32_bits():
    x, y = integers(3, dtype="float16"), integers(5, dtype="float16")
    puzzle.check_offsets(far_apart(x), y)
    puzzle.check_offsets(y, far_apart(x))


def test_masks_result_beyond_32_bits():
    x = randn(1, dtype="float16")
    puzzle.check_large_offsets(x.expand(2**16), x.expand(2**15 + 1))


@cases(rows=(2**23 + 1, 1), columns=(1, 2**21 + 1))
def test_masks_more_tiles_than_axis_1_takes(M, N):
    puzzle.check_grid(*two(M, N, dtype="float16"))


@dtypes("float16", "bfloat16", "float32", "int32")
def test_numerics(dtype):
    wanted = tensor([], dtype).dtype
    puzzle.check((randn(90) * 100).to(wanted), (randn(200) * 100).to(wanted))


def test_numerics_integers_that_float32_cannot_hold():
    puzzle.check(tensor([2**24 + 1, 2**30 + 1], "int32"), tensor([0, 2, -5], "int32"))


def test_numerics_special_values():
    inf, nan = float("inf"), float("nan")
    puzzle.check(tensor([inf, -inf, nan, 3e38, -0.0]), tensor([1.0, -inf, 3e38, -0.0]))


@cases(wide=(64, 512), tall=(512, 64))
def test_traffic(M, N):
    puzzle.traffic(*two(M, N)).check(
        reads={"x": -(-N // 16), "y": -(-M // 16)}, writes=1, launches=1, sectors={"result": 1.1}
    )


def test_traffic_with_gaps():
    x, y = two(64, 512)
    puzzle.traffic(strided(x, 3), strided(y, 2)).check(
        reads={"x": 32, "y": 4}, writes=1, launches=1
    )


@dtypes("bfloat16", "float32")
def test_compiles(dtype):
    puzzle.compiles(*two(67, 131, dtype))


def test_compiles_single_element():
    puzzle.compiles(*two(1, 1))


def test_speedup():
    puzzle.race(*two(16384, 16384), at_least=0.9)
