"""Peers that several chapters share: cuBLASLt, Liger's kernels, SDPA by backend, FlexAttention.

Each is made where it is used, and raises there where this torch, this GPU or this machine lacks it:
the table then says so.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable

import torch
from torch.nn import functional

from judge.benchmark.peers import Peer

BACKENDS = {
    "SDPA flash": "FLASH_ATTENTION",
    "SDPA efficient": "EFFICIENT_ATTENTION",
    "SDPA cuDNN": "CUDNN_ATTENTION",
}


def _cublaslt(reference: Callable) -> Callable:
    def multiply(*inputs):
        before = torch.backends.cuda.preferred_blas_library()
        torch.backends.cuda.preferred_blas_library("cublaslt")
        try:
            return reference(*inputs)
        finally:
            torch.backends.cuda.preferred_blas_library(before)

    return multiply


# The eager reference by the other of NVIDIA's two libraries: torch's own choice is cuBLAS.
CUBLASLT = Peer("cuBLASLt", prepare=_cublaslt)


def liger(kernel: str, call: Callable) -> Peer:
    """A kernel of Liger: call(kernel, *inputs) with the attribute `kernel` of liger_kernel.ops."""

    def prepare(reference: Callable) -> Callable:
        return functools.partial(call, getattr(importlib.import_module("liger_kernel.ops"), kernel))

    return Peer("Liger", prepare=prepare)


def sdpa(name: str, *, causal: bool = False, window: bool = False) -> Peer:
    """torch's scaled_dot_product_attention by one backend, of `BACKENDS`.

    window: the fourth argument is a window, which becomes a mask that is made once
    """

    def prepare(reference: Callable) -> Callable:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend = getattr(SDPBackend, BACKENDS[name])
        masks = functools.lru_cache(maxsize=1)(_window_mask)

        def attend(q, k, v, *rest):
            options = {"is_causal": causal, "enable_gqa": q.shape[1] != k.shape[1]}
            if window:
                options["attn_mask"] = masks(q.shape[2], rest[0], q.device)
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(q, k, v, **options)

        return attend

    return Peer(name + (", mask" if window else ""), prepare=prepare)


def flex(*, causal: bool = False, window: bool = False) -> Peer:
    """FlexAttention, compiled for fixed sizes. The mask of blocks is made once.

    window: the fourth argument is a window
    """

    def prepare(reference: Callable) -> Callable:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        compiled = torch.compile(flex_attention, dynamic=False)

        @functools.lru_cache(maxsize=1)
        def blocks(S, T, width, device):
            def seen(b, h, i, j):
                return (i >= j) & (i - j < width)

            return create_block_mask(seen, None, None, S, T, device=device)

        def attend(q, k, v, *rest):
            S, T = q.shape[2], k.shape[2]
            masked = causal or window
            mask = blocks(S, T, rest[0] if window else S, q.device) if masked else None
            return compiled(q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])

        return attend

    return Peer("FlexAttention", prepare=prepare)


def _window_mask(S: int, window: int, device: torch.device) -> torch.Tensor:
    places = torch.arange(S, device=device)
    distance = places[:, None] - places[None, :]
    return (distance >= 0) & (distance < window)
