"""Tests of 13.4, grouped-query attention, in production."""

import math

import pytest

from course.challenge import challenge
from course.inputs import (
    HALVES,
    along,
    cases,
    dtypes,
    far_apart,
    heads,
    last_key_wins,
    offset,
    randn,
    rising_scores,
    strided,
    tensor,
)
from course.values import FUSED_SCORES, special_values

puzzle = challenge("grouped_query_attention", rounded=True)
masked_or_not = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])


# Bad input: the error that the spec names, or the right answer.


def test_shapes_q_has_no_heads():
    q, k, v = heads(2, 4, 2, 8, 6, 16)
    puzzle.check_or_raises(q[0], k, v, names="q")


@cases(smaller=8, no_power_of_2=24, larger=256)
def test_shapes_q_of_another_width(D):
    puzzle.check_or_raises(*heads(2, 4, 2, 8, 6, D), names="q")


@dtypes("float32", "float64")
def test_shapes_q_of_another_dtype(dtype):
    puzzle.check_or_raises(*heads(2, 4, 2, 8, 6, 16, dtype), names="q")


def test_shapes_k_does_not_fit_q():
    q, k, v = heads(2, 4, 2, 8, 6, 16)
    puzzle.check_or_raises(q, k[0], v, names="k")
    puzzle.check_or_raises(q, k[:1], v[:1], names="k")
    puzzle.check_or_raises(q[:, :3], k, v, names="k")
    puzzle.check_or_raises(q, *heads(2, 4, 2, 8, 6, 32)[1:], names="k")
    puzzle.check_or_raises(q, k.bfloat16(), v, names="k")


def test_shapes_v_is_not_like_k():
    q, k, v = heads(2, 4, 2, 8, 6, 16)
    for bad in (v[:, :1], v[:, :, :5], v[..., :8], v.transpose(1, 2), v.bfloat16()):
        puzzle.check_or_raises(q, k, bad, names="v")


# Any size and layout.


@cases(
    one_query=(1, 2, 2, 1, 70, 32),
    groups_of_five=(1, 10, 2, 20, 24, 16),
    a_head_of_keys_each=(3, 2, 2, 20, 24, 16),
    whole_tiles=(1, 2, 1, 128, 128, 64),
)
@masked_or_not
def test_shapes(B, H, Hkv, S, T, D, causal):
    puzzle.check(*heads(B, H, Hkv, S, T, D), causal=causal)


def test_masks_transposed():
    puzzle.check(*(x.mT.contiguous().mT for x in heads(2, 2, 2, 40, 50, 32)))


@masked_or_not
def test_masks_every_stride(causal):
    # More than one tile of queries and of keys.
    q, k, v = heads(2, 2, 2, 140, 150, 16)
    inputs = strided(q, 2, 1, 3, 2), strided(k, 1, 2, 2, 3), strided(v, 3, 2, 1, 2)
    puzzle.check(*inputs, causal=causal)


def test_masks_unaligned():
    q, k, v = heads(1, 2, 2, 40, 50, 16)
    puzzle.check(offset(q), offset(k, 3), offset(v, 5))


def test_masks_one_head_expanded():
    q, k, v = heads(1, 1, 1, 20, 24, 16)
    puzzle.check(q.expand(2, 4, 20, 16), k.expand(2, 2, 24, 16), v.expand(2, 2, 24, 16))


def test_masks_more_heads_than_axis_1_takes():
    puzzle.check_grid(*heads(256, 256, 256, 1, 1, 16))


@cases(queries=0, keys=1, values=2)
def test_masks_offsets_beyond_32_bits(which):
    for B, H, S, dim in ((3, 1, 2, 0), (1, 3, 2, 1), (1, 1, 3, 2), (1, 1, 2, 3)):
        inputs = list(heads(B, H, H, S, S, 16))
        shape = inputs[which].shape
        inputs[which] = along(far_apart(randn(shape[dim], dtype="float16")), dim, *shape)
        puzzle.check(*inputs)


@cases(queries=0, keys=1, values=2)
def test_masks_second_tile_beyond_32_bits(which):
    # Only a stride times the length of a tile overflows: of 32, 64 or 128 rows.
    for size in (33, 65, 129):
        inputs = list(heads(1, 1, 1, size, size, 16))
        inputs[which] = along(far_apart(randn(size, dtype="float16")), 2, 1, 1, size, 16)
        puzzle.check(*inputs)


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(*(x.expand(512, 513, 64, 128) for x in heads(1, 1, 1, 1, 1, 128)))


