"""Tests of 13.5, sliding window attention, in production."""

import math

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
    strided,
    tensor,
)
from course.values import FUSED_SCORES, special_values

puzzle = challenge("sliding_window_attention", rounded=True)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_q_has_no_heads():
    q, k, v = heads(2, 4, 2, 8, 8, 16)
    puzzle.check_or_raises(q[0], k, v, 3, names="q")


@cases(smaller=8, no_power_of_2=24, larger=256)
def test_shapes_q_of_another_width(D):
    puzzle.check_or_raises(*heads(2, 4, 2, 8, 8, D), 3, names="q")


@dtypes("float32", "float64")
def test_shapes_q_of_another_dtype(dtype):
    puzzle.check_or_raises(*heads(2, 4, 2, 8, 8, 16, dtype), 3, names="q")


def test_shapes_k_does_not_fit_q():
    q, k, v = heads(2, 4, 2, 8, 8, 16)
    puzzle.check_or_raises(q, k[0], v, 3, names="k")
    puzzle.check_or_raises(q, k[:1], v[:1], 3, names="k")
    puzzle.check_or_raises(q[:, :3], k, v, 3, names="k")
    puzzle.check_or_raises(q, k[:, :, :7], v[:, :, :7], 3, names="k")
    puzzle.check_or_raises(q, *heads(2, 4, 2, 8, 8, 32)[1:], 3, names="k")
    puzzle.check_or_raises(q, k.bfloat16(), v, 3, names="k")


def test_shapes_v_is_not_like_k():
    q, k, v = heads(2, 4, 2, 8, 8, 16)
    for bad in (v[:, :1], v[:, :, :5], v[..., :8], v.transpose(1, 2), v.bfloat16()):
        puzzle.check_or_raises(q, k, bad, 3, names="v")


@cases(zero=0, negative=-3)
def test_shapes_window_of_nothing(window):
    puzzle.check_or_raises(*heads(2, 4, 2, 8, 8, 16), window, names="window", answer=False)


# Any size and layout.


@cases(last_int32=2**31 - 1, beyond_32_bits=10**10, beyond_64_bits=2**70)
def test_masks_huge_window(window):
    puzzle.check(*heads(1, 2, 1, 150, 150, 16), window)


@cases(
    one=(150, 1),
    two=(150, 2),
    one_short_of_a_tile=(300, 63),
    one_tile=(300, 64),
    two_tiles=(300, 128),
    past_two_tiles=(300, 129),
    all=(150, 150),
)
def test_masks_window_of(S, window):
    puzzle.check(*heads(1, 2, 1, S, S, 16), window)


def test_masks_transposed():
    puzzle.check(*(x.mT.contiguous().mT for x in heads(2, 2, 2, 50, 50, 32)), 11)


# Tiles that the window cuts, tiles inside, tiles that the diagonal cuts; and one of all kinds.
@cases(window_of_tiles=(300, 200), window_within_a_tile=(20, 6))
def test_masks_every_stride(S, window):
    q, k, v = heads(2, 2, 2, S, S, 16)
    puzzle.check(strided(q, 2, 1, 3, 2), strided(k, 1, 2, 2, 3), strided(v, 3, 2, 1, 2), window)


def test_masks_unaligned():
    q, k, v = heads(1, 2, 2, 40, 40, 16)
    puzzle.check(offset(q), offset(k, 3), offset(v, 5), 9)


def test_masks_one_head_expanded():
    puzzle.check(*(x.expand(2, 4, 20, 16) for x in heads(1, 1, 1, 20, 20, 16)), 6)


def test_masks_more_heads_than_axis_1_takes():
    puzzle.check_grid(*heads(256, 256, 256, 1, 1, 16), 1)


@cases(queries=0, keys=1, values=2)
def test_masks_offsets_beyond_32_bits(which):
    for B, H, S, dim in ((3, 1, 2, 0), (1, 3, 2, 1), (1, 1, 3, 2), (1, 1, 2, 3)):
        inputs = list(heads(B, H, H, S, S, 16))
        shape = inputs[which].shape
        inputs[which] = along(far_apart(randn(shape[dim], dtype="float16")), dim, *shape)
        puzzle.check(*inputs, 2)


@cases(queries=0, keys=1, values=2)
def test_masks_second_tile_beyond_32_bits(which):
    # Only a stride times the length of a tile overflows: of 32, 64 or 128 rows.
    for size in (33, 65, 129):
        inputs = list(heads(1, 1, 1, size, size, 16))
        inputs[which] = along(far_apart(randn(size, dtype="float16")), 2, 1, 1, size, 16)
        puzzle.check(*inputs, 100)


