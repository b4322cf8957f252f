"""What a subject may do besides launching kernels, and the memory it allocates.

A subject may allocate, take views, query shapes, read a few scalars and launch kernels. Any other
torch operation would do the work outside the kernel, so it fails with a message that names it,
unless the guard is not strict: then torch may compute before, between and after the launches.

Every tensor that a subject allocates lies between canaries and is filled with the same bytes, so an
element that no kernel wrote is NaN in the result.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch._library import custom_ops
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from kernelgauge.core.blame import compiled_by_torch, current_place, is_graded_file
from kernelgauge.core.dtypes import rounds
from kernelgauge.core.settings import settings
from kernelgauge.core.tensors import storage_of, tensors
from kernelgauge.core.verdict import Wrong
from kernelgauge.subject.canaries import Arena, is_huge
from kernelgauge.words.fault import Fault, Note, note

# Integers of as many bytes.
WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64}

# Without device=, these allocate on the host, even if the inputs are on a GPU.
FACTORIES = {
    torch.empty,
    torch.empty_strided,
    torch.empty_permuted,
    torch.zeros,
    torch.ones,
    torch.full,
}

# A launcher may read back a flag that its kernel set, or a maximum.
MAX_SCALARS_READ = 4

aten = torch.ops.aten
EMPTY = {
    aten.empty.memory_format,
    aten.empty_strided.default,
    aten.empty_permuted.default,
    aten.empty_like.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
}
FILLED = {
    aten.zeros.default,
    aten.zeros_like.default,
    aten.new_zeros.default,
    aten.ones.default,
    aten.ones_like.default,
    aten.new_ones.default,
    aten.full.default,
    aten.full_like.default,
    aten.new_full.default,
}
FILLS = {aten.fill_.Scalar, aten.zero_.default}
# torch.tensor and torch.from_numpy arrive as one of these "views".
IMPORTS = {aten.lift_fresh.default, aten.lift_fresh_copy.default}

# Methods that read a tensor without passing through the dispatcher.
ESCAPES = ("numpy", "tolist", "__array__", "__dlpack__", "share_memory_")


# What subjects allocated through torch under a guard, in any call, by its identity: they may keep
# work space. A reference keeps the identity of what is gone from being given to other memory.
_allocated: dict[int, StorageWeakRef] = {}
# How many of them were left when those that are gone were last dropped.
_left = 0


class Guard(TorchDispatchMode):
    """Watches one run of a subject.

    subject: its name, for messages
    readable: how many scalars it may read back; None if any number
    strict: whether torch may not compute
    violations: a fault for each thing it did that it may not do
    on_allocation: called with each tensor that it allocates or fills
    showing: makes the context in which inputs may be read, where they are hidden from the launcher
    arenas: the memory that it allocated
    unguarded: tensors that it allocated and that are too large to be filled, or that torch made
    scalars: how many it read
    like: of what was allocated like another tensor, by both storages: that of the other
    """

    def __init__(
        self, subject: str, readable: int | None = MAX_SCALARS_READ, *, strict: bool = True
    ):
        super().__init__()
        self.subject, self.readable, self.strict = subject, readable, strict
        self.violations: list[Fault] = []
        self.on_allocation: Callable[[torch.Tensor], None] = lambda tensor: None
        self.showing: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext
        self.arenas: list[Arena] = []
        self.unguarded: list[torch.Tensor] = []
        self.scalars = 0
        self.like: dict[int, int] = {}
        _drop_what_is_gone()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise torch imports its compiler, which takes seconds, only to skip this class.
        return False

    def owns(self, tensor: torch.Tensor) -> bool:
        """Return whether the subject allocated this memory through torch in this run."""
        return self._arena_of(tensor) is not None or any(
            storage_of(tensor) == storage_of(allocated) for allocated in self.unguarded
        )

    @staticmethod
    def has_seen(tensor: torch.Tensor) -> bool:
        """Return whether a subject allocated this memory through torch in any run so far."""
        return tensor.untyped_storage()._cdata in _allocated

    def has_filled(self, tensor: torch.Tensor) -> bool:
        """Return whether the launcher itself gave every element of this memory a value."""
        arena = self._arena_of(tensor)
        return arena is not None and arena.filled

    def stored(self, tensor: torch.Tensor) -> np.ndarray:
        """Return which elements of a result differ from the poison of fresh memory.

        Just True, instead of an array that may take gigabytes, if all of them do. Short integers
        can equal the poison by chance, so they count as stored, and so does what is not poisoned.
        """
        size, arena = tensor.element_size(), self._arena_of(tensor)
        distinguishable = size in WORDS and (rounds(tensor.dtype) or size == 8)
        if arena is None or arena.filled or tensor.numel() == 0 or not distinguishable:
            return np.array(True)
        fresh, words = arena.fresh.view(WORDS[size]), tensor.view(WORDS[size])
        same = words == fresh.as_strided(words.shape, words.stride(), words.storage_offset())
        # In the poison, every second word of two bytes is the usual -NaN, which a kernel may store.
        if not same.any() or (size == 2 and not (same & (words == fresh[0])).any()):
            return np.array(True)
        return ~same.cpu().numpy()

    def _arena_of(self, tensor: torch.Tensor) -> Arena | None:
        storage = storage_of(tensor)
        return next((arena for arena in self.arenas if storage_of(arena.buffer) == storage), None)

    def check_canaries(self) -> None:
        """Raise Wrong if anything was written outside the tensors that the subject allocated."""
        for arena in self.arenas:
            arena.check()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _is_looked_at():
            with self.showing():
                return func(*args, **kwargs)
        if func in EMPTY or func in FILLED:
            if (made := _allocate_huge(func, args, kwargs)) is not None:
                self.unguarded.append(made)
                _remember(made)
                self.on_allocation(made)
                return made
            made = func(*args, **kwargs)
            if made.device.type == "meta":
                return made
            arena = Arena.like(made, "")
            if func in FILLED:
                arena.fill(made)
                arena.filled = True
            self.arenas.append(arena)
            if isinstance(args[0], torch.Tensor):
                self.like[storage_of(arena.tensor)] = storage_of(args[0])
            _remember(arena.buffer)
            self.on_allocation(arena.tensor)
            return arena.tensor
        if body := _own_operator(func):
            with self:
                return body(*args, **kwargs)
        if func.namespace == "profiler":
            return func(*args, **kwargs)
        if func in IMPORTS and self.strict:
            raise self._violation(note("imports-data"), note("allocate-with-torch"))
        if func.is_view and func not in IMPORTS:
            return func(*args, **kwargs)
        if func in FILLS and self.owns(args[0]):
            filled = func(*args, **kwargs)
            if own := self._arena_of(args[0]):
                own.filled |= args[0].numel() == own.tensor.numel()
                own.written |= not self.strict
            self.on_allocation(args[0])
            return filled
        if func is aten._local_scalar_dense.default:
            self.scalars += 1
            if self.readable is None or self.scalars <= self.readable:
                with self.showing():
                    return func(*args, **kwargs)
            said = note("reads-scalars", allowed=self.readable)
            if not self.readable:
                raise self._violation(said, note("read-in-kernels"), "waits-for-gpu")
            raise self._violation(said, note("read-fewer-scalars"))
        if self.strict:
            raise self._violation(*_advice(func))
        made = func(*args, **kwargs)
        for tensor in tensors(made):
            self._on_computed(tensor)
        return made

    def _on_computed(self, tensor: torch.Tensor) -> None:
        """Take notice of a tensor that torch made, or changed in place."""
        if tensor.layout != torch.strided or tensor.device.type == "meta":
            return
        if arena := self._arena_of(tensor):
            arena.written = True
        elif not self.owns(tensor):
            self.unguarded.append(tensor)
            self.on_allocation(tensor)

    def _violation(self, said: Note, remedy: Note, kind: str = "outside-kernel") -> Wrong:
        """Keep what the subject did. Returns the error to raise."""
        if compiled_by_torch():
            said, remedy = note("uses-torch-compile"), note("write-it-in-triton")
        said = note(said.id, subject=self.subject, **said.values)
        self.violations.append(Fault(kind, (said,), current_place(), remedy=remedy))
        return Wrong(self.violations[-1])

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the body, also for what does not pass through torch's dispatcher."""

        def forbid(owner: type, name: str, said: Note, remedy: Note) -> None:
            original = getattr(owner, name)

            def method(*arguments: Any, **options: Any) -> Any:
                if _get_current_dispatch_mode() is self and not _is_looked_at():
                    raise self._violation(said, remedy)
                return original(*arguments, **options)

            patches.enter_context(mock.patch.object(owner, name, method))

        if not self.strict:
            with self:
                yield
            return
        with contextlib.ExitStack() as patches:
            for name in ESCAPES:
                said = note("uses-a-tensor-method", method=name)
                forbid(torch.Tensor, name, said, note("compute-in-triton"))
            remedy = note("launch-from-one-thread")
            forbid(threading.Thread, "start", note("uses-a-thread"), remedy)
            with self, _RequireDevice(self._violation), one_stream():
                yield


