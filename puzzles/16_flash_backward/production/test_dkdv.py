"""Tests of 16.3, the gradients of k and v, in production."""

import math

from course.challenge import challenge
from course.inputs import (
    HALVES,
    along,
    attention_saved,
    cases,
    dtypes,
    ends_win,
    far_apart,
    heads,
    heads_and_dout,
    offset,
    randn,
    strided,
    tensor,
    uniform,
)
from course.values import special_values

puzzle = challenge("attention_dkdv", results=("dk", "dv"), rounded=True)


def check(q, k, v, dout, scale=None, causal=False):
    puzzle.check(*attention_saved(q, k, v, dout, scale, causal), scale=scale, causal=causal)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_q_has_no_heads():
    q, *rest = attention_saved(*heads_and_dout(2, 4, 2, 8, 6, 16))
    puzzle.check_or_raises(q[0], *rest, names="q")


@cases(smaller=8, no_power_of_2=24, larger=256)
def test_shapes_q_of_another_width(D):
    puzzle.check_or_raises(*attention_saved(*heads_and_dout(2, 4, 2, 8, 6, D)), names="q")


@dtypes("float32", "float64")
def test_shapes_q_of_another_dtype(dtype):
    puzzle.check_or_raises(
        *attention_saved(*heads_and_dout(2, 4, 2, 8, 6, 16, dtype=dtype)), names="q"
    )


def test_shapes_k_does_not_fit_q():
    q, k, v, dout, lse, delta = attention_saved(*heads_and_dout(2, 4, 2, 8, 6, 16))
    rest = dout, lse, delta
    puzzle.check_or_raises(q, k[0], v, *rest, names="k")
    puzzle.check_or_raises(q, k[:1], v[:1], *rest, names="k")
    puzzle.check_or_raises(q[:, :3], k, v, *(x[:, :3] for x in rest), names="k")
    puzzle.check_or_raises(q, *heads(2, 4, 2, 8, 6, 32)[1:], *rest, names="k")
    puzzle.check_or_raises(q, k.bfloat16(), v, *rest, names="k")


def test_shapes_v_does_not_fit_k():
    q, k, v, *rest = attention_saved(*heads_and_dout(2, 4, 2, 8, 6, 16))
    for wrong in (v[:, :, :5], v[..., :8], v[:, :1], v.transpose(1, 2), v.bfloat16()):
        puzzle.check_or_raises(q, k, wrong, *rest, names="v")


def test_shapes_dout_does_not_fit_q():
    q, k, v, dout, *rest = attention_saved(*heads_and_dout(2, 4, 2, 8, 6, 16))
    for wrong in (dout[:, :, :7], dout.transpose(1, 2), dout.bfloat16()):
        puzzle.check_or_raises(q, k, v, wrong, *rest, names="dout")


def test_shapes_lse_and_delta_do_not_fit_q():
    *inputs, lse, delta = attention_saved(*heads_and_dout(2, 4, 2, 8, 6, 16))
    for wrong in (lse[:, :, :7], lse.mT, lse.half()):
        puzzle.check_or_raises(*inputs, wrong, delta, names="lse")
    for wrong in (delta[..., None], delta.half()):
        puzzle.check_or_raises(*inputs, lse, wrong, names="delta")


# Any size and layout.


@cases(
    one_head_of_keys=(2, 3, 1, 24, 20, 16),
    one_key=(1, 2, 2, 70, 1, 32),
    whole_tiles_of_128=(1, 4, 2, 128, 128, 32),
)
def test_shapes(B, H, Hkv, S, T, D):
    inputs = heads_and_dout(B, H, Hkv, S, T, D)
    check(*inputs)
    check(*inputs, causal=True)


@cases(one_short_of_two_tiles=(127, 127), keys_end_inside_the_diagonal=(150, 100))
def test_masks(S, T):
    inputs = heads_and_dout(1, 2, 1, S, T, 16)
    check(*inputs)
    check(*inputs, causal=True)


