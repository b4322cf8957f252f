"""What 16.4, attention with a backward pass, is held to."""

import torch

from judge.challenge import challenge
from judge.core.verdict import Wrong
from judge.inputs import cases, dtypes, far_apart, offset, randn, strided, tensor

puzzle = challenge("differentiable_attention", gradients=True, rounded=True)


def four(B, H, Hkv, S, T, D, dtype="float16"):
    q, dout = randn(B, H, S, D, dtype=dtype), randn(B, H, S, D, dtype=dtype)
    return q, randn(B, Hkv, T, D, dtype=dtype), randn(B, Hkv, T, D, dtype=dtype), dout


def check(q, k, v, dout, scale=None, causal=False):
    puzzle.check(q, k, v, scale=scale, causal=causal, dout=dout)


def agree(one, other):
    """Whether two gradients are the same but for the order in which atomics added their terms."""
    return bool((one - other).abs().max() <= 0.01 * other.abs().max())


@cases(
    single_query_and_key=(1, 1, 1, 1, 1, 16),
    one_query=(1, 2, 2, 1, 70, 32),
    one_key=(1, 2, 2, 70, 1, 32),
    batches_and_heads=(3, 2, 2, 20, 24, 16),
    groups_of_three=(2, 6, 2, 20, 24, 16),
    one_head_of_keys=(2, 3, 1, 24, 20, 16),
    whole_tiles_of_two_groups=(1, 4, 2, 128, 128, 32),
    widest=(1, 2, 1, 40, 100, 128),
    groups_of_twelve=(1, 12, 1, 20, 24, 16),
)
def test_shapes(B, H, Hkv, S, T, D):
    inputs = four(B, H, Hkv, S, T, D)
    check(*inputs)
    check(*inputs, causal=True)


def test_shapes_without_a_backward_pass():
    q, k, v, _ = four(2, 4, 2, 20, 24, 16)
    puzzle.check(q, k, v)
    puzzle.check(q, k, v, causal=True)


def test_shapes_of_bad_input():
    q, k, v, _ = four(2, 4, 2, 8, 6, 16)
    puzzle.rejects(ValueError, q[0], k, v, naming="q")
    for D in (8, 24, 256):
        puzzle.rejects(ValueError, *four(2, 4, 2, 8, 6, D)[:3], naming="q")
    puzzle.rejects(ValueError, q.float(), k.float(), v.float(), naming="q")
    puzzle.rejects(ValueError, q, k[0], v, naming="k")
    puzzle.rejects(ValueError, q, k[:1], v[:1], naming="k")
    puzzle.rejects(ValueError, q[:, :3], k, v, naming="k")
    puzzle.rejects(ValueError, q, *four(2, 4, 2, 8, 6, 32)[1:3], naming="k")
    puzzle.rejects(ValueError, q, k.bfloat16(), v, naming="k")
    for wrong in (v[:, :, :5], v[..., :8], v[:, :1], v.transpose(1, 2), v.bfloat16()):
        puzzle.rejects(ValueError, q, k, wrong, naming="v")


@cases(
    one_short_of_a_tile=(63, 63),
    one_past_a_tile=(65, 65),
    one_short_of_two_tiles=(127, 127),
    more_queries_than_keys=(150, 37),
    more_keys_than_queries=(37, 200),
)
def test_masks(S, T):
    inputs = four(1, 2, 1, S, T, 16)
    check(*inputs)
    check(*inputs, causal=True)


def test_masks_later_keys_count_for_nothing():
    # A key that is too late by one would win against all others.
    q, k, v, dout = four(1, 2, 1, 150, 150, 16)
    ramp = tensor(range(150))[:, None] / 10
    check(q.abs() + 0.5, (k * 0.2 + ramp).half(), v, dout, causal=True)


@cases(d_64=64, d_128=128)
def test_masks_diagonal(D):
    check(*four(1, 1, 1, 150, 150, D), causal=True)


def test_masks_past_the_end_counts_for_nothing():
    # Every score is far below 0: exp(0 - lse), of a key of zeros, is inf.
    q, k, v, dout = four(1, 1, 1, 20, 70, 16)
    check(q.abs() + 4, -k.abs() - 4, v, dout, scale=1.0)


def test_masks_scores_to_minus_infinity():
    # Below -1e9, which some take for -inf. Forward only: no lse has the digits to go back.
    q, k, v, _ = four(1, 1, 1, 70, 70, 16)
    puzzle.check(q * 0 - 2**14, k * 0 + 2**14, v / 8 + 100, scale=1.0)
    early = (tensor(range(70), "float16") < 60)[:, None]
    puzzle.check(
        q * 0 - 2**14, k * 0 + 2**14 * early, v * 0 + 300 - 200 * early, scale=1.0, causal=True
    )


