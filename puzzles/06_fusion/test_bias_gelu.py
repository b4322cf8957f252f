"""What 06.2, bias and GELU, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor, uniform

puzzle = challenge("bias_gelu")


@cases(
    one_row=(1, 1000),
    one_column=(1000, 1),
    wide=(3, 2100),
    tall=(300, 17),
    single_element=(1, 1),
)
def test_shapes(M, N):
    puzzle.check(randn(M, N), randn(N))


def test_shapes_of_bad_input():
    x, bias = randn(8, 5), randn(5)
    puzzle.rejects(ValueError, x[0], bias, naming="x")
    puzzle.rejects(ValueError, randn(2, 4, 5), bias, naming="x")
    puzzle.rejects(ValueError, integers(8, 5, dtype="int32"), bias, naming="x")
    puzzle.rejects(ValueError, x.double(), bias.double(), naming="x")
    puzzle.rejects(ValueError, x, randn(8), naming="bias")
    puzzle.rejects(ValueError, x, bias[:1], naming="bias")
    puzzle.rejects(ValueError, x, bias[None], naming="bias")
    puzzle.rejects(ValueError, x, bias.half(), naming="bias")


@cases(
    one_past_a_power_of_two=(17, 129),
    one_short_of_a_power_of_two=(15, 63),
    ragged=(35, 131),
)
def test_masks(M, N):
    puzzle.check(integers(M, N), integers(N))


def test_masks_transposed():
    puzzle.check(randn(70, 40).T, randn(70))


def test_masks_all_strides_differ():
    puzzle.check(strided(randn(37, 50), 2, 3), strided(randn(50), 5))


def test_masks_unaligned():
    puzzle.check(offset(randn(20, 64)), offset(randn(64), 3))


def test_masks_one_row_repeated():
    puzzle.check(randn(1, 70).expand(40, 70), randn(1).expand(70))


def test_masks_more_tiles_than_axis_1_takes():
    puzzle.check_grid(randn(2**23, 1, dtype="float16"), randn(1, dtype="float16"))


def test_masks_offsets_beyond_32_bits():
    far, near = far_apart(integers(3, dtype="float16")), integers(3, dtype="float16")
    puzzle.check(far[:, None], near[:1])
    puzzle.check(far[None, :], near)
    puzzle.check(near[None, :], far)


def test_masks_result_beyond_32_bits():
    x, bias = randn(1, 1025, dtype="float16"), randn(1025, dtype="float16")
    puzzle.check_large_offsets(x.expand(2**21 + 1, 1025), bias)


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(randn(20, 150, dtype=dtype), randn(150, dtype=dtype))


@dtypes("float16", "bfloat16", "float32")
def test_numerics_erf_and_not_tanh(dtype):
    # The approximation by tanh is off by up to 5e-4.
    puzzle.check(uniform(20, 150, low=-6, high=6, dtype=dtype), integers(150, dtype=dtype))


@dtypes("float16")
def test_numerics_sum_in_float32(dtype):
    # In float16 the sum is -inf and its gelu NaN.
    puzzle.check(tensor([[-60000.0, 1.0]], dtype), tensor([-60000.0, 1.0], dtype))


def test_numerics_sum_between_two_numbers_of_bfloat16():
    x, bias = tensor([[-2.0, -2.25, -2.75, -3.0]]), tensor([-1.0, 3.0, 3.0, 1.0]) / 128
    puzzle.check_exactly(x.bfloat16(), bias.bfloat16())


def test_numerics_special_values():
    x, bias = randn(5, 70), randn(70)
    x[1, 0], x[2, 69], bias[7] = float("inf"), float("nan"), float("nan")
    puzzle.check(x, bias)


def test_traffic():
    puzzle.traffic(randn(64, 256, dtype="float16"), randn(256, dtype="float16")).check(
        reads={"x": 1}, writes=1, launches=1, sectors={"x": 1.1, "result": 1.1}
    )


def test_traffic_transposed():
    puzzle.traffic(randn(40, 48).T, randn(40)).check(reads={"x": 1}, writes=1, launches=1)


def test_compiles():
    puzzle.compiles(randn(40, 256, dtype="bfloat16"), randn(256, dtype="bfloat16"))


def test_compiles_transposed():
    puzzle.compiles(randn(70, 40).T, randn(70))


def test_speedup():
    puzzle.race(randn(8192, 8192, dtype="bfloat16"), randn(8192, dtype="bfloat16"), at_least=1.5)
