"""What 16.2, the gradient of q, is held to."""

import math

import pytest
import torch

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor, uniform

puzzle = challenge("attention_dq", rounded=True)


def four(B, H, Hkv, S, T, D, dtype="float16"):
    q, dout = randn(B, H, S, D, dtype=dtype), randn(B, H, S, D, dtype=dtype)
    return q, randn(B, Hkv, T, D, dtype=dtype), randn(B, Hkv, T, D, dtype=dtype), dout


def saved(q, k, v, dout, scale=None, causal=False):
    """The same, and lse and delta that belong to them."""
    wide = [x.double() for x in (q, k, v, dout)]
    k_heads, v_heads = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in wide[1:3])
    scores = wide[0] @ k_heads.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        scores += torch.full_like(scores, -math.inf).triu(1)
    out = torch.softmax(scores, dim=-1) @ v_heads
    return q, k, v, dout, torch.logsumexp(scores, dim=-1).float(), (out * wide[3]).sum(-1).float()


def check(q, k, v, dout, scale=None, causal=False):
    puzzle.check(*saved(q, k, v, dout, scale, causal), scale=scale, causal=causal)


@cases(
    single_query_and_key=(1, 1, 1, 1, 1, 16),
    one_query=(1, 2, 2, 1, 70, 32),
    one_key=(1, 2, 2, 70, 1, 32),
    batches_and_heads=(3, 2, 2, 20, 24, 16),
    groups_of_three=(2, 6, 2, 20, 24, 16),
    one_head_of_keys=(2, 3, 1, 24, 20, 16),
    whole_tiles_of_two_groups=(1, 4, 2, 128, 128, 32),
    widest=(1, 2, 1, 40, 100, 128),
)
def test_shapes(B, H, Hkv, S, T, D):
    inputs = four(B, H, Hkv, S, T, D)
    check(*inputs)
    check(*inputs, causal=True)


def test_shapes_of_bad_input():
    q, k, v, dout, lse, delta = saved(*four(2, 4, 2, 8, 6, 16))
    rest = (lse, delta)

    def rejects(*inputs, naming):
        puzzle.rejects(ValueError, *inputs, naming=naming)

    rejects(q[0], k, v, dout, *rest, naming="q")
    for D in (8, 24, 256):
        rejects(*four(2, 4, 2, 8, 6, D), *rest, naming="q")
    rejects(*(x.float() for x in (q, k, v, dout)), *rest, naming="q")
    rejects(q, k[0], v, dout, *rest, naming="k")
    rejects(q, k[:1], v[:1], dout, *rest, naming="k")
    rejects(q[:, :3], k, v, dout[:, :3], lse[:, :3], delta[:, :3], naming="k")
    rejects(q, *four(2, 4, 2, 8, 6, 32)[1:3], dout, *rest, naming="k")
    rejects(q, k.bfloat16(), v, dout, *rest, naming="k")
    for wrong in (v[:, :, :5], v[..., :8], v[:, :1], v.transpose(1, 2), v.bfloat16()):
        rejects(q, k, wrong, dout, *rest, naming="v")
    for wrong in (dout[:, :, :7], dout.transpose(1, 2), dout.bfloat16()):
        rejects(q, k, v, wrong, *rest, naming="dout")
    for wrong in (lse[:, :, :7], lse.mT, lse.half()):
        rejects(q, k, v, dout, wrong, delta, naming="lse")
    rejects(q, k, v, dout, lse, delta[..., None], naming="delta")
    rejects(q, k, v, dout, lse, delta.half(), naming="delta")


@cases(
    one_short_of_a_tile=(63, 63),
    one_past_a_tile=(65, 65),
    one_short_of_two_tiles=(127, 127),
    more_queries_than_keys=(150, 37),
    more_keys_than_queries=(37, 200),
    keys_end_inside_the_diagonal=(150, 100),
)
def test_masks(S, T):
    inputs = four(1, 2, 1, S, T, 16)
    check(*inputs)
    check(*inputs, causal=True)


@cases(square=(150, 150), more_queries=(200, 100), more_keys=(100, 200))
def test_masks_later_keys_count_for_nothing(S, T):
    # A key that is too late by one would win against all others.
    q, k, v, dout = four(1, 2, 1, S, T, 16)
    ramp = tensor(range(T))[:, None] / 10
    check(q.abs() + 0.5, (k * 0.2 + ramp).half(), v, dout, causal=True)


