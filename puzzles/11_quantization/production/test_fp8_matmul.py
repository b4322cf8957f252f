"""Tests of 11.5, fp8 matmul, in production."""

import torch

from course.challenge import challenge
from course.inputs import FLOATS, cases, far_apart, integers, offset, randn, strided, uniform
from course.values import special_values

puzzle = challenge("fp8_matmul", input_precision="fp8")

GPUS = ("sm_89", "sm_90")
nan = float("nan")


def layer(M, N, K, make=randn):
    """Random factors, and scales that differ from block to block by up to 10 times."""
    blocks = -(-K // 128)
    x, weight = (make(size, K, dtype="float8_e4m3fn") for size in (M, N))
    x_scale = uniform(M, blocks, low=0.1, high=1)
    return x, weight, x_scale, uniform(-(-N // 128), blocks, low=0.1, high=1)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix_of_float8():
    x, *rest = layer(8, 6, 50)
    puzzle.check_or_raises(x[0], *rest, names="x")
    puzzle.check_or_raises(x[None], *rest, names="x", answer=False)
    puzzle.check_or_raises(x.half(), *rest, names="x")
    puzzle.check_or_raises(x.float().to(torch.float8_e5m2), *rest, names="x")


def test_shapes_weight_does_not_fit_x():
    x, weight, *scales = layer(8, 6, 50)
    puzzle.check_or_raises(x, weight[0], *scales, names="weight", answer=False)
    puzzle.check_or_raises(x, weight[None], *scales, names="weight", answer=False)
    puzzle.check_or_raises(x, weight[:, :40], *scales, names="weight")
    puzzle.check_or_raises(x, weight.T, *scales, names="weight")
    puzzle.check_or_raises(x, weight.half(), *scales, names="weight")
    puzzle.check_or_raises(x, weight.float().to(torch.float8_e5m2), *scales, names="weight")


def test_shapes_scale_of_another_form():
    x, weight, x_scale, weight_scale = layer(150, 200, 300)
    for wrong in (x_scale[:149], x_scale[:, :2], x_scale[:, 0], x_scale.half(), x_scale.double()):
        puzzle.check_or_raises(x, weight, wrong, weight_scale, names="x_scale", answer=False)
    for wrong in (weight_scale[:1], weight_scale.T, weight_scale[0], weight_scale.half()):
        puzzle.check_or_raises(x, weight, x_scale, wrong, names="weight_scale", answer=False)


@cases(float64=torch.float64, int32=torch.int32, float8=torch.float8_e4m3fn)
def test_shapes_another_out_dtype(dtype):
    puzzle.check_or_raises(*layer(8, 6, 50), dtype, names="out_dtype", answer=False)


# Any size and layout.


@cases(few_rows=(3, 300, 200), few_columns=(300, 3, 200))
def test_masks(M, N, K):
    puzzle.check(*layer(M, N, K))


def test_masks_masked_lanes():
    # Masked lanes of a load without `other` spoil the result here.
    puzzle.check(*layer(17, 19, 137), torch.float32)


def test_masks_all_transposed():
    x, weight, x_scale, weight_scale = (it.T.contiguous().T for it in layer(40, 150, 300))
    puzzle.check(x, weight, x_scale, weight_scale)


def test_masks_all_strides_differ():
    x, weight, x_scale, weight_scale = layer(37, 141, 300)
    puzzle.check(
        strided(x, 2, 3), strided(weight, 5, 2), strided(x_scale, 3, 2), strided(weight_scale, 1, 5)
    )


def test_masks_expanded():
    x, weight, x_scale, weight_scale = layer(1, 141, 300)
    scales = x_scale.expand(37, 3), weight_scale[:1].expand(2, 3)
    puzzle.check(x.expand(37, 300), offset(weight), *scales)


def test_masks_large():
    # Where a kernel may copy its factors first: no row but the first is aligned.
    puzzle.check(*layer(259, 517, 515))


def test_masks_offsets_beyond_32_bits():
    far, near = (integers(5, dtype="float8_e4m3fn") for _ in range(2))
    far = far_apart(far, 2**32)
    scale = uniform(5, 1, low=0.1, high=1)
    puzzle.check(far[:, None], near[:, None], scale, scale[:1])
    puzzle.check(near[:, None], far[:, None], scale, scale[:1])
    puzzle.check(far[None, :], near[None, :], scale[:1], scale[:1])
    puzzle.check(near[None, :], far[None, :], scale[:1], scale[:1])


def test_masks_scales_beyond_32_bits():
    x, weight, x_scale, weight_scale = layer(3, 300, 300)
    puzzle.check(x, weight[:9], far_apart(x_scale[:, 0])[:, None].expand(3, 3), weight_scale[:1])
    puzzle.check(x[:1], weight[:9], far_apart(x_scale[0])[None], weight_scale[:1])
    puzzle.check(x, weight, x_scale, far_apart(weight_scale[:, 0])[:, None].expand(3, 3))
    puzzle.check(x, weight[:9], x_scale, far_apart(weight_scale[0])[None])


def test_masks_steps_beyond_32_bits():
    # Only the stride times the length of a step overflows.
    x, weight, *scales = layer(1, 1, 129, integers)
    puzzle.check_offsets(far_apart(x[0], 2**32)[None], weight, *scales)
    puzzle.check_offsets(x, far_apart(weight[0], 2**32)[None], *scales)


def test_masks_result_beyond_32_bits():
    x, _, x_scale, weight_scale = layer(1, 1, 16)
    M, N = 2**16, 2**15 + 1
    puzzle.check_large_offsets(
        x.expand(M, 16), x.expand(N, 16), x_scale.expand(M, 1), weight_scale.expand(257, 1)
    )


@cases(columns=(1, 2**23 + 1), rows=(2**23 + 1, 1))
def test_masks_more_tiles_than_axis_1_takes(M, N):
    x, weight, x_scale, weight_scale = layer(1, 1, 1)
    scales = x_scale.expand(M, 1), weight_scale.expand(-(-N // 128), 1)
    puzzle.check_grid(x.expand(M, 1), weight.expand(N, 1), *scales)


def test_masks_limits():
    def build(M, N, K):
        x, weight, *scales = layer(M, N, K)
        # The pattern of 448.
        x.view(torch.uint8)[:, -1] = weight.view(torch.uint8)[:, -1] = 0x7E
        return x, weight, *scales, torch.float32

    puzzle.limits(build, dtypes={"out_dtype": FLOATS}, M=2**17, N=2**17, K=2**17)


# Any value.


def test_numerics_blocks_beyond_the_range_of_float16():
    x, weight, x_scale, weight_scale = layer(20, 30, 300)
    x, weight = (448 * it.float().sign() for it in (x, weight))
    weight[0] = x[0]
    x, weight = x.to(torch.float8_e4m3fn), weight.to(torch.float8_e4m3fn)
    puzzle.check(x, weight, x_scale / 1000, weight_scale / 1000, torch.float16)


def test_numerics_scales_of_very_different_sizes():
    # Their product is about 1, and neither is a number in float16.
    x, weight, x_scale, weight_scale = layer(20, 30, 300)
    puzzle.check(x, weight, x_scale * 1e20, weight_scale * 1e-20)
    puzzle.check(x, weight, x_scale * 1e-20, weight_scale * 1e20)


def test_numerics_blocks_of_very_different_scales():
    # The sums of the first block are a million times those of the others, and cancel.
    x, weight, x_scale, weight_scale = layer(20, 40, 384)
    x[:, 64:128], weight[:, 64:128] = x[:, :64], (-weight[:, :64].float()).to(weight.dtype)
    x_scale[:, 0] *= 1e6
    puzzle.check(x, weight, x_scale, weight_scale, torch.float32)


def test_numerics_nan_stays_in_its_row_or_column():
    x, weight, x_scale, weight_scale = layer(40, 50, 300)
    x[3, 5], weight[7, 299], x_scale[4, 2] = nan, nan, nan
    puzzle.check(x, weight, x_scale, weight_scale)


# Of infinite scales: a sum of a block that is scaled once is infinite, and terms that are scaled
# one by one are inf - inf. Of the largest: blocks of either sign overflow one by one, and so does
# a block that is multiplied by one scale after the other.
test_numerics_each_special_value = special_values(
    puzzle,
    lambda: layer(40, 50, 300),
    "x weight x_scale weight_scale",
    apart=dict.fromkeys(("x_scale", "weight_scale"), ("inf", "minus_inf", "largest")),
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_few_rows():
    puzzle.traffic(*layer(16, 128, 256)).check(
        reads={"x": 4, "weight": 1}, writes=1, launches=1, scratch=0
    )


@cases(ragged=(35, 67, 333), few_rows=(3, 256, 128), large=(2048, 2048, 128))
def test_compiles(M, N, K):
    puzzle.compiles(*layer(M, N, K), targets=GPUS)


def test_compiles_float32():
    puzzle.compiles(*layer(128, 128, 256), torch.float32, targets=GPUS)


def test_compiles_large():
    puzzle.compiles(*layer(517, 519, 259), targets=GPUS)


def test_speedup():
    inputs, work = layer(4096, 7168, 4096), (2 * 4096 * 7168 * 4096, "float8_e4m3fn")
    puzzle.race(*inputs, at_least=0.9, operations=work, baseline="solution")
