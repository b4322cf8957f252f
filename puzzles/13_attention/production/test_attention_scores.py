"""Tests of 13.1, attention scores, in production."""

import math

from course.challenge import challenge
from course.inputs import (
    HALVES,
    along,
    cases,
    dtypes,
    far_apart,
    heads,
    integers,
    last_key_wins,
    offset,
    randn,
    strided,
    tensor,
)
from course.values import FUSED_SCORES, special_values

puzzle = challenge("attention_scores")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_q_has_no_heads():
    q, k, _ = heads(2, 4, 2, 8, 6, 16)
    puzzle.check_or_raises(q[0], k, names="q")


@cases(smaller=8, no_power_of_2=24, larger=256)
def test_shapes_q_of_another_width(D):
    puzzle.check_or_raises(*heads(2, 4, 2, 8, 6, D)[:2], names="q")


@dtypes("float32", "float64")
def test_shapes_q_of_another_dtype(dtype):
    puzzle.check_or_raises(*heads(2, 4, 2, 8, 6, 16, dtype)[:2], names="q")


def test_shapes_k_does_not_fit_q():
    q, k, _ = heads(2, 4, 2, 8, 6, 16)
    puzzle.check_or_raises(q, k[0], names="k")
    puzzle.check_or_raises(q, k[:1], names="k")
    puzzle.check_or_raises(q[:, :3], k, names="k")
    puzzle.check_or_raises(q, randn(2, 2, 6, 32, dtype="float16"), names="k")
    puzzle.check_or_raises(q, k.bfloat16(), names="k")


# Any size and layout.


def test_masks_some_heads_inside_rows():
    q, k, _ = heads(2, 20, 24, 4, 4, 16)
    puzzle.check(q.transpose(1, 2), k.transpose(1, 2)[:, :2])


def test_masks_transposed():
    puzzle.check(*(x.mT.contiguous().mT for x in heads(2, 2, 2, 40, 50, 32)[:2]))


def test_masks_every_stride():
    # More than one tile of queries and of keys.
    q, k, _ = heads(2, 2, 2, 140, 150, 16)
    puzzle.check(strided(q, 2, 1, 3, 2), strided(k, 1, 2, 2, 3))


def test_masks_unaligned():
    q, k, _ = heads(1, 2, 2, 40, 50, 16)
    puzzle.check(offset(q), offset(k, 3))


def test_masks_one_head_expanded():
    q, k, _ = heads(1, 1, 1, 20, 24, 16)
    puzzle.check(q.expand(2, 4, 20, 16), k.expand(2, 4, 24, 16))


def test_masks_more_heads_than_axis_1_takes():
    puzzle.check_grid(*heads(256, 256, 256, 1, 1, 16)[:2])


@cases(queries=0, keys=1)
def test_masks_offsets_beyond_32_bits(which):
    for B, H, S, dim in ((3, 1, 2, 0), (1, 3, 2, 1), (1, 1, 3, 2), (1, 1, 2, 3)):
        inputs = list(heads(B, H, H, S, S, 16)[:2])
        shape = inputs[which].shape
        inputs[which] = along(far_apart(randn(shape[dim], dtype="float16")), dim, *shape)
        puzzle.check(*inputs)


@cases(tiles_of_64=65, tiles_of_128=129)
def test_masks_second_tile_beyond_32_bits(T):
    # Only a stride times the length of a tile overflows.
    q = randn(1, 1, 3, 16, dtype="float16")
    puzzle.check(q, along(far_apart(randn(T, dtype="float16")), 2, 1, 1, T, 16))


def test_masks_result_beyond_32_bits():
    q, k, _ = heads(1, 1, 1, 1, 1, 16)
    puzzle.check_large_offsets(q.expand(2**15 + 1, 1, 256, 16), k.expand(2**15 + 1, 1, 256, 16))


# Any value.


