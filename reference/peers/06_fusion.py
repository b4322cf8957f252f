"""What a user would take instead of the solutions of chapter 06."""

import functools

import torch
from torch.nn import functional
from torch.optim.adamw import adamw

from judge.benchmark.libraries import liger
from judge.benchmark.peers import COMPILED, Benchmark, Peer

SIZES = ((4096, 4096), (8192, 16384), (20_011, 11_007), (16384, 16384))
PROBABILITY, SEED = 0.5, 123


def matrices(count):
    """Makes so many matrices (M, N)."""
    return lambda M, N, dtype: tuple(torch.randn(M, N, dtype=dtype) for _ in range(count))


def moved(matrices):
    """Bytes of so many matrices, read or written once each."""
    return lambda M, N, itemsize: matrices * M * N * itemsize


def dropped(M, N, dtype):
    return torch.randn(M, N, dtype=dtype), PROBABILITY, SEED


def fused_dropout(x, p, seed):
    return functional.dropout(x, p)


@functools.lru_cache(maxsize=1)
def stored_mask(shape, p, device):
    """What PyTorch keeps of the forward pass for the backward pass."""
    return torch.rand(shape, device=device) > p


def masked_backward(dy, p, seed):
    mask = stored_mask(dy.shape, p, dy.device)
    return torch.ops.aten.native_dropout_backward(dy, mask, 1 / (1 - p))


def optimizer_state(M, N, dtype):
    """Parameters, gradients, first and second moments, and what AdamW takes besides."""
    param, grad, exp_avg, deviation = matrices(4)(M, N, dtype)
    return param, grad, exp_avg, deviation.square(), 10, 1e-3, 0.9, 0.999, 1e-8, 0.01


def fused_adamw(param, grad, exp_avg, exp_avg_sq, step, lr, beta1, beta2, eps, weight_decay):
    # The optimizer counts the step itself.
    count = torch.full((), step - 1.0, device=param.device)
    adamw(
        [param],
        [grad],
        [exp_avg],
        [exp_avg_sq],
        [],
        [count],
        fused=True,
        amsgrad=False,
        beta1=beta1,
        beta2=beta2,
        lr=lr,
        weight_decay=weight_decay,
        eps=eps,
        maximize=False,
    )


BENCHMARKS = {
    "swiglu": Benchmark(
        "swiglu",
        make=matrices(2),
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(COMPILED, liger("LigerSiLUMulFunction", lambda f, a, b: f.apply(a, b))),
        bytes_moved=moved(3),
    ),
    "bias_gelu": Benchmark(
        "bias_gelu",
        make=lambda M, N, dtype: (torch.randn(M, N, dtype=dtype), torch.randn(N, dtype=dtype)),
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(COMPILED,),
        bytes_moved=moved(2),
    ),
    "dropout": Benchmark(
        "dropout",
        make=dropped,
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(Peer("functional.dropout", fused_dropout), COMPILED),
        bytes_moved=moved(2),
        baseline="eager_dropout",
    ),
    "dropout_backward": Benchmark(
        "dropout_backward",
        make=dropped,
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(
            Peer("native_dropout_backward", masked_backward),
            Peer("functional.dropout", fused_dropout),
            COMPILED,
        ),
        bytes_moved=moved(2),
        baseline="eager_dropout",
    ),
    "asin": Benchmark(
        "asin",
        make=lambda M, N, dtype: (torch.rand(M, N, dtype=dtype) * 2 - 1,),
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(COMPILED,),
        bytes_moved=moved(2),
    ),
    "adam_step": Benchmark(
        "adam_step",
        make=optimizer_state,
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(Peer("AdamW, fused", fused_adamw), COMPILED),
        bytes_moved=moved(7),
    ),
}