def test_masks_result_beyond_32_bits():
    inputs = (x.expand(512, 513, 64, 128) for x in heads(1, 1, 1, 1, 1, 128))
    puzzle.check_large_offsets(*inputs, 1)


# Any value.


@cases(d_32=32, d_64=64)
def test_masks_both_edges(D):
    puzzle.check(*heads(1, 1, 1, 200, 200, D), 90)


def test_masks_scores_to_minus_infinity():
    # Early scores are -2**34, a power of 2 and so exact, and below what some take for -inf.
    q, k, v = heads(1, 1, 1, 70, 70, 16)
    early = (tensor(range(70)) < 60)[:, None]
    puzzle.check(q * 0 - 2**15, (k * 0 + 2**15) * early, v / 64 + 100 * early, 30, 1.0)


def test_masks_limits():
    def build(B, Hkv, group, S, window):
        S = max(S, 2 * window - 1)
        return *last_key_wins(*heads(B, Hkv * group, Hkv, S, S, 16)), window

    puzzle.limits(build, dtypes=HALVES, B=2**17, Hkv=2**14, group=2**12, S=2**12, window=2**11)


@cases(narrow=1, less_than_a_tile=20, more_than_a_tile=150)
def test_numerics_all_scores_far_below_0(window):
    q, k, v = heads(1, 1, 1, 300, 300, 16)
    puzzle.check(q.abs() * 8 + 8, -k.abs() - 2, v, window)


def test_numerics_range_of_bfloat16():
    # Cast to float16 on the way, q and v are inf and k is 0.
    q, k, v = heads(1, 2, 2, 70, 70, 16, "bfloat16")
    puzzle.check(q * 1e6, k * 1e-6, v * 1e6, 30)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32_of_d_128(dtype):
    q, k, v = heads(1, 1, 1, 300, 300, 128, dtype)
    puzzle.check(q, k / 8, v / 4 + 1, 280)


@cases(zero=0.0, tiny=1e-4, large=3.0, negative=-0.3)
def test_numerics_scale(scale):
    puzzle.check(*heads(1, 2, 2, 70, 70, 16), 30, scale=scale)


def test_numerics_negative_scale_of_large_scores():
    q, k, v = heads(1, 2, 2, 150, 150, 16)
    puzzle.check(q * 30, k, v, 70, -1.0)


@cases(nan=float("nan"), inf=float("inf"), minus_inf=-float("inf"))
def test_numerics_a_value_that_all_queries_see(value):
    q, k, v = heads(1, 2, 1, 70, 70, 16)
    v[0, 0, 0, 3] = value
    puzzle.check(q, k, v, 70)


# Of v: a key that a row does not see leaves it alone in the formula, and is 0 * NaN where PyTorch
# multiplies, or where a tile at an edge does. What all rows see is in the test above.
test_numerics_each_special_value = special_values(
    puzzle,
    lambda: (*heads(1, 2, 1, 70, 70, 16), 30),
    "q k v",
    apart={**FUSED_SCORES, "v": ("nan", "inf", "minus_inf")},
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(batches_and_heads=(2, 2, 128, 64, 1), narrow=(1, 1, 1024, 16, 0.25))
def test_traffic(B, H, S, D, part):
    # A program loads no more than this part of the keys, however large its tile.
    traffic = puzzle.traffic(*heads(B, H, H, S, S, D), 128)
    programs = sum(map(math.prod, traffic.grids)) / (B * H)
    traffic.check(
        reads={"q": 1, "k": part * programs, "v": part * programs},
        writes=1,
        launches=1,
        sectors=1.1,
        grid_at_most=B * H * S // 64,
        total_writes=B * H * S * (D + 1),
        dot_macs=part * 2 * B * H * S * S * D,
    )


def test_traffic_window_of_all():
    S, D = 1024, 16
    traffic = puzzle.traffic(*heads(1, 1, 1, S, S, D), S)
    programs = sum(map(math.prod, traffic.grids))
    traffic.check(
        reads={"q": 1, "k": 0.6 * programs, "v": 0.6 * programs},
        writes=1,
        launches=1,
        dot_macs=0.6 * 2 * S * S * D,
    )


def test_compiles_d_64():
    puzzle.compiles(*heads(1, 2, 1, 128, 128, 64), 50)


def test_compiles_ragged_and_transposed():
    puzzle.compiles(*(x.mT.contiguous().mT for x in heads(1, 2, 2, 35, 35, 16)), 9)


def test_speedup():
    B, H, S, D, window = 1, 16, 4096, 128, 512
    seen = S * window - window * (window - 1) // 2
    work = (4 * B * H * seen * D, "float16")
    inputs = heads(B, H, H, S, S, D)
    puzzle.race(*inputs, window, at_least=0.9, baseline="solution", operations=work)