# Any value.


def test_masks_diagonal_of_d_32():
    puzzle.check(*heads(1, 1, 1, 200, 200, 32), causal=True)


def test_masks_scores_to_minus_infinity():
    # Scores are -2**34, a power of 2 and so exact, and below what some take for -inf.
    q, k, v = heads(1, 1, 1, 70, 70, 16)
    q, k = q * 0 - 2**15, k * 0 + 2**15
    puzzle.check(q, k, v / 8 + 100, scale=1.0)
    early = (tensor(range(70)) < 60)[:, None]
    puzzle.check(q, k * early, v / 64 + 100 * early, scale=1.0, causal=True)


def test_masks_limits():
    puzzle.limits(
        lambda B, Hkv, group, S, T: last_key_wins(*heads(B, Hkv * group, Hkv, S, T, 16)),
        dtypes=HALVES,
        B=2**17,
        Hkv=2**14,
        group=2**12,
        S=2**14,
        T=2**14,
    )


def test_numerics_all_scores_far_below_0():
    q, k, v = heads(1, 1, 1, 20, 100, 16)
    puzzle.check(q.abs() * 8 + 8, -k.abs() - 2, v)


def test_numerics_maximum_grows_from_tile_to_tile():
    q, k, v = heads(1, 1, 1, 20, 300, 16)
    ramp = tensor(range(300), "float16")[:, None] / 50
    puzzle.check(q.abs() * 8 + 4, k / 5 + ramp, v)


def test_numerics_maximum_in_the_first_tile():
    # Later tiles score less, by so much that exp of the difference overflows.
    q, k, v = heads(1, 1, 1, 20, 300, 16)
    q, k = rising_scores(q, k, slope=-0.02)
    puzzle.check(q * 8, k, v)


def test_numerics_range_of_bfloat16():
    # Cast to float16 on the way, q and v are inf and k is 0.
    q, k, v = heads(1, 2, 2, 20, 70, 16, "bfloat16")
    puzzle.check(q * 1e6, k * 1e-6, v * 1e6)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32_of_d_128(dtype):
    q, k, v = heads(1, 1, 1, 32, 512, 128, dtype)
    puzzle.check(q, k / 8, v / 4 + 1)


@cases(zero=0.0, tiny=1e-4, large=3.0, negative=-0.3)
@masked_or_not
def test_numerics_scale(scale, causal):
    puzzle.check(*heads(1, 2, 2, 20, 70, 16), scale=scale, causal=causal)


@masked_or_not
def test_numerics_negative_scale_of_large_scores(causal):
    q, k, v = heads(1, 2, 2, 40, 200, 16)
    puzzle.check(q * 30, k, v, -1.0, causal)


test_numerics_each_special_value = special_values(
    puzzle, lambda: heads(1, 2, 1, 20, 100, 16), "q k v", apart=FUSED_SCORES
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(
    groups=(2, 4, 2, 256, 16, 1, False),
    widest=(1, 2, 1, 256, 128, 1, False),
    batches_causal=(2, 2, 1, 128, 128, 1, True),
    many_tiles_causal=(1, 2, 1, 1024, 16, 0.6, True),
)
def test_traffic(B, H, Hkv, S, D, part, causal):
    # A program loads no more than this part of the keys, however large its tile.
    traffic = puzzle.traffic(*heads(B, H, Hkv, S, S, D), causal=causal)
    programs = sum(map(math.prod, traffic.grids)) / (B * Hkv)
    traffic.check(
        reads={"q": 1, "k": part * programs, "v": part * programs},
        writes=1,
        launches=1,
        sectors=1.1,
        grid_at_most=B * H * S // 64,
        total_writes=B * H * S * (D + 1),
        dot_macs=part * 2 * B * H * S * S * D,
    )


def test_compiles_d_64():
    puzzle.compiles(*heads(1, 2, 1, 128, 128, 64))


def test_compiles_ragged_and_transposed():
    puzzle.compiles(*(x.mT.contiguous().mT for x in heads(1, 2, 2, 35, 67, 16)))


def test_speedup():
    B, H, Hkv, S, D = 1, 16, 4, 4096, 128
    work = (4 * B * H * S * S * D, "float16")
    inputs = heads(B, H, Hkv, S, S, D)
    puzzle.race(*inputs, at_least=0.9, baseline="solution", operations=work)
