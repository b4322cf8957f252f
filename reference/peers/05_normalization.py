"""What a user would take instead of the solutions of chapter 05."""

import torch
from torch.nn import functional

from judge.benchmark.libraries import liger
from judge.benchmark.peers import COMPILED, Benchmark, Peer

SIZES = ((16384, 4096), (20_011, 6007), (32768, 8192), (4096, 32768))
EPS_LAYER, EPS_RMS = 1e-5, 1e-6


def vectors(matrices, rows):
    """Makes so many matrices (M, N), and then so many rows (N,) of weights."""

    def make(M, N, dtype):
        shapes = [(M, N)] * matrices + [(N,)] * rows
        return tuple(torch.randn(shape, dtype=dtype) for shape in shapes)

    return make


def backward_inputs(M, N, dtype):
    """dy, x, weight, and the mean and the reciprocal deviation of each row of x."""
    dy, x, weight = vectors(2, 1)(M, N, dtype)
    variance, mean = torch.var_mean(x.float(), 1, correction=0)
    return dy, x, weight, mean, torch.rsqrt(variance + EPS_LAYER)


def moved(matrices):
    """Bytes of so many matrices, read or written once each."""
    return lambda M, N, itemsize: matrices * M * N * itemsize


def layer_norm(x, weight, bias):
    return functional.layer_norm(x, weight.shape, weight, bias, EPS_LAYER)


def rms_norm(x, weight):
    return functional.rms_norm(x, weight.shape, weight, EPS_RMS)


def add_and_rms_norm(x, residual, weight):
    total = x + residual
    return rms_norm(total, weight), total


def native_backward(dy, x, weight, mean, rstd):
    statistics = mean[:, None], rstd[:, None]
    wanted = [True, True, True]
    return torch.ops.aten.native_layer_norm_backward(
        dy, x, weight.shape, *statistics, weight, weight, wanted
    )


BENCHMARKS = {
    "layer_norm": Benchmark(
        "layer_norm",
        make=vectors(1, 2),
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(
            Peer("functional.layer_norm", layer_norm),
            COMPILED,
            liger("LigerLayerNormFunction", lambda f, x, w, b: f.apply(x, w, b, EPS_LAYER)),
        ),
        bytes_moved=moved(2),
    ),
    "rms_norm": Benchmark(
        "rms_norm",
        make=vectors(1, 1),
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(
            Peer("functional.rms_norm", rms_norm),
            COMPILED,
            liger("LigerRMSNormFunction", lambda f, x, w: f.apply(x, w, EPS_RMS)),
        ),
        bytes_moved=moved(2),
    ),
    "residual_rms_norm": Benchmark(
        "residual_rms_norm",
        make=vectors(2, 1),
        sizes=SIZES,
        dtypes=("float32", "bfloat16"),
        peers=(
            Peer("add, rms_norm", add_and_rms_norm),
            COMPILED,
            liger("LigerFusedAddRMSNormFunction", lambda f, x, r, w: f.apply(x, r, w, EPS_RMS)),
        ),
        bytes_moved=moved(4),
    ),
    "layer_norm_backward": Benchmark(
        "layer_norm_backward",
        make=backward_inputs,
        sizes=(*SIZES[:-1], (8192, 16384)),
        dtypes=("float32", "bfloat16"),
        peers=(
            Peer("native_layer_norm_backward", native_backward),
            COMPILED,
            liger(
                "layer_norm_backward",
                lambda f, dy, x, w, mean, rstd: f(dy, x, w, w, mean, rstd),
            ),
        ),
        bytes_moved=moved(3),
    ),
}
