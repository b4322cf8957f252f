"""The GPU of this process: which one it is, who may use it, and its measured limits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch

from judge.core import timeouts
from judge.speed import gpu_lock, roofline

# Bytes that torch's caching allocator may keep between tests.
MAX_CACHED_BYTES = 2**30

_uuid: str | None = None
_cache: pytest.Cache | None = None
_limits: roofline.Limits | None = None


def take(worker: str | None, cache: pytest.Cache | None) -> None:
    """Select the GPU of this process.

    worker: name of the xdist worker, None without xdist
    cache: keeps the measured limits for later runs
    """
    global _uuid, _cache
    _uuid, _cache = gpu_lock.select_gpu(worker), cache


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """Use the GPU in the body, beside tests of other processes but not during a race of theirs.

    Large cached memory is freed afterwards, since a race of another process may need it.
    """
    if not _uuid:
        yield
        return
    with gpu_lock.share(_uuid):
        try:
            yield
        finally:
            if torch.cuda.memory_reserved() > MAX_CACHED_BYTES:
                # A dead context cannot free memory; its test has reported that already.
                with contextlib.suppress(RuntimeError):
                    torch.cuda.empty_cache()


@contextlib.contextmanager
def exclusive() -> Iterator[None]:
    """Use the GPU alone in the body. The wait for other processes does not count as test time."""
    with contextlib.ExitStack() as stack:
        with timeouts.no_time_limit():
            stack.enter_context(gpu_lock.hold(_uuid))
        yield


def is_busy() -> bool:
    """Return whether a kernel is still running, once its test should have ended."""
    return _uuid is not None and not torch.cuda.current_stream().query()


def measured_limits() -> roofline.Limits:
    """Return this GPU's bandwidth and matmul rates, measured once and kept in pytest's cache."""
    global _limits
    if _limits is None:
        name = "kata/limits/" + roofline.key().replace(" ", "-")
        kept = _cache.get(name, None) if _cache else None
        # Another version of this project may have kept other fields.
        with contextlib.suppress(TypeError, ValueError):
            _limits = roofline.Limits.from_json(kept) if kept else None
        if _limits is None:
            _limits = roofline.measure()
            if _cache:
                _cache.set(name, _limits.to_json())
    return _limits
