"""What a user would take instead of the solutions of chapter 10."""

import importlib

import torch
from torch.nn import functional

from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import HALF, moved


def sequences(B, D, L, dtype):
    """x, the filters of 4 taps and the bias of Mamba's short convolution."""
    x, weight = torch.randn(B, D, L, dtype=dtype), torch.randn(D, 4, dtype=dtype)
    return x, weight, torch.randn(D, dtype=dtype), "silu"


def padded_by_conv1d(x, weight, bias, activation):
    D, W = weight.shape
    out = functional.conv1d(x, weight[:, None], bias, padding=W - 1, groups=D)
    return functional.silu(out[..., : x.shape[2]])


def causal_conv1d_package(reference):
    kernel = importlib.import_module("causal_conv1d").causal_conv1d_fn
    return lambda x, weight, bias, activation: kernel(x, weight, bias, activation=activation)


def images(N, C, H, W, dtype):
    return torch.randn(N, C, H, W, dtype=dtype), 3, 2, 1


def pooled_bytes(N, C, H, W, itemsize):
    """Count the bytes of x, and those of a quarter as many maxima and indices."""
    windows = N * C * ((H - 1) // 2 + 1) * ((W - 1) // 2 + 1)
    return N * C * H * W * itemsize + windows * (itemsize + 8)


def filtered_images(memory_format):
    """Makes x, and weight with a window of 3 x 3; stride and padding are 1."""

    def make(N, C, H, W, K, dtype):
        tensors = torch.randn(N, C, H, W, dtype=dtype), torch.randn(K, C, 3, 3, dtype=dtype)
        return *(tensor.contiguous(memory_format=memory_format) for tensor in tensors), 1, 1

    return make


def conv2d_bytes(N, C, H, W, K, itemsize):
    return (N * (C + K) * H * W + K * C * 9) * itemsize


def conv2d_operations(N, C, H, W, K):
    return 2 * N * K * H * W * C * 9


def by_trial(reference):
    """The reference with the algorithm of cuDNN that is fastest in a trial."""

    def convolve(*inputs):
        before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
        try:
            return reference(*inputs)
        finally:
            torch.backends.cudnn.benchmark = before

    return convolve


def tuned(reference):
    """The reference compiled with every template tried, Triton's for convolutions too."""
    return torch.compile(reference, dynamic=False, mode="max-autotune-no-cudagraphs")


CUDNN = (
    Peer("cudnn.benchmark", prepare=by_trial),
    Peer("max-autotune", prepare=tuned),
)
LAYERS = (
    (32, 256, 56, 56, 256),
    (64, 64, 64, 64, 128),
    (16, 512, 28, 28, 512),
    (17, 96, 55, 57, 200),
)


def gradients(memory_format):
    """Makes dy and x for a window of 3 x 3; stride and padding are 1."""

    def make(N, C, H, W, K, dtype):
        tensors = torch.randn(N, K, H, W, dtype=dtype), torch.randn(N, C, H, W, dtype=dtype)
        return *(tensor.contiguous(memory_format=memory_format) for tensor in tensors), 3, 1, 1

    return make


def layers(function, make, peers):
    """A convolution of 3 x 3, or its gradient."""
    return Benchmark(
        function,
        make=make,
        sizes=LAYERS,
        dtypes=HALF,
        peers=peers,
        bytes_moved=conv2d_bytes,
        operations=conv2d_operations,
    )


BENCHMARKS = {
    "conv1d": Benchmark(
        "causal_conv1d",
        make=sequences,
        sizes=((8, 4096, 2048), (1, 5120, 8192), (7, 3001, 2003), (64, 1536, 512)),
        dtypes=HALF,
        peers=(
            Peer("conv1d, padding=W-1", padded_by_conv1d),
            Peer("causal-conv1d", prepare=causal_conv1d_package),
            COMPILED,
        ),
        bytes_moved=moved(2),
    ),
    "pooling": Benchmark(
        "max_pool2d",
        make=images,
        sizes=((64, 64, 224, 224), (32, 64, 128, 128), (33, 67, 113, 111), (256, 192, 55, 55)),
        peers=(COMPILED,),
        bytes_moved=pooled_bytes,
    ),
    "conv2d": layers("conv2d", filtered_images(torch.channels_last), CUDNN),
    "conv2d:contiguous": layers("conv2d", filtered_images(torch.contiguous_format), CUDNN),
    "dweight": layers("conv2d_dweight", gradients(torch.channels_last), CUDNN[:1]),
    "dweight:contiguous": layers("conv2d_dweight", gradients(torch.contiguous_format), CUDNN[:1]),
}