def _remember(tensor: torch.Tensor) -> None:
    """Take notice of memory that a subject allocated."""
    storage = tensor.untyped_storage()
    _allocated[storage._cdata] = StorageWeakRef(storage)


def _drop_what_is_gone() -> None:
    """Forget memory that was freed, once there may be as much of it as of what is left."""
    global _left
    if len(_allocated) > 2 * _left + 64:
        for key in [key for key, storage in _allocated.items() if storage.expired()]:
            del _allocated[key]
        _left = len(_allocated)


def _own_operator(func: torch._ops.OpOverload) -> Callable | None:
    """Return the function of a graded file that torch.library.custom_op made this operator of."""
    definition = custom_ops.OPDEFS.get(func._schema.name)
    body = definition._init_fn if definition else None
    code = getattr(body, "__code__", None)
    return body if code and is_graded_file(code.co_filename) else None


def _is_looked_at() -> bool:
    """Whether an editor's debugger calls, to show what the subject's variables hold."""
    frame = sys._getframe(1) if settings.debugged else None
    while frame and not is_graded_file(frame.f_code.co_filename):
        if frame.f_globals.get("__name__", "").startswith(("pydevd", "_pydevd")):
            return True
        frame = frame.f_back
    return False


class _RequireDevice(TorchFunctionMode):
    """Forbids a launcher to allocate without naming a device in the body."""

    def __init__(self, violation: Callable[[Note, Note], Wrong]):
        super().__init__()
        self._violation = violation

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        lacks_device = func in FACTORIES and kwargs.get("device") is None
        if lacks_device and is_graded_file(sys._getframe(1).f_code.co_filename):
            said = note("allocates-without-a-device", function=func.__name__)
            raise self._violation(said, note("pass-the-device"))
        return func(*args, **kwargs)


