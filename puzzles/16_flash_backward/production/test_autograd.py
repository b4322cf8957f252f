"""Tests of 16.4, attention with a backward pass, in production."""

import torch

from course.challenge import broken_rule, challenge
from course.inputs import (
    HALVES,
    along,
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
)
from course.values import FUSED_SCORES, special_values

puzzle = challenge("differentiable_attention", gradients=True, rounded=True)


def check(q, k, v, dout, scale=None, causal=False):
    puzzle.check(q, k, v, scale=scale, causal=causal, dout=dout)


def agree(one, other):
    """Whether two gradients are the same but for the order in which atomics added their terms."""
    return bool((one - other).abs().max() <= 0.01 * other.abs().max())


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


def test_shapes_v_does_not_fit_k():
    q, k, v = heads(2, 4, 2, 8, 6, 16)
    for wrong in (v[:, :, :5], v[..., :8], v[:, :1], v.transpose(1, 2), v.bfloat16()):
        puzzle.check_or_raises(q, k, wrong, names="v")


def test_masks_limits():
    def build(B, Hkv, group, S, T):
        *inputs, dout = ends_win(*heads_and_dout(B, Hkv * group, Hkv, S, T, 16))
        dout[..., -1, :] *= 64
        return *inputs, {"dout": dout}

    puzzle.limits(build, dtypes=HALVES, B=2**17, Hkv=2**14, group=2**12, S=2**14, T=range(2, 2**14))


@cases(q=0, k=1, v=2)
def test_numerics_input_changed_in_place(which):
    *inputs, dout = heads_and_dout(1, 2, 1, 20, 24, 16)
    puzzle.check(*inputs, dout=dout)
    inputs = [x.requires_grad_() for x in inputs]
    out = puzzle.subject.function(*inputs)
    with torch.no_grad():
        inputs[which].mul_(2)
    try:
        torch.autograd.grad(out, inputs, dout)
    except RuntimeError as error:
        if "inplace" in str(error):
            return
        raise
    raise broken_rule(
        "an input was changed in place after the forward pass, and backward computed with it",
        "ctx.save_for_backward(...) notices that, an attribute of ctx does not",
    )


# Any size and layout.


@cases(
    groups_of_twelve=(2, 12, 1, 20, 24, 16),
    whole_tiles_of_two_groups=(1, 4, 2, 128, 128, 32),
    widest=(1, 2, 1, 40, 100, 128),
    one_query=(1, 2, 2, 1, 70, 32),
    one_key=(1, 2, 2, 70, 1, 32),
    single_query_and_key=(1, 1, 1, 1, 1, 16),
)
def test_shapes(B, H, Hkv, S, T, D):
    inputs = heads_and_dout(B, H, Hkv, S, T, D)
    check(*inputs)
    check(*inputs, causal=True)


def test_shapes_without_a_backward_pass():
    puzzle.check(*heads(2, 4, 2, 20, 24, 16))


@cases(
    one_short_of_a_tile=(63, 63),
    one_past_a_tile=(65, 65),
    one_short_of_two_tiles=(127, 127),
    more_queries_than_keys=(150, 37),
    more_keys_than_queries=(37, 200),
)
def test_masks(S, T):
    inputs = heads_and_dout(1, 2, 1, S, T, 16)
    check(*inputs)
    check(*inputs, causal=True)


def test_masks_diagonal_of_the_widest_heads():
    check(*heads_and_dout(1, 1, 1, 150, 150, 128), causal=True)


def test_masks_heads_inside_rows():
    q, k, v, dout = (x.transpose(1, 2) for x in heads_and_dout(2, 20, 24, 4, 4, 16))
    check(q, k[:, :2], v[:, :2], dout)


def test_masks_transposed():
    check(*(x.mT.contiguous().mT for x in heads_and_dout(2, 2, 2, 40, 50, 32)))


