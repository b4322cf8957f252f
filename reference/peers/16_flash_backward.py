"""What a user would take instead of the solutions of chapter 16.

By convention, backward counts 2.5 times the operations of forward. Each of the two kernels that
share it counts what it has to do: both compute the scores and their gradient.
"""

import functools

import torch
from torch._functorch import config as functorch
from torch.nn import functional

from course.benchmark.libraries import attention_peers, sdpa
from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import ATTENTION_SIZES, HALF, attention_operations, randn
from course.paths import ROOT, SOLUTIONS, load

SIZES = ATTENTION_SIZES[1:]
BACKENDS = ("SDPA flash", "SDPA cuDNN")


def saved(B, H, S, D, dtype):
    """q, k, v, dout, and the float32 lse and delta that the earlier kernels leave."""
    q, k, v, dout = randn(4)(B, H, S, D, dtype=dtype)
    out = functional.scaled_dot_product_attention(q, k, v)
    # One batch at a time: all scores in float32 would take 9 GB.
    scores = (one.float() @ other.float().mT for one, other in zip(q, k, strict=True))
    lse = torch.stack([torch.logsumexp(x * D**-0.5, -1) for x in scores])
    return q, k, v, dout, lse, (out.float() * dout.float()).sum(-1)


def forward_and_backward(attend, causal):
    """Computes the three gradients, forward pass included."""

    def call(q, k, v, dout):
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(attend(*leaves, None, causal), leaves, dout)

    return call


def backward(attend, causal):
    """Computes the three gradients; the forward pass ran in the first call at each address."""
    graphs = {}

    def call(q, k, v, dout, *_):
        # Otherwise a compiled graph frees its saved tensors in the first backward pass.
        with functorch.patch(donated_buffer=False):
            if q.data_ptr() not in graphs:
                leaves = [x.detach().requires_grad_() for x in (q, k, v)]
                graphs[q.data_ptr()] = leaves, attend(*leaves, None, causal)
            leaves, out = graphs[q.data_ptr()]
            return torch.autograd.grad(out, leaves, dout, retain_graph=True)

    return call


def whole_backward(name, wanted):
    """A backend's backward pass, which computes all three gradients even if few are wanted."""

    def prepare(reference):
        gradients = backward(sdpa(name).ready(reference), causal=False)
        return lambda *inputs: gradients(*inputs)[wanted]

    return Peer(f"{name}, dq dk dv", prepare=prepare)


def beyond(reference):
    """Make the solution's forward pass with the backward pass of reference/beyond."""
    solution = load(SOLUTIONS / "16_flash_backward" / "autograd.py")
    gradients = load(ROOT / "reference" / "beyond" / "attention_backward.py").attention_backward

    class Beyond(solution.Attention):
        @staticmethod
        def backward(ctx, dout):
            return *gradients(*ctx.saved_tensors, dout, ctx.scale, ctx.causal), None, None

    def attend(q, k, v, scale=None, causal=False):
        return Beyond.apply(q, k, v, q.shape[3] ** -0.5 if scale is None else scale, causal)

    return attend


def part(function, wanted, products):
    return Benchmark(
        function,
        make=saved,
        sizes=SIZES,
        dtypes=HALF,
        peers=(*(whole_backward(name, wanted) for name in BACKENDS), COMPILED),
        operations=attention_operations(products),
    )


def whole(timed, causal, products, *more):
    return Benchmark(
        "differentiable_attention",
        make=randn(4),
        sizes=SIZES,
        dtypes=HALF,
        peers=(*attention_peers(causal=causal, backends=BACKENDS), *more),
        operations=attention_operations(products, causal),
        timed=functools.partial(timed, causal=causal),
    )


# Ours, so that the solution is not measured by it.
BEYOND = Peer("Gluon, beyond", prepare=beyond, other_work="heads of 128 alone, on Hopper")

BENCHMARKS = {
    "delta": Benchmark(
        "attention_delta",
        make=randn(2),
        sizes=((1, 16, 1024, 64), (8, 32, 4096, 128), (7, 31, 5003, 128), (8, 32, 8192, 128)),
        dtypes=HALF,
        peers=(COMPILED,),
        bytes_moved=lambda B, H, S, D, itemsize: B * H * S * (2 * D * itemsize + 4),
    ),
    "dkdv": part("attention_dkdv", slice(1, 3), 4),
    "dq": part("attention_dq", slice(0, 1), 3),
    "autograd": whole(forward_and_backward, False, 7),
    "autograd:causal": whole(forward_and_backward, True, 7),
    "autograd:backward": whole(backward, False, 5, BEYOND),
    "autograd:causal backward": whole(backward, True, 5, BEYOND),
}
