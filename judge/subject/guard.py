"""What a subject may do besides launching kernels, and the memory that it does it in.

Every tensor given to a subject and every tensor it allocates lies between canaries: bytes that read
as NaN, and that nobody may change. Fresh allocations hold the same bytes, so an element that no
kernel wrote is NaN in the result.

A subject allocates, takes views, asks shapes, reads a scalar and launches kernels. Any other
operation of torch is the work itself, done elsewhere than in the kernel, and fails by its name.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from judge.core.blame import current_line, is_graded_file
from judge.core.dtypes import rounds
from judge.core.verdict import Wrong
from judge.subject.canaries import MAX_COPIED_BYTES, Arena

WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


# Of these the default device is the host, also where the inputs are on a GPU.
MAKERS = {torch.empty, torch.empty_strided, torch.zeros, torch.ones, torch.full}

# What a launcher may read back: a flag that its kernel set, a maximum.
MAX_SCALARS_READ = 4

aten = torch.ops.aten
EMPTY = {
    aten.empty.memory_format,
    aten.empty_strided.default,
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
# torch.tensor and torch.from_numpy arrive as this "view".
IMPORTS = {aten.lift_fresh.default, aten.lift_fresh_copy.default}

# Ways out of a tensor that the dispatcher does not see.
ESCAPES = ("numpy", "tolist", "__array__", "__dlpack__", "share_memory_")


class Guard(TorchDispatchMode):
    """Active while a subject runs. `violations` holds what it did that it may not."""

    def __init__(self, subject: str):
        super().__init__()
        self.subject = subject
        self.violations: list[str] = []
        self.on_allocation: Callable[[torch.Tensor], None] = lambda tensor: None
        self.arenas: list[Arena] = []
        self.untouched: list[torch.Tensor] = []
        self.scalars = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Else torch imports its compiler, which takes seconds, only to leave this class alone.
        return False

    def owns(self, tensor: torch.Tensor) -> bool:
        """Whether the subject allocated this memory itself, through torch, in this run."""
        storage = tensor.untyped_storage().data_ptr()
        untouched = (made.untyped_storage().data_ptr() for made in self.untouched)
        return self._arena_of(tensor) is not None or storage in untouched

    def has_filled(self, tensor: torch.Tensor) -> bool:
        """Whether the launcher itself gave every element of this memory a value."""
        arena = self._arena_of(tensor)
        return arena is not None and arena.filled

    def stored(self, tensor: torch.Tensor) -> np.ndarray | np.bool_:
        """Which elements of a result differ from what fresh memory holds, as far as that is seen.

        One True, and not an array, where all do, which may be gigabytes.
        Short integers may hold its bytes by themselves, and are taken as stored.
        """
        arena, size = self._arena_of(tensor), tensor.element_size()
        telling = size in WORDS and (rounds(tensor.dtype) or size == 8)
        if arena.filled or not telling or tensor.numel() == 0:
            return np.True_
        fresh, words = arena.fresh.view(WORDS[size]), tensor.view(WORDS[size])
        same = words == fresh.as_strided(words.shape, words.stride(), words.storage_offset())
        # Every second word of two bytes is that of -NaN.
        if not same.any() or (size == 2 and not (same & (words == fresh[0])).any()):
            return np.True_
        return ~same.cpu().numpy()

    def _arena_of(self, tensor: torch.Tensor) -> Arena | None:
        storage = tensor.untyped_storage().data_ptr()
        of_storage = (a for a in self.arenas if a.buffer.untyped_storage().data_ptr() == storage)
        return next(of_storage, None)

    def check_canaries(self) -> None:
        """Raises Wrong if anything was written beside what the subject allocated."""
        for arena in self.arenas:
            arena.check()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in EMPTY or func in FILLED:
            if (made := _untouched(func, args, kwargs)) is not None:
                self.untouched.append(made)
                return made
            made = func(*args, **kwargs)
            if made.device.type == "meta":
                return made
            arena = Arena.like(made, "a tensor that the launcher allocated")
            if func in FILLED:
                arena.fill(made)
                arena.filled = True
            self.arenas.append(arena)
            self.on_allocation(arena.tensor)
            return arena.tensor
        if func in IMPORTS:
            self._forbid("torch.tensor or torch.from_numpy", "allocate with torch.empty or zeros")
        elif func.is_view:
            return func(*args, **kwargs)
        elif func in FILLS and self.owns(args[0]):
            filled = func(*args, **kwargs)
            arena = self._arena_of(args[0])
            arena.filled |= args[0].numel() == arena.tensor.numel()
            self.on_allocation(args[0])
            return filled
        elif func is aten._local_scalar_dense.default:
            self.scalars += 1
            if self.scalars <= MAX_SCALARS_READ:
                return func(*args, **kwargs)
            self._forbid(
                "item() again and again", f"a launcher may read {MAX_SCALARS_READ} scalars at most"
            )
        self._forbid(*_advice(func))
        raise AssertionError

    def _forbid(self, operation: str, advice: str) -> None:
        place = current_line()
        message = (
            f"{place + '  ' if place else ''}{self.subject} uses {operation} outside a kernel\n"
            f"hint: {advice}"
        )
        self.violations.append(message)
        raise Wrong(message)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Everything a subject does in the body is seen, also what torch's dispatcher does not."""
        saved = {name: getattr(torch.Tensor, name) for name in ESCAPES}
        start = threading.Thread.start

        def closed(name: str):
            def escape(tensor, *arguments, **options):
                if _get_current_dispatch_mode() is self:
                    self._forbid(f"Tensor.{name}", "compute in the Triton kernel")
                return saved[name](tensor, *arguments, **options)

            return escape

        def no_thread(thread, *arguments, **options):
            if _get_current_dispatch_mode() is self:
                self._forbid("a thread", "launch kernels from the function that is called")
            return start(thread, *arguments, **options)

        for name in ESCAPES:
            setattr(torch.Tensor, name, closed(name))
        threading.Thread.start = no_thread
        try:
            with self, _DeviceIsAsked(self._forbid), one_stream():
                yield
        finally:
            threading.Thread.start = start
            for name, method in saved.items():
                setattr(torch.Tensor, name, method)