@cases(more_queries=(200, 100), more_keys=(100, 200))
def test_masks_later_keys_count_for_nothing(S, T):
    # A key that is too late by one would win against all others.
    q, k, v, dout = heads_and_dout(1, 2, 1, S, T, 16)
    ramp = tensor(range(T), "float16")[:, None] / 10
    check(q.abs() + 0.5, k / 5 + ramp, v, dout, causal=True)


def test_masks_diagonal_of_the_widest_heads():
    check(*heads_and_dout(1, 1, 1, 150, 150, 128), causal=True)


def test_masks_past_the_end_counts_for_nothing_if_causal():
    q, k, v, dout = heads_and_dout(1, 1, 1, 20, 70, 16)
    check(q.abs() + 4, -k.abs() - 4, v, dout, scale=1.0, causal=True)


def test_masks_heads_inside_rows():
    q, k, v, dout = (x.transpose(1, 2) for x in heads_and_dout(2, 20, 24, 4, 4, 16))
    check(q, k[:, :2], v[:, :2], dout)


def test_masks_transposed():
    check(*(x.mT.contiguous().mT for x in heads_and_dout(2, 2, 2, 40, 50, 32)))


def test_masks_every_stride():
    # More than one tile of queries and of keys.
    q, k, v, dout, lse, delta = attention_saved(*heads_and_dout(2, 2, 2, 140, 150, 16))
    q, k = strided(q, 2, 1, 3, 2), strided(k, 1, 2, 2, 3)
    v, dout = strided(v, 3, 2, 1, 2), strided(dout, 1, 3, 2, 2)
    inputs = q, k, v, dout, strided(lse, 2, 3, 2), strided(delta, 3, 1, 4)
    puzzle.check(*inputs)
    puzzle.check(*inputs, causal=True)


def test_masks_unaligned():
    q, k, v, dout = heads_and_dout(1, 2, 2, 40, 50, 16)
    check(offset(q), offset(k, 3), offset(v, 5), offset(dout, 7))


def test_masks_dout_of_a_sum():
    # The gradient that out.sum() sends back: one number, expanded. Then all ds cancel but noise.
    q, k, v = heads(2, 2, 2, 20, 24, 16)
    check(q, k, v, randn(1, dtype="float16").expand(2, 2, 20, 16))
    check(q, k, v, randn(16, dtype="float16").expand(2, 2, 20, 16), causal=True)


def test_masks_one_head_expanded():
    q, k, v, dout = heads_and_dout(1, 1, 1, 20, 24, 16)
    q, dout = q.expand(2, 4, 20, 16), dout.expand(2, 4, 20, 16)
    check(q, k.expand(2, 2, 24, 16), v.expand(2, 2, 24, 16), dout)


def test_masks_more_heads_than_axis_1_takes():
    puzzle.check_grid(*attention_saved(*heads_and_dout(256, 256, 256, 1, 1, 16)))


@cases(queries=0, keys=1, values=2, gradients=3, lse=4, delta=5)
def test_masks_offsets_beyond_32_bits(which):
    for B, H, S, dim in ((3, 1, 2, 0), (1, 3, 2, 1), (1, 1, 3, 2), (1, 1, 2, 3)):
        inputs = list(attention_saved(*heads_and_dout(B, H, H, S, S, 16)))
        shape, dtype = inputs[which].shape, inputs[which].dtype
        if dim < len(shape):
            inputs[which] = along(far_apart(randn(shape[dim], dtype=dtype)), dim, *shape)
            puzzle.check(*inputs)


@cases(queries=0, keys=1, values=2, gradients=3, lse=4, delta=5)
def test_masks_second_tile_beyond_32_bits(which):
    # 32, 64 or 128 strides are 2**31: one step of a tile of so many rows.
    for size in (33, 65, 129):
        inputs = list(attention_saved(*heads_and_dout(1, 1, 1, size, size, 16)))
        far = far_apart(randn(size, dtype=inputs[which].dtype))
        inputs[which] = along(far, 2, *inputs[which].shape)
        puzzle.check(*inputs)


def test_masks_result_beyond_32_bits():
    inputs = attention_saved(*heads_and_dout(1, 1, 1, 1, 1, 128))
    puzzle.check_large_offsets(*(x.expand(512, 513, 64, *x.shape[3:]) for x in inputs))


