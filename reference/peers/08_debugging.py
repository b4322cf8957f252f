"""What a user would take instead of the solutions of chapter 08."""

import torch

from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import moved, randn


def categorical(x):
    return (
        torch.distributions.Categorical(logits=x.float(), validate_args=False).entropy().to(x.dtype)
    )


def rows_and_lengths(B, T, dtype):
    """Rows of lengths 1 to T, spread evenly."""
    lengths = torch.linspace(1, T, B, dtype=torch.float64).round().long()
    return torch.randn(B, T, dtype=dtype), lengths


def tokens_and_lengths(B, S, D, dtype):
    return torch.randn(B, S, D, dtype=dtype), torch.randint(1, S + 1, (B,))


def gather_last(x, lengths):
    last = (lengths - 1)[:, None, None].expand(-1, 1, x.shape[2])
    return torch.gather(x, 1, last)[:, 0]


def foreach_step(param, grad, velocity, lr, momentum):
    torch._foreach_mul_([velocity], momentum)
    torch._foreach_add_([velocity], [grad])
    torch._foreach_add_([param], [velocity], alpha=-lr)


BENCHMARKS = {
    "entropy": Benchmark(
        "softmax_entropy",
        make=randn(1),
        sizes=((4096, 4096), (16384, 4096), (8191, 5003), (4096, 32768)),
        peers=(Peer("Categorical.entropy", categorical), COMPILED),
        bytes_moved=moved(1),
    ),
    "ragged_mean": Benchmark(
        "ragged_mean",
        make=rows_and_lengths,
        sizes=((64, 2**20), (256, 2**20), (101, 1_000_003)),
        peers=(COMPILED,),
        # Of lengths that are spread evenly, as these are.
        bytes_moved=lambda B, T, itemsize: B * (T + 1) // 2 * itemsize,
    ),
    "last_tokens": Benchmark(
        "last_tokens",
        make=tokens_and_lengths,
        sizes=((8192, 16, 8192), (4096, 16, 8192), (5003, 17, 4099)),
        peers=(Peer("torch.gather", gather_last), COMPILED),
        bytes_moved=lambda B, S, D, itemsize: 2 * B * D * itemsize,
    ),
    "l1_norms": Benchmark(
        "l1_norms",
        make=randn(1),
        sizes=((16384, 4096), (32768, 8192), (10_007, 6007)),
        peers=(
            Peer("linalg.vector_norm", lambda x: torch.linalg.vector_norm(x, 1, 1)),
            COMPILED,
        ),
        bytes_moved=moved(1),
    ),
    "running_sum": Benchmark(
        "running_sum",
        make=randn(1),
        sizes=((2**24,), (2**27,), (100_000_007,)),
        peers=(COMPILED,),
        bytes_moved=moved(2),
    ),
    "momentum_step": Benchmark(
        "momentum_step",
        make=lambda N, dtype: (*(torch.randn(N, dtype=dtype) for _ in range(3)), 1e-3, 0.9),
        sizes=((2**24,), (2**26,), (50_000_017,)),
        peers=(Peer("torch._foreach", foreach_step), COMPILED),
        bytes_moved=moved(5),
    ),
    "token_mean": Benchmark(
        "token_mean",
        make=randn(1),
        sizes=((16, 2048, 1024), (64, 2048, 1024), (31, 1999, 1021)),
        peers=(Peer("torch.mean", lambda x: x.mean(1)), COMPILED),
        bytes_moved=moved(1),
    ),
    "token_mean:tokens contiguous": Benchmark(
        "token_mean",
        make=lambda B, S, D, dtype: (torch.randn(B, D, S, dtype=dtype).transpose(1, 2),),
        sizes=((16, 2048, 1024), (64, 2048, 1024), (31, 1999, 1021)),
        peers=(Peer("torch.mean", lambda x: x.mean(1)), COMPILED),
        bytes_moved=moved(1),
    ),
    "log_softmax": Benchmark(
        "log_softmax",
        make=randn(1),
        sizes=((16384, 4096), (8192, 16384), (10_007, 12_345)),
        peers=(Peer("torch.log_softmax", lambda x: torch.log_softmax(x, 1)), COMPILED),
        bytes_moved=moved(2),
    ),
}