class _DeviceIsAsked(TorchFunctionMode):
    """In the body a launcher says on which device it allocates."""

    def __init__(self, forbid: Callable[[str, str], None]):
        super().__init__()
        self._forbid = forbid

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        caller = sys._getframe(1).f_code.co_filename
        if func in MAKERS and kwargs.get("device") is None and is_graded_file(caller):
            self._forbid(
                f"torch.{func.__name__} without device=",
                "say device=x.device: the memory is the host's otherwise, out of a GPU's reach",
            )
        return func(*args, **kwargs)


@contextlib.contextmanager
def one_stream() -> Iterator[None]:
    """In the body a subject may not change the current CUDA stream. Raises Wrong there."""
    original = getattr(torch._C, "_cuda_setStream", None)
    if original is None:
        yield
        return

    def set_stream(*arguments, **options):
        if place := current_line():
            raise Wrong(
                f"{place}  changes the CUDA stream\n"
                "hint: launch on the current stream: work beside it would escape the clock"
            )
        return original(*arguments, **options)

    torch._C._cuda_setStream = set_stream
    try:
        yield
    finally:
        torch._C._cuda_setStream = original


def _untouched(func: torch._ops.OpOverload, args: tuple, kwargs: dict) -> torch.Tensor | None:
    """What this would allocate on the host, if it is too large to be filled: of any contents."""
    planned = func(*args, **(kwargs | {"device": "meta"}))
    like = args[0] if isinstance(args[0], torch.Tensor) else torch.empty(0)
    device = torch.device(kwargs.get("device") or like.device)
    if device.type != "cpu" or planned.untyped_storage().nbytes() <= MAX_COPIED_BYTES:
        return None
    return torch.empty_strided(planned.shape, planned.stride(), dtype=planned.dtype, device=device)


def _advice(func: torch._ops.OpOverload) -> tuple[str, str]:
    name = f"torch's {func.overloadpacket.__name__.removesuffix('_')}"
    if func in (aten.clone.default, aten._to_copy.default, aten.copy_.default):
        return name, (
            "it copies memory (as contiguous, reshape, to and clone do): "
            "pass the strides to the kernel, and convert there"
        )
    return name, "compute in the Triton kernel; the launcher only checks, allocates and launches"
