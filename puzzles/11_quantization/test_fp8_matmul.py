"""Tests of 11.5, fp8 matmul."""

import torch

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, uniform

# On a GPU a block's sum is as exact as the tensor core makes it.
puzzle = challenge("fp8_matmul", input_precision="fp8")

GPUS = ("sm_89", "sm_90")


def layer(M, N, K, make=randn):
    """Random factors, and scales that differ from block to block by up to 10 times."""
    blocks = -(-K // 128)
    x, weight = (make(size, K, dtype="float8_e4m3fn") for size in (M, N))
    x_scale = uniform(M, blocks, low=0.1, high=1)
    return x, weight, x_scale, uniform(-(-N // 128), blocks, low=0.1, high=1)


@cases(one_block=(32, 32, 128), one_row=(1, 70, 200), one_column=(70, 1, 40), single=(1, 1, 1))
def test_shapes(M, N, K):
    puzzle.check(*layer(M, N, K))


@cases(
    last_block_short=(67, 35, 300),
    several_blocks_each_way=(150, 300, 384),
    one_past_a_block=(20, 129, 257),
    half_a_block_past=(33, 50, 320),
)
def test_masks(M, N, K):
    puzzle.check(*layer(M, N, K, integers), torch.float32)


def test_masks_scales_of_x_by_columns():
    x, weight, x_scale, weight_scale = layer(40, 150, 300)
    puzzle.check(x, weight, x_scale.T.contiguous().T, weight_scale)


@dtypes("bfloat16", "float16", "float32")
def test_numerics(dtype):
    puzzle.check(*layer(33, 140, 600), getattr(torch, dtype))


def test_traffic():
    puzzle.traffic(*layer(128, 256, 256)).check(
        reads={"x": 256 // 32, "weight": 128 // 32},
        writes=1,
        launches=1,
        sectors={"result": 1.1},
        scratch=0,
    )


def test_compiles():
    puzzle.compiles(*layer(128, 256, 256), targets=GPUS)


def test_speedup():
    inputs, work = layer(4096, 7168, 4096), (2 * 4096 * 7168 * 4096, "float8_e4m3fn")
    puzzle.race(*inputs, at_least=1.2, operations=work, baseline="fp8_matmul_in_bfloat16")