def test_masks_scores_to_minus_infinity():
    # Every score is -2**34, a power of 2 and so exact, and below what some take for -inf.
    q, k, _ = heads(1, 1, 1, 20, 66, 16)
    puzzle.check_exactly(q * 0 - 2**15, k * 0 + 2**15, scale=1.0)


def test_masks_limits():
    puzzle.limits(
        lambda B, Hkv, group, S, T: last_key_wins(*heads(B, Hkv * group, Hkv, S, T, 16)[:2]),
        dtypes=HALVES,
        B=2**17,
        Hkv=2**14,
        group=2**12,
        S=2**14,
        T=2**14,
    )


def test_numerics_all_scores_far_below_0():
    q, k, _ = heads(1, 1, 1, 20, 100, 16)
    puzzle.check(q.abs() * 8 + 8, -k.abs() - 2)


@dtypes("float16", "bfloat16")
def test_numerics_scores_cancel(dtype):
    # To 0, unless q is rounded once more.
    q, k, _ = heads(1, 1, 1, 40, 100, 16, dtype)
    q[..., 0::2], q[..., 1::2] = 3, 5
    factor = integers(1, 1, 100, 8, low=-50, high=51, dtype=dtype)
    k[..., 0::2], k[..., 1::2] = 5 * factor, -3 * factor
    puzzle.check(q, k, scale=0.7)


@cases(float16=("float16", 2048), bfloat16=("bfloat16", 256))
def test_numerics_scores_not_rounded(dtype, large):
    # large + 1 takes a bit more than dtype has. p is 17/32 and 15/32.
    q, k, _ = heads(1, 1, 1, 3, 2, 16, dtype)
    k[..., 0], k[..., 1], k[..., 2:] = large, tensor([1, 0], dtype), 0
    puzzle.check_exactly(q * 0 + 1, k, scale=math.log(17 / 15))


@cases(few_keys=9, more_keys=17)
def test_numerics_rounded_once(T):
    # No p lies near the middle between two numbers of float16.
    q, k, _ = heads(1, 1, 1, 1, T, 16)
    k[..., 0], k[..., 1:] = tensor(range(T)) / -8, 0
    puzzle.check_exactly(q * 0 + 1, k, scale=math.log(2))


def test_numerics_range_of_bfloat16():
    # Cast to float16 on the way, q is inf and k is 0.
    q, k, _ = heads(1, 2, 2, 20, 70, 16, "bfloat16")
    puzzle.check(q * 1e6, k * 1e-6)


@cases(zero=0.0, tiny=1e-4, large=3.0, negative=-0.3)
def test_numerics_scale(scale):
    puzzle.check(*heads(1, 2, 2, 20, 70, 16)[:2], scale=scale)


def test_numerics_negative_scale_of_large_scores():
    q, k, _ = heads(1, 2, 2, 40, 200, 16)
    puzzle.check(q * 30, k, -1.0)


test_numerics_each_special_value = special_values(
    puzzle, lambda: heads(1, 2, 1, 20, 100, 16)[:2], "q k", apart=FUSED_SCORES
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(d_16=16, d_128=128)
def test_traffic(D):
    B, H, S, T = 1, 1, 256, 192
    puzzle.traffic(*heads(B, H, H, S, T, D)[:2]).check(
        reads={"q": 1, "k": 2 * S // 64, "result": 0},
        writes=1,
        launches=1,
        sectors=1.1,
        total_writes=B * H * S * T,
    )


def test_compiles_widest():
    puzzle.compiles(*heads(1, 2, 1, 128, 128, 128, "bfloat16")[:2])


def test_compiles_ragged_and_transposed():
    puzzle.compiles(*(x.mT.contiguous().mT for x in heads(1, 2, 2, 35, 67, 16)[:2]))


def test_speedup():
    B, H, S, D = 1, 16, 4096, 64
    q, k, _ = heads(B, H, H, S, S, D)
    moved = 2 * B * H * S * (S + 2 * D)
    puzzle.race(q, k, at_least=0.9, baseline="solution", bytes_moved=moved)