def test_masks_heads_inside_rows():
    q, k, v, dout = (x.transpose(1, 2) for x in four(2, 20, 24, 4, 4, 16))
    check(q, k[:, :2], v[:, :2], dout)


def test_masks_transposed():
    check(*(x.mT.contiguous().mT for x in four(2, 2, 2, 40, 50, 32)))


def test_masks_every_stride():
    # More than one tile of queries and of keys.
    q, k, v, dout = four(2, 2, 2, 140, 150, 16)
    q, k = strided(q, 2, 1, 3, 2), strided(k, 1, 2, 2, 3)
    v, dout = strided(v, 3, 2, 1, 2), strided(dout, 1, 3, 2, 2)
    check(q, k, v, dout)
    check(q, k, v, dout, causal=True)


def test_masks_unaligned():
    q, k, v, dout = four(1, 2, 2, 40, 50, 16)
    check(offset(q), offset(k, 3), offset(v, 5), offset(dout, 7))


def test_masks_dout_of_a_sum():
    # The gradient that out.sum() sends back: one number, expanded.
    q, k, v, _ = four(2, 2, 2, 20, 24, 16)
    check(q, k, v, randn(1, dtype="float16").expand(2, 2, 20, 16))
    check(q, k, v, randn(16, dtype="float16").expand(2, 2, 20, 16), causal=True)


def test_masks_more_heads_than_axis_1_takes():
    q, k, v, dout = four(256, 256, 256, 1, 1, 16)
    puzzle.check_grid(q, k, v, dout=dout)


@cases(queries=0, keys=1, values=2, gradients=3)
def test_masks_offsets_beyond_32_bits(which):
    sizes = (3, 1, 1, 1, 1, 16), (1, 3, 3, 1, 1, 16), (1, 1, 1, 3, 3, 16), (1, 1, 1, 1, 1, 16)
    for axis, size in enumerate(sizes):
        inputs = list(four(*size))
        shape = inputs[which].shape
        far = far_apart(randn(shape[axis], dtype="float16"))
        inputs[which] = far.view([-1 if i == axis else 1 for i in range(4)]).expand(shape)
        check(*inputs)


@cases(queries=0, keys=1, values=2, gradients=3)
def test_masks_second_tile_beyond_32_bits(which):
    # 32, 64 or 128 strides are 2**31: one step of a tile of so many rows.
    for size in (33, 65, 129):
        inputs = list(four(1, 1, 1, size, size, 16))
        far = far_apart(randn(size, dtype="float16"))[None, None, :, None]
        inputs[which] = far.expand(1, 1, size, 16)
        check(*inputs)


def test_masks_result_beyond_32_bits():
    q, k, v, dout = (x.expand(512, 513, 64, 128) for x in four(1, 1, 1, 1, 1, 128))
    puzzle.check_large_offsets(q, k, v, dout=dout)


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    inputs = four(1, 2, 1, 70, 150, 64, dtype)
    check(*inputs)
    check(*inputs, causal=True)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # The same 16 rows again and again, so that a narrow sum rounds to the same side each time.
    q, k, v, dout = four(1, 1, 1, 16, 16, 16, dtype)
    v, dout = v.abs() + 1, dout.abs() + 1
    check(q, k.repeat(1, 1, 128, 1), v.repeat(1, 1, 128, 1), dout)
    check(q.repeat(1, 1, 128, 1), k, v, dout.repeat(1, 1, 128, 1))


@dtypes("float16", "bfloat16")
def test_numerics_gradients_summed_in_float32(dtype):
    # A value has the sign of its key, so that the terms of dq and dk do not cancel.
    q, k, v, dout = (x.abs() + 1 for x in four(1, 1, 1, 16, 16, 16, dtype))
    q, sign = q / 32, tensor([1, -1] * 8, dtype)[:, None]
    k, v = k * sign, v * sign
    check(q, k.repeat(1, 1, 128, 1), v.repeat(1, 1, 128, 1), dout)
    check(q.repeat(1, 1, 128, 1), k, v, dout.repeat(1, 1, 128, 1))


@cases(q=0, k=1, v=2)
def test_numerics_gradient_of_one_input(which):
    *inputs, dout = four(1, 2, 1, 20, 24, 16)
    puzzle.check(*inputs, dout=dout)
    inputs[which].requires_grad_()
    out = puzzle.subject.function(*inputs)
    (alone,) = torch.autograd.grad(out, inputs[which], dout, allow_unused=True)
    if alone is None:
        raise Wrong("no gradient where one input alone requires it")
    together = puzzle.subject(*inputs, dout=dout)[1 + which]
    if not agree(alone, together):
        raise Wrong("a gradient changes when the other inputs need none")