@contextlib.contextmanager
def one_stream() -> Iterator[None]:
    """Let a subject that changes the current CUDA stream in the body raise Wrong."""
    original = getattr(torch._C, "_cuda_setStream", None)
    if original is None:
        yield
        return

    def set_stream(*arguments: Any, **options: Any) -> Any:
        if place := current_place():
            remedy = note("launch-on-the-current-stream")
            raise Wrong(
                Fault("outside-kernel", (note("changes-the-stream"),), place, remedy=remedy)
            )
        return original(*arguments, **options)

    with mock.patch.object(torch._C, "_cuda_setStream", set_stream):
        yield


def _allocate_huge(func: torch._ops.OpOverload, args: tuple, kwargs: dict) -> torch.Tensor | None:
    """Return the memory to allocate, uninitialised, if it is on the host and too large to fill."""
    planned = func(*args, **(kwargs | {"device": "meta"}))
    like = args[0] if isinstance(args[0], torch.Tensor) else torch.empty(0)
    device = torch.device(kwargs.get("device") or like.device)
    if device.type != "cpu" or not is_huge(planned):
        return None
    return torch.empty_strided(planned.shape, planned.stride(), dtype=planned.dtype, device=device)


def _advice(func: torch._ops.OpOverload) -> tuple[Note, Note]:
    name = func.overloadpacket.__name__.removesuffix("_")
    copies = func in (aten.clone.default, aten._to_copy.default, aten.copy_.default)
    remedy = note("pass-strides" if copies else "only-launch-in-the-launcher")
    return note("uses-a-torch-operation", operation=name), remedy
