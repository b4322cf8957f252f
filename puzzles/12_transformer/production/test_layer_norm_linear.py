"""Tests of 12.4, layer norm and linear layer, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, dtypes, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("layer_norm_linear", input_precision="tf32", rounded=True)
# Rounding each step of x - mean would excuse what cancels.
unexcused = challenge("layer_norm_linear", input_precision="tf32")


def layer(M, N, K, dtype="float32"):
    x, weight = randn(M, K, dtype=dtype), randn(N, K, dtype=dtype)
    norm_weight, norm_bias, bias = (randn(size, dtype=dtype) for size in (K, K, N))
    return x, norm_weight, norm_bias, weight, bias


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_of_the_spec():
    x, *rest = layer(8, 6, 5)
    puzzle.check_or_raises(x[0], *rest, names="x", answer=False)
    puzzle.check_or_raises(x[None], *rest, names="x", answer=False)
    wide = (tensor.double() for tensor in layer(8, 6, 5))
    puzzle.check_or_raises(*wide, names="x")


@cases(norm_weight=1, norm_bias=2, bias=4)
def test_shapes_a_vector_does_not_fit(which):
    name = ("x", "norm_weight", "norm_bias", "weight", "bias")[which]
    inputs = layer(8, 6, 5)
    for wrong in (inputs[which][1:], inputs[which][None], inputs[which].half()):
        given = [wrong if n == which else inputs[n] for n in range(5)]
        puzzle.check_or_raises(*given, names=name)


def test_shapes_weight_does_not_fit():
    x, norm_weight, norm_bias, weight, bias = layer(8, 6, 5)
    for wrong in (weight[0], weight[None], weight.T, weight[:, :4], weight.half()):
        puzzle.check_or_raises(x, norm_weight, norm_bias, wrong, bias, names="weight")


# Any size and layout.


def test_masks_both_transposed():
    x, norm_weight, norm_bias, weight, bias = layer(40, 24, 56)
    puzzle.check(x.T.contiguous().T, norm_weight, norm_bias, weight.T.contiguous().T, bias)


def test_masks_every_stride():
    x, norm_weight, norm_bias, weight, bias = layer(37, 41, 50)
    puzzle.check(
        strided(x, 2, 3),
        strided(norm_weight, 2),
        strided(norm_bias, 3),
        strided(weight, 5, 2),
        strided(bias, 4),
    )


def test_masks_unaligned_and_expanded():
    x, norm_weight, norm_bias, weight, bias = layer(37, 41, 48)
    puzzle.check(offset(x), norm_weight[:1].expand(48), offset(norm_bias), offset(weight), bias)
    puzzle.check(x[:1].expand(37, 48), norm_weight, norm_bias, weight[:1].expand(41, 48), bias)


def test_masks_offsets_beyond_32_bits():
    far, near = far_apart(tensor([1, 5, 3], "float16")), integers(3, dtype="float16", low=1)
    row, column = near[None, :], near[:, None]
    puzzle.check(far[None, :], near, near, row, near[:1])
    puzzle.check(row, far, near, row, near[:1])
    puzzle.check(row, near, far, row, near[:1])
    puzzle.check(row, near, near, far[None, :], near[:1])
    puzzle.check(far[:, None], near[:1], near[:1], column, near)
    puzzle.check(column, near[:1], near[:1], far[:, None], near)
    puzzle.check(column, near[:1], near[:1], column, far)


@cases(x=0, norm_weight=1, norm_bias=2, weight=3)
def test_masks_steps_beyond_32_bits(which):
    # Only the stride times the length of a step overflows.
    inputs = [integers(65, dtype="float16", low=1) for _ in range(4)]
    inputs[which] = far_apart(inputs[which])
    x, norm_weight, norm_bias, weight = inputs
    puzzle.check_offsets(x[None, :], norm_weight, norm_bias, weight[None, :], weight[:1])


def test_masks_result_beyond_32_bits():
    x, M, N = randn(1, 16, dtype="float16"), 2**16, 2**15 + 1
    vector = x[0, :1].expand(N)
    puzzle.check_large_offsets(x.expand(M, 16), x[0], x[0], x.expand(N, 16), vector)


@cases(columns=(1, 2**24 + 1), rows=(2**23 + 1, 1))
def test_masks_more_tiles_than_axis_1_takes(M, N):
    x = randn(1, 1, dtype="float16")
    puzzle.check_grid(x.expand(M, 1), x[0], x[0], x.expand(N, 1), x[0].expand(N))


def test_masks_limits():
    def build(M, N, K):
        x, norm_weight, norm_bias, weight, bias = layer(M, N, K)
        # Beside it what tf32 rounds away is little.
        x[:, -1], norm_weight[-1], weight[:, -1] = 64, 2, 8
        return x, norm_weight, norm_bias, weight, bias

    puzzle.limits(build, dtypes=FLOATS, M=2**17, N=2**17, K=2**17)


# Any value.


@dtypes("float32", "float16")
def test_numerics_mean_far_from_zero(dtype):
    x, *rest = layer(40, 24, 200, dtype)
    unexcused.check(x + 300, *rest)


def test_numerics_constant_rows():
    _, *rest = layer(3, 24, 200)
    puzzle.check(tensor([[3.0], [100.0], [0.0]]).repeat(1, 200), *rest)


def test_numerics_nan_stays_in_its_row():
    x, norm_weight, norm_bias, weight, bias = layer(40, 24, 70)
    x[3, 5], weight[7, 69] = float("nan"), float("nan")
    puzzle.check(x, norm_weight, norm_bias, weight, bias)


def test_masks_large():
    # Where a kernel may copy x and weight first: no row but the first is aligned.
    puzzle.check(*layer(259, 517, 515, "float16"))


# Of the largest norm_weight: the normalized row may be rounded to float16 before tl.dot takes it,
# which overflows.
test_numerics_each_special_value = special_values(
    puzzle,
    lambda: layer(40, 24, 70, "float16"),
    "x norm_weight norm_bias weight bias",
    apart={"norm_weight": ("largest",)},
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_long_rows():
    M, N, K = 32, 32, 4160
    puzzle.traffic(*layer(M, N, K, "float16")).check(
        reads={"x": 3, "weight": 2}, writes=1, total_writes=M * N + 2 * M + 2 * N, launches=3
    )


def test_compiles_ragged():
    puzzle.compiles(*layer(35, 33, 67, "bfloat16"))


def test_compiles_long_rows():
    puzzle.compiles(*layer(16, 16, 10_000, "float16"))


def test_compiles_large():
    puzzle.compiles(*layer(517, 519, 259, "bfloat16"))


def test_speedup():
    M, N, K = 8192, 4096, 4096
    puzzle.race(
        *layer(M, N, K, "bfloat16"),
        at_least=0.9,
        operations=(2 * M * N * K, "bfloat16"),
        baseline="solution",
    )