def test_masks_every_stride():
    # More than one tile of queries and of keys.
    q, k, v, dout = heads_and_dout(2, 2, 2, 140, 150, 16)
    q, k = strided(q, 2, 1, 3, 2), strided(k, 1, 2, 2, 3)
    v, dout = strided(v, 3, 2, 1, 2), strided(dout, 1, 3, 2, 2)
    check(q, k, v, dout)
    check(q, k, v, dout, causal=True)


def test_masks_unaligned():
    q, k, v, dout = heads_and_dout(1, 2, 2, 40, 50, 16)
    check(offset(q), offset(k, 3), offset(v, 5), offset(dout, 7))


def test_masks_dout_of_a_sum():
    # The gradient that out.sum() sends back: one number, expanded.
    q, k, v = heads(2, 2, 2, 20, 24, 16)
    check(q, k, v, randn(1, dtype="float16").expand(2, 2, 20, 16))
    check(q, k, v, randn(16, dtype="float16").expand(2, 2, 20, 16), causal=True)


def test_masks_more_heads_than_axis_1_takes():
    q, k, v, dout = heads_and_dout(256, 256, 256, 1, 1, 16)
    puzzle.check_grid(q, k, v, dout=dout)


@cases(queries=0, keys=1, values=2, gradients=3)
def test_masks_offsets_beyond_32_bits(which):
    sizes = (3, 1, 1, 1, 1, 16), (1, 3, 3, 1, 1, 16), (1, 1, 1, 3, 3, 16), (1, 1, 1, 1, 1, 16)
    for dim, size in enumerate(sizes):
        inputs = list(heads_and_dout(*size))
        shape = inputs[which].shape
        inputs[which] = along(far_apart(randn(shape[dim], dtype="float16")), dim, *shape)
        check(*inputs)


@cases(queries=0, keys=1, values=2, gradients=3)
def test_masks_second_tile_beyond_32_bits(which):
    # 32, 64 or 128 strides are 2**31: one step of a tile of so many rows.
    for size in (33, 65, 129):
        inputs = list(heads_and_dout(1, 1, 1, size, size, 16))
        inputs[which] = along(far_apart(randn(size, dtype="float16")), 2, 1, 1, size, 16)
        check(*inputs)


def test_masks_result_beyond_32_bits():
    q, k, v, dout = (x.expand(512, 513, 64, 128) for x in heads_and_dout(1, 1, 1, 1, 1, 128))
    puzzle.check_large_offsets(q, k, v, dout=dout)


# Any value.


def test_masks_scores_to_minus_infinity():
    # Below -1e9, which some take for -inf. Forward only: no lse has the digits to go back.
    q, k, v, _ = heads_and_dout(1, 1, 1, 70, 70, 16)
    puzzle.check(q * 0 - 2**14, k * 0 + 2**14, v / 8 + 100, scale=1.0)
    early = (tensor(range(70), "float16") < 60)[:, None]
    puzzle.check(
        q * 0 - 2**14, k * 0 + 2**14 * early, v * 0 + 300 - 200 * early, scale=1.0, causal=True
    )


@dtypes("float16", "bfloat16")
def test_numerics_if_causal(dtype):
    check(*heads_and_dout(1, 2, 1, 70, 150, 64, dtype=dtype), causal=True)


