"""What a user would take instead of the solutions of chapter 16.

Backward counts 2.5 times the operations of forward, as is usual. Of the two kernels that share it
each counts what it must do: both make the scores and their gradient.
"""

import functools

import torch
from torch._functorch import config as functorch
from torch.nn import functional

from judge.benchmark.libraries import flex, sdpa
from judge.benchmark.peers import COMPILED, Benchmark, Peer

SIZES = ((3, 31, 3001, 64), (4, 32, 4096, 64), (4, 32, 4096, 128))
BACKENDS = ("SDPA flash", "SDPA cuDNN")


def products(count, causal=False):
    """Operations of so many products of S x D with D x S, or of S x S with S x D."""
    return lambda B, H, S, D: count * 2 * B * H * S * S * D // (2 if causal else 1)


def heads(B, H, S, D, dtype):
    """q, k, v and dout."""
    return tuple(torch.randn(B, H, S, D, dtype=dtype) for _ in range(4))


def saved(B, H, S, D, dtype):
    """q, k, v, dout, and what the forward pass and delta leave: lse and delta, float32."""
    q, k, v, dout = heads(B, H, S, D, dtype)
    out = functional.scaled_dot_product_attention(q, k, v)
    # One batch at a time: all scores in float32 would take 9 GB.
    scores = (one.float() @ other.float().mT for one, other in zip(q, k, strict=True))
    lse = torch.stack([torch.logsumexp(x * D**-0.5, -1) for x in scores])
    return q, k, v, dout, lse, (out.float() * dout.float()).sum(-1)


def forward_and_backward(attend, causal):
    """The three gradients, from the beginning."""

    def call(q, k, v, dout):
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(attend(*leaves, None, causal), leaves, dout)

    return call


def backward(attend, causal):
    """The three gradients, from a forward pass that was made in the first call at these places."""
    graphs = {}

    def call(q, k, v, dout, *_):
        # A compiled graph otherwise frees what it saved as it goes.
        with functorch.patch(donated_buffer=False):
            if q.data_ptr() not in graphs:
                leaves = [x.detach().requires_grad_() for x in (q, k, v)]
                graphs[q.data_ptr()] = leaves, attend(*leaves, None, causal)
            leaves, out = graphs[q.data_ptr()]
            return torch.autograd.grad(out, leaves, dout, retain_graph=True)

    return call


def whole_backward(name, wanted):
    """A backend's backward pass, which makes all three gradients, where some are wanted."""

    def prepare(reference):
        gradients = backward(sdpa(name).ready(reference), causal=False)
        return lambda *inputs: gradients(*inputs)[wanted]

    return Peer(f"{name}, dq dk dv", prepare=prepare)


def part(function, wanted, count):
    return Benchmark(
        function,
        make=saved,
        sizes=SIZES,
        dtypes=("bfloat16", "float16"),
        peers=(*(whole_backward(name, wanted) for name in BACKENDS), COMPILED),
        operations=products(count),
    )


def whole(timed, causal, count):
    return Benchmark(
        "differentiable_attention",
        make=heads,
        sizes=SIZES,
        dtypes=("bfloat16", "float16"),
        peers=(*(sdpa(name, causal=causal) for name in BACKENDS), flex(causal=causal)),
        operations=products(count, causal),
        timed=functools.partial(timed, causal=causal),
    )


BENCHMARKS = {
    "delta": Benchmark(
        "attention_delta",
        make=lambda B, H, S, D, dtype: heads(B, H, S, D, dtype)[:2],
        sizes=((1, 16, 1024, 64), (8, 32, 4096, 128), (7, 31, 5003, 128), (8, 32, 8192, 128)),
        dtypes=("bfloat16", "float16"),
        peers=(COMPILED,),
        bytes_moved=lambda B, H, S, D, itemsize: B * H * S * (2 * D * itemsize + 4),
    ),
    "dkdv": part("attention_dkdv", slice(1, 3), 4),
    "dq": part("attention_dq", slice(0, 1), 3),
    "autograd": whole(forward_and_backward, False, 7),
    "autograd:causal": whole(forward_and_backward, True, 7),
    "autograd:backward": whole(backward, False, 5),
    "autograd:causal backward": whole(backward, True, 5),
}
