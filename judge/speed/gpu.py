"""The GPU of this process: which it is, who may use it when, and how fast it was measured to be."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from judge.core import timeouts
from judge.speed import gpu_lock, roofline

# Bytes that torch may keep for itself between tests.
MAX_CACHED_BYTES = 2**30

_uuid: str | None = None
_cache = None
_limits: roofline.Limits | None = None


def take(worker: str | None, cache) -> None:
    """Make one of the GPUs this process's own. cache: pytest's, where measured limits are kept."""
    global _uuid, _cache
    _uuid, _cache = gpu_lock.select_gpu(worker), cache


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """A test that may use the GPU, beside tests of other processes, but not beside a race.

    Afterwards the memory that torch keeps for itself goes back: a race of another process wants it.
    """
    if not _uuid:
        yield
        return
    with gpu_lock.share(_uuid):
        try:
            yield
        finally:
            if torch.cuda.memory_reserved() > MAX_CACHED_BYTES:
                # A dead context frees nothing, and its test has said why.
                with contextlib.suppress(RuntimeError):
                    torch.cuda.empty_cache()


@contextlib.contextmanager
def exclusive() -> Iterator[None]:
    """Nobody else uses the GPU in the body. The time limit does not run while others finish."""
    with timeouts.no_time_limit():
        held = gpu_lock.hold(_uuid)
        held.__enter__()
    try:
        yield
    finally:
        held.__exit__(None, None, None)


def is_busy() -> bool:
    """Whether a kernel still runs, of a test that should have ended."""
    return _uuid is not None and not torch.cuda.current_stream().query()


def measured_limits() -> roofline.Limits:
    """Bandwidth and matmul rates of this GPU, measured once and kept in pytest's cache."""
    global _limits
    if _limits is None:
        name = "kata/limits/" + roofline.key().replace(" ", "-")
        kept = _cache.get(name, None) if _cache else None
        _limits = roofline.Limits.from_json(kept) if kept else roofline.measure()
        if _cache and not kept:
            _cache.set(name, _limits.to_json())
    return _limits
