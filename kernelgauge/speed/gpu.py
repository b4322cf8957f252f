"""The GPU of this process: which one it is, who may use it, and its measured limits."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from typing import Any, Protocol

import torch

from kernelgauge.core import gpus
from kernelgauge.core.verdict import NotMeasured
from kernelgauge.speed import gpu_lock, roofline

_uuid: str | None = None
# The GPUs that the running test shares.
_in_use: list[str] = []
_cache: Cache | None = None
_limits: roofline.Limits | None = None


class Cache(Protocol):
    """Keeps values that JSON can hold from run to run, as pytest's cache does."""

    def get(self, key: str, default: Any) -> Any:
        """Return what was kept, or the default."""

    def set(self, key: str, value: object) -> None:
        """Keep a value."""


def take(worker: str | None, cache: Cache | None) -> None:
    """Select the GPU of this process.

    worker: name of the xdist worker, None without xdist
    cache: keeps the measured limits for later runs
    """
    global _uuid, _cache
    _uuid, _cache = gpu_lock.select_gpu(worker), cache


def require() -> None:
    """Raises NotMeasured unless this process has taken a GPU."""
    if not _uuid:
        raise NotMeasured("speed takes a GPU")


@contextlib.contextmanager
def shared(every: bool = False) -> Iterator[None]:
    """Use the GPU in the body, beside tests of other processes but not during a race of theirs.

    every: whether to use all GPUs
    """
    if not _uuid:
        yield
        return
    with contextlib.ExitStack() as stack:
        for uuid in sorted(gpu_lock.all_gpus()) if every else [_uuid]:
            stack.enter_context(gpu_lock.share(uuid))
            stack.callback(_in_use.remove, uuid)
            _in_use.append(uuid)
        yield


@contextlib.contextmanager
def exclusive() -> Iterator[None]:
    """Use the GPU alone in the body, or all that are shared. May be nested.

    The wait for other processes does not count as test time. Raises NotMeasured without a GPU.
    """
    uuids = _used()
    with contextlib.nullcontext() if gpu_lock.is_held(*uuids) else gpu_lock.hold(*uuids):
        yield


@contextlib.contextmanager
def large() -> Iterator[None]:
    """Use much of the GPU's memory in the body: one process at a time does, beside small tests.

    The wait for other processes does not count as test time. Raises NotMeasured without a GPU.
    """
    uuids = _used()
    with contextlib.nullcontext() if gpu_lock.is_held(*uuids) else gpu_lock.large(*uuids):
        yield


def _used() -> list[str]:
    """Return the GPUs that are shared, or that of this process. Raises NotMeasured without one."""
    require()
    assert _uuid
    return _in_use or [_uuid]


def ran_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error comes from a GPU without free memory.

    Then the frames that it passed let go of what they hold there.
    """
    errors = []
    while error is not None:
        errors.append(error)
        error = error.__cause__ or error.__context__
    # torch's own streams and events raise the second.
    if not any(
        isinstance(it, torch.OutOfMemoryError)
        or (isinstance(it, RuntimeError) and "CUDA error: out of memory" in str(it))
        for it in errors
    ):
        return False
    for it in errors:
        traceback.clear_frames(it.__traceback__)
    return True


def is_busy() -> bool:
    """Return whether a kernel is still running, once its test should have ended."""
    streams = [torch.cuda.current_stream(device) for device in gpus.used()] if _uuid else []
    return not all(stream.query() for stream in streams)


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
