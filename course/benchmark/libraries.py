"""Peers that several chapters share: cuBLASLt, Liger's kernels, SDPA by backend, FlexAttention.

A peer is prepared where it is used. It raises there if this version of torch, this GPU or this
machine lacks it, and the table reports that.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable

import torch
from torch.nn import functional

from course.benchmark.peers import Peer

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


# The eager reference with the other of NVIDIA's two libraries; torch chooses cuBLAS.
CUBLASLT = Peer("cuBLASLt", prepare=_cublaslt)


def liger(kernel: str, call: Callable) -> Peer:
    """Return a kernel of Liger as a peer.

    kernel: name of an attribute of liger_kernel.ops, passed to `call` before the inputs
    """

    def prepare(reference: Callable) -> Callable:
        return functools.partial(call, getattr(importlib.import_module("liger_kernel.ops"), kernel))

    return Peer("Liger", prepare=prepare)


def attention_peers(*, causal: bool, backends: Iterable[str] = tuple(BACKENDS)) -> tuple[Peer, ...]:
    """Return SDPA by each of these backends, and FlexAttention."""
    return (*(sdpa(name, causal=causal) for name in backends), flex(causal=causal))


def sdpa(name: str, *, causal: bool = False, window: bool = False) -> Peer:
    """Return torch's scaled_dot_product_attention by one backend of `BACKENDS`.

    window: whether the fourth argument is a window; its mask is made once
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
    """Return FlexAttention, compiled for fixed sizes. Its block mask is made once.

    window: whether the fourth argument is a window
    """

    def prepare(reference: Callable) -> Callable:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        compiled = torch.compile(flex_attention, dynamic=False)

        @functools.lru_cache(maxsize=1)
        def block_mask(S, T, width, device):
            def visible(b, h, i, j):
                return (i >= j) & (i - j < width)

            return create_block_mask(visible, None, None, S, T, device=device)

        def attend(q, k, v, *rest):
            S, T = q.shape[2], k.shape[2]
            masked = causal or window
            mask = block_mask(S, T, rest[0] if window else S, q.device) if masked else None
            return compiled(q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])

        return attend

    return Peer("FlexAttention", prepare=prepare)


def _window_mask(S: int, window: int, device: torch.device) -> torch.Tensor:
    positions = torch.arange(S, device=device)
    distance = positions[:, None] - positions[None, :]
    return (distance >= 0) & (distance < window)
