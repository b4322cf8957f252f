"""What 05.1, layer norm, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor

puzzle = challenge("layer_norm", results=("y", "mean", "rstd"))


def layer(M, N, dtype="float32"):
    return randn(M, N, dtype=dtype), randn(N, dtype=dtype), randn(N, dtype=dtype)


@cases(
    single_element=(1, 1),
    one_row=(1, 1000),
    one_column=(200, 1),
    more_rows_than_columns=(130, 7),
)
def test_shapes(M, N):
    puzzle.check(*layer(M, N))


def test_shapes_of_bad_input():
    x, weight, bias = layer(4, 5)
    puzzle.rejects(ValueError, x[0], weight, bias, naming="x")
    puzzle.rejects(ValueError, x[None], weight, bias, naming="x")
    puzzle.rejects(ValueError, *[integers(5, 5, dtype="int32")] * 3, naming="x")
    puzzle.rejects(ValueError, *layer(1, 2**15 + 1), naming="x")
    puzzle.rejects(ValueError, x, weight[1:], bias, naming="weight")
    puzzle.rejects(ValueError, x, weight.half(), bias, naming="weight")
    puzzle.rejects(ValueError, x, weight, bias[None], naming="bias")
    puzzle.rejects(ValueError, x, weight, bias.half(), naming="bias")


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
    puzzle.check(x, integers(100), integers(100), eps=0.0)


def test_masks_transposed():
    x, weight, bias = layer(41, 300)
    puzzle.check(x.T.contiguous().T, weight, bias)


def test_masks_every_stride():
    x, weight, bias = layer(21, 130)
    puzzle.check(strided(x, 2, 3), strided(weight, 2), strided(bias, 5))


def test_masks_unaligned():
    x, weight, bias = layer(20, 256)
    puzzle.check(offset(x), offset(weight, 3), offset(bias))


@cases(rows=((1, 300), (20, 300)), columns=((20, 1), (20, 300)))
def test_masks_expanded(shape, to):
    puzzle.check(randn(*shape).expand(*to), randn(300), randn(1).expand(300))


def test_masks_more_rows_than_axis_1_takes():
    x, weight, bias = layer(1, 1025, "float16")
    puzzle.check_grid(x.expand(2**16, 1025), weight, bias)


def test_masks_offsets_beyond_32_bits():
    far = far_apart(tensor([1, 5, 3], dtype="float16"))
    near, other = randn(3, dtype="float16"), randn(3, dtype="float16")
    puzzle.check(far.expand(2, 3).T, near[:2], other[:2])
    puzzle.check(far[None, :], near, other)
    puzzle.check(near[None, :], far, other)
    puzzle.check(near[None, :], other, far)


def test_masks_result_beyond_32_bits():
    x, weight, bias = layer(1, 1025, "float16")
    puzzle.check_large_offsets(x.expand(2**21 + 1, 1025), weight, bias)


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*layer(17, 3000, dtype))


@cases(mean_10000=(1e4, 1.0), mean_minus_300=(-300.0, 0.5))
def test_numerics_mean_far_from_zero(mean, deviation):
    x, weight, bias = layer(8, 3000)
    puzzle.check(mean + x * deviation, weight, bias)


@cases(float16=("float16", 1000.25), bfloat16=("bfloat16", 100.25))
def test_numerics_mean_between_two_numbers_of_the_dtype(dtype, mean):
    x, weight, bias = layer(8, 1000)
    dtype = tensor([], dtype).dtype
    puzzle.check((mean + x / 2).to(dtype), weight.to(dtype), bias.to(dtype))


def test_numerics_squares_beyond_half_precision():
    x, weight, bias = layer(5, 1000, "float16")
    puzzle.check(x * 2000, weight, bias)


@cases(inside_the_root=1e-3, far_below_it=1e-6)
def test_numerics_eps_of_small_rows(scale):
    x, weight, bias = layer(5, 700)
    puzzle.check(x * scale, weight, bias)


def test_numerics_eps_given():
    puzzle.check(*layer(5, 700), eps=0.5)
    puzzle.check(*layer(5, 700), 2.0)


def test_numerics_biased_variance():
    puzzle.check(*layer(6, 2))


def test_numerics_constant_rows():
    _, weight, bias = layer(3, 500)
    puzzle.check(tensor([[3.0], [1e4], [0.0]]).expand(3, 500), weight, bias)


def test_numerics_special_values_stay_in_their_row():
    x, weight, bias = layer(5, 700)
    # Both infinities: with one, the mean is inf as a sum and NaN as Welford finds it.
    x[0, 3], x[0, 699], x[2, 70] = float("inf"), float("-inf"), float("nan")
    x[3, 0] = 1e15
    puzzle.check(x, weight, bias)


def test_numerics_no_eps():
    x, weight, bias = layer(5, 700)
    puzzle.check(x * 1e-9, weight, bias, eps=0.0)


@cases(short_rows=(48, 1000), longest_rows=(2, 2**15))
def test_traffic(M, N):
    puzzle.traffic(*layer(M, N)).check(
        reads={"x": 1, "result": 0}, writes=1, launches=1, sectors={"x": 1.1, "result 0": 1.1}
    )


def test_traffic_transposed():
    x, weight, bias = layer(48, 40)
    puzzle.traffic(x.T.contiguous().T, weight, bias).check(
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
    x, weight, bias = layer(41, 300)
    puzzle.compiles(x.T.contiguous().T, weight, bias)


def test_speedup():
    puzzle.race(*layer(16384, 4096, "bfloat16"), at_least=4)
