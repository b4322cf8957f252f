"""What 05.2, RMS norm, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor

puzzle = challenge("rms_norm")


def layer(M, N, dtype="float32"):
    return randn(M, N, dtype=dtype), randn(N, dtype=dtype)


@cases(
    single_element=(1, 1),
    one_row=(1, 1000),
    one_column=(200, 1),
    more_rows_than_columns=(130, 7),
)
def test_shapes(M, N):
    puzzle.check(*layer(M, N))


def test_shapes_of_bad_input():
    x, weight = layer(4, 5)
    puzzle.rejects(ValueError, x[0], weight, naming="x")
    puzzle.rejects(ValueError, x[None], weight, naming="x")
    puzzle.rejects(ValueError, *[integers(5, 5, dtype="int32")] * 2, naming="x")
    puzzle.rejects(ValueError, *layer(1, 2**15 + 1), naming="x")
    puzzle.rejects(ValueError, x, weight[1:], naming="weight")
    puzzle.rejects(ValueError, x, weight[None], naming="weight")
    puzzle.rejects(ValueError, x, weight.half(), naming="weight")


@cases(
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    last_block_of_rows_ragged=(67, 48),
    ragged_everywhere=(37, 2500),
    longest=(2, 2**15),
)
def test_masks(M, N):
    puzzle.check(*layer(M, N))


def test_masks_whole_numbers():
    x = tensor([2.0, -2.0]).repeat(50).expand(9, 100)
    puzzle.check(x, integers(100), eps=0.0)


def test_masks_transposed():
    x, weight = layer(41, 300)
    puzzle.check(x.T.contiguous().T, weight)


def test_masks_every_stride():
    x, weight = layer(21, 130)
    puzzle.check(strided(x, 2, 3), strided(weight, 2))


def test_masks_unaligned():
    x, weight = layer(20, 256)
    puzzle.check(offset(x), offset(weight, 3))


@cases(rows=((1, 300), (20, 300)), columns=((20, 1), (20, 300)))
def test_masks_expanded(shape, to):
    puzzle.check(randn(*shape).expand(*to), randn(1).expand(300))
    puzzle.check(randn(*shape).expand(*to), randn(300))


def test_masks_more_rows_than_axis_1_takes():
    x, weight = layer(1, 1025, "float16")
    puzzle.check_grid(x.expand(2**16, 1025), weight)


def test_masks_offsets_beyond_32_bits():
    far, near = far_apart(tensor([1, 5, 3], dtype="float16")), randn(3, dtype="float16")
    puzzle.check(far[:, None], near[:1])
    puzzle.check(far[None, :], near)
    puzzle.check(near[None, :], far)


def test_masks_result_beyond_32_bits():
    x, weight = layer(1, 1025, "float16")
    puzzle.check_large_offsets(x.expand(2**21 + 1, 1025), weight)


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*layer(17, 3000, dtype))


@dtypes("float16", "bfloat16", "float32")
def test_numerics_mean_far_from_zero(dtype):
    x, weight = layer(8, 3000, dtype)
    puzzle.check(x + 100, weight)


def test_numerics_squares_beyond_half_precision():
    x, weight = layer(5, 1000, "float16")
    puzzle.check(x * 2000, weight)


def test_numerics_squares_below_half_precision():
    x, weight = layer(5, 1000, "float16")
    puzzle.check(x / 5000, weight, eps=0.0)


@cases(inside_the_root=1e-3, far_below_it=1e-5)
def test_numerics_eps_of_small_rows(scale):
    x, weight = layer(5, 700)
    puzzle.check(x * scale, weight)


def test_numerics_eps_given():
    puzzle.check(*layer(5, 700), eps=0.5)
    puzzle.check(*layer(5, 700), 2.0)


def test_numerics_rows_of_zeros():
    x, weight = layer(3, 500)
    x[1] = 0
    puzzle.check(x, weight)


def test_numerics_special_values_stay_in_their_row():
    x, weight = layer(5, 700)
    x[0, 3], x[1, 699], x[2, 70] = float("inf"), float("-inf"), float("nan")
    x[3, 0] = 1e15
    puzzle.check(x, weight)


def test_numerics_no_eps():
    x, weight = layer(5, 700)
    puzzle.check(x * 1e-9, weight, eps=0.0)


@cases(short_rows=(48, 1000), longest_rows=(2, 2**15))
def test_traffic(M, N):
    puzzle.traffic(*layer(M, N)).check(
        reads={"x": 1, "result": 0}, writes=1, launches=1, sectors={"x": 1.1, "result": 1.1}
    )


def test_traffic_transposed():
    x, weight = layer(48, 40)
    puzzle.traffic(x.T.contiguous().T, weight).check(
        reads={"x": 1, "result": 0}, writes=1, launches=1
    )


@dtypes("bfloat16", "float32")
def test_compiles(dtype):
    puzzle.compiles(*layer(37, 2500, dtype))


def test_compiles_one_column():
    puzzle.compiles(*layer(200, 1))


def test_compiles_longest_rows():
    puzzle.compiles(*layer(2, 2**15))


def test_compiles_transposed():
    x, weight = layer(41, 300)
    puzzle.compiles(x.T.contiguous().T, weight)


def test_speedup():
    puzzle.race(*layer(16384, 4096, "bfloat16"), at_least=3)