def test_numerics_two_calls_before_the_first_goes_back():
    # What the backward pass needs belongs to its own call, and is still there for a second one.
    *inputs, dout = four(1, 2, 1, 20, 24, 16)
    puzzle.check(*inputs, scale=0.3, dout=dout)
    alone = puzzle.subject(*inputs, scale=0.3, dout=dout)[1:]
    inputs = [x.requires_grad_() for x in inputs]
    out = puzzle.subject.function(*inputs, scale=0.3)
    puzzle.subject.function(*inputs, scale=0.7, causal=True)
    for before in ("a call in between", "a backward pass before"):
        gradients = torch.autograd.grad(out, inputs, dout, retain_graph=True)
        if not all(map(agree, gradients, alone)):
            raise Wrong(f"{before} changes the gradients\nhint: keep on ctx what backward needs")


@cases(q=0, k=1, v=2)
def test_numerics_input_changed_in_place(which):
    *inputs, dout = four(1, 2, 1, 20, 24, 16)
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
    raise Wrong(
        "an input was changed in place after the forward pass, and backward computed with it\n"
        "hint: ctx.save_for_backward(...) notices that, an attribute of ctx does not"
    )


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


def test_numerics_sums_over_a_group_in_float32():
    # Each head adds a gradient that is large against the last bit of the group's sum.
    q, k, v, dout = (x.abs() + 1 for x in four(1, 64, 1, 16, 16, 16))
    sign = tensor([1, -1] * 8, "float16")[:, None]
    check(q / 32, k * sign, v * sign, dout)


@cases(queries=0, keys=1, values=2)
def test_numerics_two_inputs_that_require_a_gradient(without):
    *inputs, dout = four(1, 2, 1, 20, 24, 16)
    puzzle.check(*inputs, dout=dout)
    wanted = [x.requires_grad_() for number, x in enumerate(inputs) if number != without]
    out = puzzle.subject.function(*inputs)
    got = torch.autograd.grad(out, wanted, dout, allow_unused=True)
    if any(gradient is None for gradient in got):
        raise Wrong("where one input requires no gradient, another gets none either")


def test_numerics_second_backward_pass_leaves_the_first_ones_gradients():
    *inputs, dout = four(1, 2, 1, 20, 24, 16)
    puzzle.check(*inputs, dout=dout)
    inputs = [x.requires_grad_() for x in inputs]
    out = puzzle.subject.function(*inputs)
    first = torch.autograd.grad(out, inputs, dout, retain_graph=True)
    kept = [gradient.clone() for gradient in first]
    torch.autograd.grad(out, inputs, -dout)
    if not all(map(torch.equal, first, kept)):
        raise Wrong("a second backward pass writes into the gradients that the first one gave")


def test_traffic():
    H, Hkv, S, T, D = 4, 2, 128, 256, 16
    q, k, v, dout = four(1, H, Hkv, S, T, D)
    puzzle.traffic(q, k, v, dout=dout).check(
        sectors=1.1, largest_write=H * S * D, dot_macs=9 * H * S * T * D
    )


def test_traffic_causal():
    S, D = 1024, 16
    q, k, v, dout = four(1, 1, 1, S, S, D)
    puzzle.traffic(q, k, v, causal=True, dout=dout).check(
        sectors=1.1, largest_write=S * D, dot_macs=0.6 * 9 * S * S * D
    )


def test_traffic_kept_for_the_backward_pass():
    B, H, S = 2, 4, 40
    q, k, v, dout = four(B, H, 2, S, 50, 16)
    puzzle.saved_for_backward(q, k, v, dout=dout, at_most=4 * B * H * S)


@cases(d_64=("float16", 64, False), d_128_causal=("bfloat16", 128, True))
def test_compiles(dtype, D, causal):
    q, k, v, dout = four(1, 2, 1, 128, 128, D, dtype)
    puzzle.compiles(q, k, v, causal=causal, dout=dout)


def test_speedup():
    B, H, S, D = 1, 16, 4096, 64
    q, k, v, dout = four(B, H, H, S, S, D)
    # A backward pass needs five products of which the forward pass needs two.
    operations = 3.5 * 4 * B * H * S * S * D
    puzzle.race(
        q,
        k,
        v,
        dout=dout,
        at_least=3,
        operations=(operations, "float16"),
        baseline="eager_attention",
    )
