"""What a user would take instead of the solutions of chapter 11."""

import functools

import torch

from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import HALF, MATMUL_SIZES, matmul_operations

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


def int4_layer(M, N, K, dtype):
    K -= K % 32
    groups = (N, K // (32 if K % 128 else 128))
    return (
        torch.randn(M, K, dtype=dtype),
        torch.randint(0, 256, (N, K // 2), dtype=torch.uint8),
        torch.rand(groups).to(dtype) / 10,
        torch.randint(0, 16, groups, dtype=torch.uint8),
    )


@functools.cache
def widened(N, K, dtype, device):
    """Weights that were brought back to 16 bits beforehand. Their values do not matter here."""
    return torch.randn(N, K, dtype=dtype, device=device)


def cublas_of_widened(x, weight, scale, zero):
    return x @ widened(len(weight), x.shape[1], x.dtype, x.device).mT


def fp8_layer(M, N, K, dtype):
    """The scales of x lie as cuBLAS takes them, those of one block side by side."""
    blocks = -(-K // 128)
    x, weight = (torch.randn(size, K).to(torch.float8_e4m3fn) for size in (M, N))
    return x, weight, torch.rand(blocks, M).T, torch.rand(-(-N // 128), blocks), dtype


def scaled_mm(x, weight, x_scale, weight_scale, out_dtype):
    return torch._scaled_mm(x, weight.T, x_scale, weight_scale.T, out_dtype=out_dtype)


def scaled_mm_by_rows(x, weight, x_scale, weight_scale, out_dtype):
    """One scale a row and one a column: another result, and what its speed would be."""
    columns = weight_scale.new_ones(1, len(weight))
    rows = x_scale[:, :1].contiguous()
    return torch._scaled_mm(x, weight.T, rows, columns, out_dtype=out_dtype)


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
    # Is W4A16 worth it? Against cuBLAS on weights of 16 bits, whose product is another: so results
    # are not compared here, as they are where there is a baseline.
    "int4_matmul": Benchmark(
        "int4_matmul",
        make=int4_layer,
        sizes=(
            (1, 8192, 8192),
            (16, 16384, 16384),
            (33, 5003, 8192),
            (128, 8192, 8192),
            (4096, 4096, 4096),
        ),
        dtypes=HALF,
        peers=(Peer("cuBLAS, 16-bit weights", cublas_of_widened), COMPILED),
        bytes_moved=lambda M, N, K, itemsize: (
            (M * K + M * N) * itemsize + N * K // 2 + N * K // 128 * (itemsize + 1)
        ),
        operations=matmul_operations,
        baseline="int4_matmul",
    ),
    "fp8_matmul": Benchmark(
        "fp8_matmul",
        make=fp8_layer,
        sizes=((2048, 2048, 2048), (4096, 7168, 4096), (4003, 4001, 4007), (8192, 8192, 8192)),
        dtypes=("bfloat16",),
        peers=(
            Peer("_scaled_mm, blocks", **needs_its_sizes(scaled_mm)),
            Peer(
                "_scaled_mm, rows",
                **needs_its_sizes(scaled_mm_by_rows),
                other_work="scales each row once, not in every step along K",
            ),
            COMPILED,
        ),
        bytes_moved=matmul_8_bits,
        operations=matmul_operations,
        rate="float8_e4m3fn",
        baseline="fp8_matmul_in_bfloat16",
    ),
}