@cases(d_64=64, d_128=128)
def test_masks_diagonal(D):
    check(*four(1, 1, 1, 150, 150, D), causal=True)


def test_masks_past_the_end_counts_for_nothing():
    # Every score is far below 0: exp(0 - lse), of a key of zeros, is inf.
    q, k, v, dout = four(1, 1, 1, 20, 70, 16)
    check(q.abs() + 4, -k.abs() - 4, v, dout, scale=1.0)
    check(q.abs() + 4, -k.abs() - 4, v, dout, scale=1.0, causal=True)
    q, k, v, dout = four(1, 1, 1, 150, 70, 16)
    check(q.abs() + 4, -k.abs() - 4, v, dout, scale=1.0, causal=True)


def test_masks_heads_inside_rows():
    q, k, v, dout = (x.transpose(1, 2) for x in four(2, 20, 24, 4, 4, 16))
    check(q, k[:, :2], v[:, :2], dout)


def test_masks_transposed():
    check(*(x.mT.contiguous().mT for x in four(2, 2, 2, 40, 50, 32)))


def test_masks_every_stride():
    # More than one tile of queries and of keys.
    q, k, v, dout, lse, delta = saved(*four(2, 2, 2, 140, 150, 16))
    q, k = strided(q, 2, 1, 3, 2), strided(k, 1, 2, 2, 3)
    v, dout = strided(v, 3, 2, 1, 2), strided(dout, 1, 3, 2, 2)
    inputs = q, k, v, dout, strided(lse, 2, 3, 2), strided(delta, 3, 1, 4)
    puzzle.check(*inputs)
    puzzle.check(*inputs, causal=True)


def test_masks_unaligned():
    q, k, v, dout = four(1, 2, 2, 40, 50, 16)
    check(offset(q), offset(k, 3), offset(v, 5), offset(dout, 7))


def test_masks_dout_of_a_sum():
    # The gradient that out.sum() sends back: one number, expanded. Then all ds cancel but noise.
    q, k, v, _ = four(2, 2, 2, 20, 24, 16)
    check(q, k, v, randn(1, dtype="float16").expand(2, 2, 20, 16))
    check(q, k, v, randn(16, dtype="float16").expand(2, 2, 20, 16), causal=True)


def test_masks_one_head_expanded():
    q, k, v, dout = four(1, 1, 1, 20, 24, 16)
    q, dout = q.expand(2, 4, 20, 16), dout.expand(2, 4, 20, 16)
    check(q, k.expand(2, 2, 24, 16), v.expand(2, 2, 24, 16), dout)


def test_masks_more_heads_than_axis_1_takes():
    puzzle.check_grid(*saved(*four(256, 256, 256, 1, 1, 16)))


@cases(queries=0, keys=1, values=2, gradients=3, lse=4, delta=5)
def test_masks_offsets_beyond_32_bits(which):
    inputs = list(saved(*four(3, 3, 3, 3, 3, 16)))
    shape, dtype = inputs[which].shape, inputs[which].dtype
    for axis, size in enumerate(shape):
        far = far_apart(randn(size, dtype=dtype))
        inputs[which] = far.view([-1 if i == axis else 1 for i in range(len(shape))]).expand(shape)
        puzzle.check(*inputs)


@cases(queries=0, keys=1, values=2, gradients=3, lse=4, delta=5)
def test_masks_second_tile_beyond_32_bits(which):
    # 32, 64 or 128 strides are 2**31: one step of a tile of so many rows.
    for size in (33, 65, 129):
        inputs = list(saved(*four(1, 1, 1, size, size, 16)))
        far = far_apart(randn(size, dtype=inputs[which].dtype))
        far = far[None, None, :] if which > 3 else far[None, None, :, None]
        inputs[which] = far.expand(inputs[which].shape)
        puzzle.check(*inputs)


def test_masks_result_beyond_32_bits():
    inputs = saved(*four(1, 1, 1, 1, 1, 128))
    size = (512, 513, 64)
    puzzle.check_large_offsets(
        *(x.expand(*size, 128) if x.dim() == 4 else x.expand(size) for x in inputs)
    )


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    inputs = four(1, 2, 1, 70, 150, 64, dtype)
    check(*inputs)
    check(*inputs, causal=True)


@pytest.mark.parametrize("D", [16, 128])
@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype, D):
    # The same 16 keys again and again, so that a narrow sum rounds to the same side each time. As
    # delta is not theirs, the terms do not cancel.
    q, k, v, dout = four(1, 1, 1, 16, 16, D, dtype)
    k, v = (x.repeat(1, 1, 128, 1) for x in (k.abs() + 1, v))
    q, k, v, dout, lse, delta = saved(q, k, v, dout)
    puzzle.check(q, k, v, dout, lse, delta - 20)


