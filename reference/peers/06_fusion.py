"""What a user would take instead of the solutions of chapter 06."""

import functools

import torch
from torch.nn import functional
from torch.optim.adamw import adamw

from course.benchmark.libraries import liger
from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import moved, randn

SIZES = ((4096, 4096), (8192, 16384), (20_011, 11_007), (16384, 16384))
PROBABILITY, SEED = 0.5, 123


def dropout_inputs(M, N, dtype):
    return torch.randn(M, N, dtype=dtype), PROBABILITY, SEED


def fused_dropout(x, p, seed):
    return functional.dropout(x, p)


@functools.lru_cache(maxsize=1)
def stored_mask(shape, p, device):
    """The mask that PyTorch saves in the forward pass."""
    return torch.rand(shape, device=device) > p


def masked_backward(dy, p, seed):
    mask = stored_mask(dy.shape, p, dy.device)
    return torch.ops.aten.native_dropout_backward(dy, mask, 1 / (1 - p))


def optimizer_state(M, N, dtype):
    """Parameters, gradients, first and second moments, and AdamW's other arguments."""
    param, grad, exp_avg, deviation = randn(4)(M, N, dtype=dtype)
    return param, grad, exp_avg, deviation.square(), 10, 1e-3, 0.9, 0.999, 1e-8, 0.01


def fused_adamw(param, grad, exp_avg, exp_avg_sq, step, lr, beta1, beta2, eps, weight_decay):
    # The optimizer increments the step itself.
    count = torch.full((), step - 1.0, device=param.device)
    options = {"lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay}
    options |= {"fused": True, "amsgrad": False, "maximize": False}
    adamw([param], [grad], [exp_avg], [exp_avg_sq], [], [count], **options)


# tl.rand(seed, i) is one of four numbers that a call of the generator makes.
FUSED_DROPOUT = Peer(
    "functional.dropout",
    fused_dropout,
    other_work="calls the generator once for four elements, not once for each as the spec has it",
)


def fused(function, make, matrices, *peers, baseline=None):
    """A function that reads and writes so many matrices."""
    return Benchmark(
        function,
        make=make,
        sizes=SIZES,
        peers=peers,
        bytes_moved=moved(matrices),
        baseline=baseline,
    )


BENCHMARKS = {
    "swiglu": fused(
        "swiglu",
        randn(2),
        3,
        COMPILED,
        liger("LigerSiLUMulFunction", lambda f, a, b: f.apply(a, b)),
    ),
    "bias_gelu": fused(
        "bias_gelu",
        lambda M, N, dtype: (torch.randn(M, N, dtype=dtype), torch.randn(N, dtype=dtype)),
        2,
        COMPILED,
    ),
    "dropout": fused(
        "dropout",
        dropout_inputs,
        2,
        FUSED_DROPOUT,
        COMPILED,
        baseline="eager_dropout",
    ),
    "dropout_backward": fused(
        "dropout_backward",
        dropout_inputs,
        2,
        Peer("native_dropout_backward", masked_backward, other_work="reads a mask that was stored"),
        FUSED_DROPOUT,
        COMPILED,
        baseline="eager_dropout",
    ),
    "asin": fused(
        "asin", lambda M, N, dtype: (torch.rand(M, N, dtype=dtype) * 2 - 1,), 2, COMPILED
    ),
    "adam_step": fused(
        "adam_step", optimizer_state, 7, Peer("AdamW, fused", fused_adamw), COMPILED
    ),
}
