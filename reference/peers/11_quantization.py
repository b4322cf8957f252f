"""What a user would take instead of the solutions of chapter 11."""

import torch

from judge.benchmark.peers import COMPILED, Benchmark, Peer
from judge.benchmark.workloads import HALF, MATMUL_SIZES, matmul_operations

ROWS = ((16384, 4096), (20_011, 6007), (32768, 8192), (4096, 32768))


def matrix(M, N, dtype):
    return (torch.randn(M, N, dtype=dtype),)


def strips(M, N, dtype):
    return torch.randn(M, N, dtype=dtype), (1, 128)


def squares(M, N, dtype):
    return torch.randn(M, N, dtype=dtype), (128, 128)


def quantized_blocks(make, scale_bytes):
    """The benchmark of a block's shape, with so many bytes of scales for each element of x."""
    return Benchmark(
        "quantize_blocks",
        make=make,
        sizes=ROWS,
        dtypes=HALF,
        peers=(COMPILED,),
        bytes_moved=lambda M, N, itemsize: round(M * N * (itemsize + 1 + scale_bytes)),
    )


def int8_layer(M, N, K, dtype):
    x, weight = (torch.randint(-128, 128, (size, K), dtype=torch.int8) for size in (M, N))
    return x, weight, torch.rand(M), torch.rand(N), dtype


def int_mm(x, weight, x_scale, weight_scale, out_dtype):
    total = torch._int_mm(x, weight.T)
    return (total * x_scale[:, None] * weight_scale).to(out_dtype)


def needs_its_sizes(function):
    """What takes some sizes only: where a size does not fit, the table says so."""
    return {"prepare": lambda reference: function}


def matmul_8_bits(M, N, K, itemsize):
    return M * K + K * N + M * N * itemsize


BENCHMARKS = {
    "quantize_rows": Benchmark(
        "quantize_rows",
        make=matrix,
        sizes=ROWS,
        dtypes=HALF,
        peers=(COMPILED,),
        bytes_moved=lambda M, N, itemsize: M * N * (itemsize + 1) + 4 * M,
    ),
    "quantize_blocks": quantized_blocks(strips, 4 / 128),
    "quantize_blocks:squares": quantized_blocks(squares, 4 / 128**2),
    "int8_matmul": Benchmark(
        "int8_matmul",
        make=int8_layer,
        sizes=MATMUL_SIZES,
        dtypes=("bfloat16",),
        peers=(Peer("_int_mm, scales", **needs_its_sizes(int_mm)), COMPILED),
        bytes_moved=matmul_8_bits,
        operations=matmul_operations,
        rate="int8",
        baseline="int8_matmul_in_bfloat16",
    ),
}
