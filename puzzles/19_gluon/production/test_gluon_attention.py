"""Tests of 19.7, Gluon attention, in production."""

from torch.nn import functional

from course.challenge import challenge
from course.inputs import (
    HALVES,
    cases,
    dtypes,
    heads,
    last_key_wins,
    multiprocessors,
    offset,
    rising_scores,
    strided,
    tensor,
)
from course.values import FUSED_SCORES, special_values

puzzle = challenge("gluon_attention", rounded=True, capability=(9, 0))
INF = float("inf")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_q_has_no_heads():
    q, k, v = heads(2, 4, 2, 8, 6, 64)
    puzzle.check_or_raises(q[0], k, v, names="q")


@cases(smaller=32, no_power_of_2=72, larger=256)
def test_shapes_q_of_another_width(D):
    puzzle.check_or_raises(*heads(2, 4, 2, 8, 6, D), names="q")


@dtypes("float32", "float64")
def test_shapes_q_of_another_dtype(dtype):
    puzzle.check_or_raises(*heads(2, 4, 2, 8, 6, 64, dtype), names="q")


def test_shapes_k_does_not_fit_q():
    q, k, v = heads(2, 4, 2, 8, 6, 64)
    puzzle.check_or_raises(q, k[0], v, names="k")
    puzzle.check_or_raises(q, k[:1], v[:1], names="k")
    puzzle.check_or_raises(q[:, :3], k, v, names="k")
    puzzle.check_or_raises(heads(2, 4, 2, 8, 6, 128)[0], k, v, names="k")
    puzzle.check_or_raises(q, k.bfloat16(), v, names="k")


def test_shapes_v_does_not_fit_k():
    q, k, v = heads(2, 4, 2, 8, 6, 128)
    for wrong in (v[:, :, :5], v[..., :64], v[:, :1], v.transpose(1, 2), v.bfloat16()):
        puzzle.check_or_raises(q, k, wrong, names="v")


# Any size and layout.


@cases(
    one_head_of_keys=(2, 3, 1, 20, 24, 64),
    many_slots_at_the_widest=(1, 2, 1, 130, 1000, 128),
    more_tiles_of_keys=(1, 3, 1, 300, 290, 64),
    one_key=(1, 2, 2, 150, 1, 64),
    many_queries=(1, 2, 1, 2050, 260, 64),
    many_queries_few_keys=(1, 1, 1, 2048, 70, 64),
    many_queries_whole_rows=(1, 1, 1, 2048, 528, 64),
)
def test_shapes(B, H, Hkv, S, T, D):
    inputs = heads(B, H, Hkv, S, T, D)
    puzzle.check(*inputs)
    puzzle.check(*inputs, causal=True)


@cases(
    past_two_tiles=(257, 257),
    keys_end_inside_the_diagonal=(150, 140),
    keys_end_before_the_diagonal=(400, 200),
    keys_go_on_behind_it=(200, 400),
)
def test_masks(S, T):
    inputs = heads(1, 2, 1, S, T, 64)
    puzzle.check(*inputs)
    puzzle.check(*inputs, causal=True)


@cases(more_queries=(300, 200), more_keys=(200, 300))
def test_masks_later_keys_count_for_nothing(S, T):
    # A key that is too late by one would win against all others.
    q, k, v = heads(1, 2, 1, S, T, 64)
    puzzle.check(*rising_scores(q, k), v, causal=True)


def test_masks_many_queries():
    q, k, v = heads(1, 1, 1, 2060, 2050, 64)
    puzzle.check(*rising_scores(q, k), v, causal=True)


@cases(d_64=64, d_128=128)
def test_masks_diagonal(D):
    puzzle.check(*heads(1, 1, 1, 290, 290, D), causal=True)


def test_masks_keys_past_the_end_count_for_nothing_if_causal():
    q, k, v = heads(1, 1, 1, 20, 140, 64)
    puzzle.check(q.abs() / 2 + 1, -k.abs() - 1, v, causal=True)


def test_masks_heads_inside_rows():
    q, k, v = heads(2, 140, 150, 3, 3, 64)
    inputs = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    puzzle.check(*inputs)
    puzzle.check(*inputs, causal=True)


def test_masks_parts_of_larger_tensors():
    q, k, v = heads(3, 5, 4, 200, 300, 128)
    puzzle.check(q[1:, 1:, 7:147, 64:], k[1:, 2:, 9:, :64], v[1:, :2, :291, 8:72], causal=True)


def test_masks_unaligned_by_whole_16_bytes():
    q, k, v = heads(1, 2, 2, 140, 150, 64)
    puzzle.check(offset(q, 8), offset(k, 16), offset(v, 24))


@cases(
    transposed=lambda x: x.mT.contiguous().mT,
    not_aligned=lambda x: offset(x, 4),
    gaps_in_the_rows=lambda x: strided(x, 1, 1, 1, 2),
    rows=lambda x: functional.pad(x, (0, 4))[..., :64],
    one_head_expanded=lambda x: x[:, :1].expand(x.shape),
)
def test_masks_what_tma_cannot_address(change):
    inputs = heads(2, 2, 2, 40, 40, 64)
    for number, name in enumerate("qkv"):
        changed = list(inputs)
        changed[number] = change(inputs[number])
        puzzle.check_or_raises(*changed, names=name)