def test_masks_limits():
    def build(B, Hkv, group, S, T):
        *inputs, dout = ends_win(*heads_and_dout(B, Hkv * group, Hkv, S, T, 16))
        # The last query counts for more.
        dout[..., -1, :] *= 64
        return attention_saved(*inputs, dout)

    # With one key nothing depends on q.
    puzzle.limits(build, dtypes=HALVES, B=2**17, Hkv=2**14, group=2**12, S=2**14, T=range(2, 2**14))


# Any value.


@dtypes("float16", "bfloat16")
def test_numerics_without_a_mask(dtype):
    check(*heads_and_dout(1, 2, 1, 70, 150, 64, dtype=dtype))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # As at the first level, of the widest heads.
    q, k, v, dout = heads_and_dout(1, 1, 1, 16, 16, 128, dtype=dtype)
    q, dout = (x.repeat(1, 1, 128, 1) for x in (q.abs() + 1, dout.abs() + 1))
    q, k, v, dout, lse, delta = attention_saved(q, k, v, dout)
    puzzle.check(q, k, v, dout, lse, delta - 20)


@cases(scores_of_hundreds=1.0, negative_scale=-1.0)
def test_numerics_large_scores(scale):
    q, k, v, dout = heads_and_dout(1, 2, 2, 40, 100, 16)
    check(q * 30, k, v, dout, scale)
    check(q * 30, k, v, dout, scale, True)


def test_numerics_range_of_bfloat16():
    # Cast to float16 on the way, q and the gradients are inf and k is 0.
    q, k, v, dout = heads_and_dout(1, 2, 2, 40, 70, 16, dtype="bfloat16")
    check(q * 1e6, k * 1e-6, v, dout * 1e6)


@cases(zero=0.0, large=3.0, tiny=1e-4, negative=-0.3)
def test_numerics_scale(scale):
    inputs = heads_and_dout(1, 2, 2, 40, 70, 16)
    check(*inputs, scale=scale)
    check(*inputs, scale=scale, causal=True)


@cases(d_16=16, d_32=32, d_128=128)
def test_numerics_default_scale(D):
    check(*heads_and_dout(1, 1, 1, 17, 33, D))


# Of the largest delta: ds is rounded to float16 before tl.dot takes it, which overflows. Of a large
# q, whose lse is that of other scores, probabilities overflow in float32.
test_numerics_each_special_value = special_values(
    puzzle,
    lambda: attention_saved(*heads_and_dout(1, 2, 1, 20, 24, 16)),
    "q k v dout lse delta",
    apart={"q": ("large",), "delta": ("largest",)},
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(d_16=(2, 6, 2, 16), d_128=(1, 2, 1, 128))
def test_traffic(B, H, Hkv, D):
    S, T = 128, 128
    traffic = puzzle.traffic(*attention_saved(*heads_and_dout(B, H, Hkv, S, T, D)))
    queries = math.prod(traffic.grid) / (B * Hkv)
    traffic.check(
        reads={"k": 1, "v": 1, "q": queries, "dout": queries, "lse": queries, "delta": queries},
        writes=1,
        launches=1,
        sectors=1.1,
        grid_at_most=B * Hkv * T // 64,
        total_writes=2 * B * Hkv * T * D,
        dot_macs=4 * B * H * S * T * D,
    )


def test_compiles_d_128():
    puzzle.compiles(*attention_saved(*heads_and_dout(1, 2, 1, 128, 128, 128)))


def test_compiles_ragged_and_transposed():
    inputs = (x.mT.contiguous().mT for x in heads_and_dout(1, 2, 2, 35, 67, 16))
    puzzle.compiles(*attention_saved(*inputs))


def test_speedup():
    B, H, S, D = 1, 16, 4096, 128
    operations = (2 * 4 * B * H * S * S * D, "float16")
    lse, delta = uniform(B, H, S) + math.log(S), randn(B, H, S)
    inputs = (*heads_and_dout(B, H, H, S, S, D), lse, delta)
    puzzle.race(*inputs, at_least=0.9, baseline="solution", operations=operations)