@cases(of_long_rows=(16, 2048), of_many_rows=(2048, 16))
def test_numerics_sums_in_float32(S, T):
    # As at the first level, in float16.
    q, k, v, dout = heads_and_dout(1, 1, 1, 16, 16, 16)
    q, dout = (x.repeat(1, 1, S // 16, 1) for x in (q, dout.abs() + 1))
    check(q, *(x.repeat(1, 1, T // 16, 1) for x in (k, v.abs() + 1)), dout)


@cases(of_long_rows=(16, 2048), of_many_rows=(2048, 16))
def test_numerics_gradients_summed_in_float32(S, T):
    q, k, v, dout = (x.abs() + 1 for x in heads_and_dout(1, 1, 1, 16, 16, 16))
    sign = tensor([1, -1] * 8, "float16")[:, None]
    q, dout = (x.repeat(1, 1, S // 16, 1) for x in (q / 32, dout))
    check(q, *(x.repeat(1, 1, T // 16, 1) for x in (k * sign, v * sign)), dout)


def test_numerics_sums_over_a_group_in_float32():
    # Each head adds a gradient that is large against the last bit of the group's sum.
    q, k, v, dout = (x.abs() + 1 for x in heads_and_dout(1, 64, 1, 16, 16, 16))
    sign = tensor([1, -1] * 8, "float16")[:, None]
    check(q / 32, k * sign, v * sign, dout)


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


# Inputs that need no gradient, and more than one backward pass.


@cases(q=0, k=1, v=2)
def test_numerics_gradient_of_one_input(which):
    *inputs, dout = heads_and_dout(1, 2, 1, 20, 24, 16)
    puzzle.check(*inputs, dout=dout)
    inputs[which].requires_grad_()
    out = puzzle.subject.function(*inputs)
    (alone,) = torch.autograd.grad(out, inputs[which], dout, allow_unused=True)
    if alone is None:
        raise broken_rule("no gradient where one input alone requires it")
    together = puzzle.subject(*inputs, dout=dout)[1 + which]
    if not agree(alone, together):
        raise broken_rule("a gradient changes when the other inputs need none")


@cases(queries=0, keys=1, values=2)
def test_numerics_two_inputs_that_require_a_gradient(without):
    *inputs, dout = heads_and_dout(1, 2, 1, 20, 24, 16)
    puzzle.check(*inputs, dout=dout)
    wanted = [x.requires_grad_() for number, x in enumerate(inputs) if number != without]
    out = puzzle.subject.function(*inputs)
    got = torch.autograd.grad(out, wanted, dout, allow_unused=True)
    if any(gradient is None for gradient in got):
        raise broken_rule("where one input requires no gradient, another gets none either")


def test_numerics_second_backward_pass_gives_the_same():
    *inputs, dout = heads_and_dout(1, 2, 1, 20, 24, 16)
    check(*inputs, dout, scale=0.3)
    inputs = [x.requires_grad_() for x in inputs]
    out = puzzle.subject.function(*inputs, scale=0.3)
    first = torch.autograd.grad(out, inputs, dout, retain_graph=True)
    second = torch.autograd.grad(out, inputs, dout)
    if not all(map(agree, second, first)):
        raise broken_rule("a second backward pass gives other gradients", "change nothing on ctx")


def test_numerics_second_backward_pass_leaves_the_first_ones_gradients():
    *inputs, dout = heads_and_dout(1, 2, 1, 20, 24, 16)
    puzzle.check(*inputs, dout=dout)
    inputs = [x.requires_grad_() for x in inputs]
    out = puzzle.subject.function(*inputs)
    first = torch.autograd.grad(out, inputs, dout, retain_graph=True)
    kept = [gradient.clone() for gradient in first]
    torch.autograd.grad(out, inputs, -dout)
    if not all(map(torch.equal, first, kept)):
        raise broken_rule(
            "a second backward pass writes into the gradients that the first one gave"
        )


# Compilation and speed of what the first level leaves out.


test_numerics_each_special_value = special_values(
    puzzle,
    lambda: (*heads(1, 2, 1, 20, 24, 16), {"dout": randn(1, 2, 20, 16, dtype="float16")}),
    "q k v dout",
    apart=FUSED_SCORES,
)


def test_compiles_d_128():
    q, k, v, dout = heads_and_dout(1, 2, 1, 128, 128, 128)
    puzzle.compiles(q, k, v, dout=dout)


def test_compiles_ragged_and_transposed():
    q, k, v, dout = (x.mT.contiguous().mT for x in heads_and_dout(1, 2, 2, 35, 67, 16))
    puzzle.compiles(q, k, v, dout=dout)


def test_speedup():
    B, H, S, D = 1, 16, 4096, 64
    q, k, v, dout = heads_and_dout(B, H, H, S, S, D)
    # A backward pass needs five products of which the forward pass needs two.
    operations = (3.5 * 4 * B * H * S * S * D, "float16")
    puzzle.race(q, k, v, dout=dout, at_least=0.9, operations=operations, baseline="solution")