def test_numerics_products_beyond_the_range_of_float16():
    q, k, v, dout = four(1, 2, 2, 40, 70, 16)
    check(q, k, v + 100, dout.abs() * 10 + 100)


@dtypes("float16", "bfloat16")
def test_numerics_delta_in_float32(dtype):
    # The keys have one sign, so that what delta is rounded by does not cancel.
    q, k, v, dout = four(1, 2, 2, 40, 70, 16, dtype)
    check(q, k.abs() + 1, v + 30, dout.abs() + 2)


@dtypes("float16", "bfloat16")
def test_numerics_whole_numbers(dtype):
    # With scores and lse of 0 every probability is 1, and the gradients are whole numbers.
    k, v = (integers(1, 2, 70, 16, low=-2, high=3, dtype=dtype) for _ in range(2))
    dout = integers(1, 2, 40, 16, low=-2, high=3, dtype=dtype)
    lse, delta = tensor([[[0.0] * 40] * 2]), integers(1, 2, 40)
    puzzle.check_exactly(dout * 0, k, v, dout, lse, delta, scale=0.5)
    puzzle.check_exactly(dout * 0, k, v, dout, lse, delta, scale=0.5, causal=True)


@cases(scores_of_hundreds=1.0, negative_scale=-1.0)
def test_numerics_large_scores(scale):
    q, k, v, dout = four(1, 2, 2, 40, 100, 16)
    check(q * 30, k, v, dout, scale)
    check(q * 30, k, v, dout, scale, True)


def test_numerics_range_of_bfloat16():
    # Cast to float16 on the way, q and the gradients are inf and k is 0.
    q, k, v, dout = four(1, 2, 2, 40, 70, 16, "bfloat16")
    check(q * 1e6, k * 1e-6, v, dout * 1e6)


@cases(zero=0.0, large=3.0, tiny=1e-4, negative=-0.3)
def test_numerics_scale(scale):
    inputs = four(1, 2, 2, 40, 70, 16)
    check(*inputs, scale=scale)
    check(*inputs, scale=scale, causal=True)


def test_numerics_default_scale():
    for D in (16, 32, 128):
        check(*four(1, 1, 1, 17, 33, D))


@cases(d_16=(2, 6, 2, 16), d_128=(1, 2, 1, 128))
def test_traffic(B, H, Hkv, D):
    S, T = 128, 128
    traffic = puzzle.traffic(*saved(*four(B, H, Hkv, S, T, D)))
    keys = math.prod(traffic.grid) / (B * Hkv)
    traffic.check(
        reads={"q": 1, "dout": 1, "lse": 1, "delta": 1, "k": keys, "v": keys},
        writes=1,
        launches=1,
        sectors=1.1,
        grid_at_most=B * H * S // 64,
        total_writes=B * H * S * D,
        dot_macs=3 * B * H * S * T * D,
    )


def test_traffic_causal():
    S, D = 1024, 16
    traffic = puzzle.traffic(*saved(*four(1, 1, 1, S, S, D), causal=True), causal=True)
    keys = 0.6 * math.prod(traffic.grid)
    traffic.check(
        reads={"q": 1, "dout": 1, "lse": 1, "delta": 1, "k": keys, "v": keys},
        writes=1,
        launches=1,
        sectors=1.1,
        grid_at_most=S // 64,
        total_writes=S * D,
        dot_macs=0.6 * 3 * S * S * D,
    )


@cases(d_64=("float16", 64, False), d_128_causal=("bfloat16", 128, True))
def test_compiles(dtype, D, causal):
    puzzle.compiles(*saved(*four(1, 2, 1, 128, 128, D, dtype)), causal=causal)


def test_compiles_ragged():
    puzzle.compiles(*saved(*(x.mT.contiguous().mT for x in four(1, 2, 2, 35, 67, 16))))


def test_speedup():
    B, H, S, D = 1, 16, 4096, 128
    operations = 2 * 3 * B * H * S * S * D
    # About what belongs to them: the truth would take the CPU minutes.
    lse, delta = uniform(B, H, S) + math.log(S), randn(B, H, S)
    inputs = (*four(B, H, H, S, S, D), lse, delta)
    puzzle.race(*inputs, at_least=2, operations=(operations, "float16"))
