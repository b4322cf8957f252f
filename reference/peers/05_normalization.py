"""What a user would take instead of the solutions of chapter 05."""

import torch
from torch.nn import functional

from course.benchmark.libraries import liger
from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import moved

SIZES = ((16384, 4096), (20_011, 6007), (32768, 8192), (4096, 32768))
EPS_LAYER, EPS_RMS = 1e-5, 1e-6


def inputs(matrices, weights):
    """Makes so many matrices (M, N), and then so many vectors (N,)."""

    def make(M, N, dtype):
        shapes = [(M, N)] * matrices + [(N,)] * weights
        return tuple(torch.randn(shape, dtype=dtype) for shape in shapes)

    return make


def backward_inputs(M, N, dtype):
    """dy, x, weight, and the mean and the reciprocal standard deviation of each row of x."""
    dy, x, weight = inputs(2, 1)(M, N, dtype)
    variance, mean = torch.var_mean(x.float(), 1, correction=0)
    return dy, x, weight, mean, torch.rsqrt(variance + EPS_LAYER)


def layer_norm(x, weight, bias):
    return functional.layer_norm(x, weight.shape, weight, bias, EPS_LAYER)


def rms_norm(x, weight):
    return functional.rms_norm(x, weight.shape, weight, EPS_RMS)


def add_and_rms_norm(x, residual, weight):
    total = x + residual
    return rms_norm(total, weight), total


def native_backward(dy, x, weight, mean, rstd):
    return torch.ops.aten.native_layer_norm_backward(
        dy, x, weight.shape, mean[:, None], rstd[:, None], weight, weight, [True, True, True]
    )


def normalization(function, make, matrices, peer, liger_peer, sizes=SIZES):
    """A function that reads and writes so many matrices."""
    return Benchmark(
        function,
        make=make,
        sizes=sizes,
        peers=(peer, COMPILED, liger_peer),
        bytes_moved=moved(matrices),
    )


BENCHMARKS = {
    "layer_norm": normalization(
        "layer_norm",
        inputs(1, 2),
        2,
        Peer("functional.layer_norm", layer_norm),
        liger("LigerLayerNormFunction", lambda f, x, w, b: f.apply(x, w, b, EPS_LAYER)),
    ),
    "rms_norm": normalization(
        "rms_norm",
        inputs(1, 1),
        2,
        Peer("functional.rms_norm", rms_norm),
        liger("LigerRMSNormFunction", lambda f, x, w: f.apply(x, w, EPS_RMS)),
    ),
    "residual_rms_norm": normalization(
        "residual_rms_norm",
        inputs(2, 1),
        4,
        Peer("add, rms_norm", add_and_rms_norm),
        liger("LigerFusedAddRMSNormFunction", lambda f, x, r, w: f.apply(x, r, w, EPS_RMS)),
    ),
    "layer_norm_backward": normalization(
        "layer_norm_backward",
        backward_inputs,
        3,
        Peer("native_layer_norm_backward", native_backward),
        liger("layer_norm_backward", lambda f, dy, x, w, mean, rstd: f(dy, x, w, w, mean, rstd)),
        sizes=(*SIZES[:-1], (8192, 16384)),
    ),
}
