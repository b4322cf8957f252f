"""What 16.4, attention with a backward pass, must do to be solved."""

import torch

from judge.challenge import challenge
from judge.core.verdict import Wrong
from judge.inputs import cases, dtypes, heads, randn, tensor

puzzle = challenge("differentiable_attention", gradients=True, rounded=True)


def four(*sizes, dtype="float16"):
    """q, k, v and dout."""
    q, k, v = heads(*sizes, dtype=dtype)
    return q, k, v, randn(*q.shape, dtype=dtype)


def check(q, k, v, dout, scale=None, causal=False):
    puzzle.check(q, k, v, scale=scale, causal=causal, dout=dout)


@cases(
    batches_and_heads=(3, 2, 2, 20, 24, 16, True),
    groups_of_three=(2, 6, 2, 20, 24, 16, False),
    widest=(1, 2, 1, 40, 100, 128, True),
    one_query=(1, 2, 2, 1, 70, 32, False),
    one_key=(1, 2, 2, 70, 1, 32, False),
    single_query_and_key=(1, 1, 1, 1, 1, 16, True),
)
def test_shapes(B, H, Hkv, S, T, D, causal):
    check(*four(B, H, Hkv, S, T, D), causal=causal)


def test_shapes_without_a_backward_pass():
    puzzle.check(*heads(2, 4, 2, 20, 24, 16), causal=True)


@cases(
    one_short_of_a_tile=(63, 63),
    one_past_a_tile=(65, 65),
    more_queries_than_keys=(290, 37),
    more_keys_than_queries=(37, 290),
)
def test_masks(S, T):
    check(*four(1, 1, 1, S, T, 16), causal=True)


def test_masks_diagonal():
    # Tiles of queries may be longer than those of keys, and begin before them.
    check(*four(1, 1, 1, 150, 150, 64), causal=True)


def test_masks_later_keys_count_for_nothing():
    # A key that is too late by one would win against all others.
    q, k, v, dout = four(1, 1, 1, 150, 150, 16)
    ramp = tensor(range(150), "float16")[:, None] / 10
    check(q.abs() + 0.5, k / 5 + ramp, v, dout, causal=True)


def test_masks_past_the_end_counts_for_nothing():
    # Every score is far below 0: exp(0 - lse), of a key of zeros, is inf.
    q, k, v, dout = four(1, 1, 1, 20, 70, 16)
    check(q.abs() + 4, -k.abs() - 4, v, dout, scale=1.0)


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    check(*four(1, 2, 1, 70, 150, 64, dtype=dtype))


@cases(of_long_rows=(16, 2048), of_many_rows=(1024, 16))
def test_numerics_sums_in_float32(S, T):
    # The same 16 rows again and again, so that a narrow sum is rounded to the same side each time.
    q, k, v, dout = four(1, 1, 1, 16, 16, 16, dtype="bfloat16")
    q, dout = (x.repeat(1, 1, S // 16, 1) for x in (q, dout.abs() + 1))
    check(q, *(x.repeat(1, 1, T // 16, 1) for x in (k, v.abs() + 1)), dout)


@cases(of_long_rows=(16, 2048), of_many_rows=(1024, 16))
def test_numerics_gradients_summed_in_float32(S, T):
    # A value has the sign of its key, so that the terms of dq and dk do not cancel.
    q, k, v, dout = (x.abs() + 1 for x in four(1, 1, 1, 16, 16, 16, dtype="bfloat16"))
    sign = tensor([1, -1] * 8, "bfloat16")[:, None]
    q, dout = (x.repeat(1, 1, S // 16, 1) for x in (q / 32, dout))
    check(q, *(x.repeat(1, 1, T // 16, 1) for x in (k * sign, v * sign)), dout)


def test_numerics_scores_of_hundreds():
    q, k, v, dout = four(1, 2, 2, 40, 100, 16)
    check(q * 30, k, v, dout, causal=True)


def test_numerics_scale():
    check(*four(1, 2, 2, 40, 70, 16), scale=3.0)


def test_numerics_two_calls_before_the_first_goes_back():
    # What the backward pass needs belongs to its own call.
    *inputs, dout = four(1, 2, 1, 20, 24, 16)
    check(*inputs, dout, scale=0.3)
    alone = puzzle.subject(*inputs, scale=0.3, dout=dout)[1:]
    inputs = [x.requires_grad_() for x in inputs]
    out = puzzle.subject.function(*inputs, scale=0.3)
    puzzle.subject.function(*inputs, scale=0.7, causal=True)
    gradients = torch.autograd.grad(out, inputs, dout)
    for gradient, right in zip(gradients, alone, strict=True):
        # Atomics may add the terms in another order.
        if (gradient - right).abs().max() > 0.01 * right.abs().max():
            raise Wrong("a call in between changes the gradients\nhint: keep what it needs on ctx")


@cases(all_keys=(2, 4, 2, 128, 1), causal=(1, 1, 1, 768, 0.6))
def test_traffic(B, H, Hkv, S, seen):
    D = 16
    q, k, v, dout = four(B, H, Hkv, S, S, D)
    puzzle.traffic(q, k, v, causal=seen < 1, dout=dout).check(
        sectors=1.1, largest_write=B * H * S * D, dot_macs=seen * 9 * B * H * S * S * D
    )


def test_traffic_kept_for_the_backward_pass():
    B, H, S = 2, 4, 40
    q, k, v, dout = four(B, H, 2, S, 50, 16)
    puzzle.saved_for_backward(q, k, v, dout=dout, at_most=4 * B * H * S)


@dtypes("float16", "bfloat16")
def test_compiles(dtype):
    q, k, v, dout = four(1, 2, 1, 128, 128, 64, dtype=dtype)
    puzzle.compiles(q, k, v, causal=True, dout=dout)


def test_speedup():
    B, H, S, D = 1, 16, 4096, 64
    q, k, v, dout = four(B, H, H, S, S, D)
    # A backward pass needs five products of which the forward pass needs two.
    operations = (3.5 * 4 * B * H * S * S * D, "float16")
    puzzle.race(q, k, v, dout=dout, at_least=1.5, operations=operations, baseline="eager_attention")