def test_masks_limits():
    puzzle.limits(
        lambda B, Hkv, group, S, T: last_key_wins(*heads(B, Hkv * group, Hkv, S, T, 64)),
        dtypes=HALVES,
        B=2**17,
        Hkv=2**14,
        group=2**12,
        S=2**14,
        T=2**14,
    )


@cases(**{f"many_rounds_{number}": number for number in range(12)})
def test_masks_other_orders(number):
    inputs = heads(1, multiprocessors() + 1, 1, 130 + number, 700, 64)
    puzzle.check(*inputs, causal=number % 2 == 1)


# Any value.


@dtypes("float16", "bfloat16")
def test_numerics_causal(dtype):
    puzzle.check(*heads(1, 2, 1, 200, 200, 128, dtype), causal=True)


def test_numerics_large_scores():
    q, k, v = heads(1, 2, 2, 40, 300, 64)
    puzzle.check(q * 30, k, v, scale=1.0)
    puzzle.check(q * 30, k, v, scale=1.0, causal=True)


def test_numerics_all_scores_far_below_0():
    q, k, v = heads(1, 1, 1, 20, 200, 64)
    puzzle.check(q.abs() * 8 + 8, -k.abs() - 2, v)


def test_numerics_scores_to_minus_infinity():
    # Below -1e9, which some take for -inf.
    q, k, v = heads(1, 1, 1, 140, 140, 64)
    puzzle.check(q * 0 - 2**14, k * 0 + 2**14, v / 8 + 100, scale=1.0)
    early = (tensor(range(140), "float16") < 120)[:, None]
    puzzle.check(
        q * 0 - 2**14, k * 0 + 2**14 * early, v * 0 + 300 - 200 * early, scale=1.0, causal=True
    )


def test_numerics_a_key_of_minus_infinity():
    # Query 128 sees no other key than this one in the second block of 128.
    q, k, v = heads(1, 1, 1, 130, 130, 64)
    k[..., 128, :] = -INF
    puzzle.check(q.abs() + 1, k, v, causal=True)
    # And of many queries, those that come from here on.
    q, k, v = heads(1, 1, 1, 2050, 2050, 64)
    k[..., 2048, :] = -INF
    puzzle.check(q.abs() + 1, k, v, causal=True)


@cases(rises=0.02, falls=-0.02)
def test_numerics_many_queries(slope):
    q, k, v = heads(1, 1, 1, 2048, 700, 64)
    puzzle.check(*rising_scores(q, k, slope), v)


def test_numerics_range_of_bfloat16():
    # Cast to float16 on the way, q and v are inf and k is 0.
    q, k, v = heads(1, 2, 2, 20, 140, 64, "bfloat16")
    puzzle.check(q * 1e6, k * 1e-6, v * 1e6)


@cases(large=3.0, tiny=1e-4)
def test_numerics_scale(scale):
    inputs = heads(1, 2, 2, 20, 140, 64)
    puzzle.check(*inputs, scale=scale)
    puzzle.check(*inputs, scale=scale, causal=True)


def test_numerics_default_scale():
    puzzle.check(*heads(1, 1, 1, 17, 133, 128))


test_numerics_each_special_value = special_values(
    puzzle, lambda: heads(1, 2, 1, 70, 150, 64), "q k v", apart=FUSED_SCORES
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_widest():
    H, Hkv, S, T, D = 2, 1, 128, 256, 128
    keys = H // Hkv * S / 64
    puzzle.traffic(*heads(1, H, Hkv, S, T, D)).check(
        reads={"q": 1, "k": keys, "v": keys},
        writes=1,
        launches=1,
        sectors=1.1,
        total_writes=H * S * D,
        dot_macs=2 * H * S * T * D,
    )


@cases(
    small=(1, 2, 1, 64, 128, 64, True),
    ragged=(1, 3, 3, 67, 133, 128, True),
    all_keys=(1, 2, 2, 1024, 1024, 64, False),
)
def test_compiles(B, H, Hkv, S, T, D, causal):
    asked = ["TMA loads", "wgmma in flight", "overlap of most exponentials with wgmma"]
    inputs = heads(B, H, Hkv, S, T, D, "bfloat16")
    puzzle.compiles(*inputs, causal=causal, targets=["sm_90"], asked=asked, spills=0)


@cases(all_keys=(128, False), causal=(64, True))
def test_speedup(D, causal):
    B, H, S = 1, 16, 4096
    inputs = heads(B, H, H, S, S, D, "bfloat16")
    operations = (4 * B * H * S * S * D // (2 if causal else 1), "bfloat16")
    puzzle.race(*inputs, causal=causal, at_least=0.9, baseline="solution", operations=operations)
