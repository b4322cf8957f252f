"""Record the launches of compiled kernels while a subject runs."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from triton.runtime.jit import JITFunction

from kernelgauge.core import gpus
from kernelgauge.core.launch import Launch
from kernelgauge.core.verdict import Wrong
from kernelgauge.memory.watch import MAX_COMPARED_BYTES
from kernelgauge.words.fault import Fault, note

# A launch that takes longer on one of several GPUs is taken to wait for the launch on another.
MAX_SECONDS = 0.1


class Recorder:
    """Records the launches of compiled kernels in its body, in order.

    It raises Wrong if anything but a kernel changes what it remembers.
    """

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        # The bytes of allocations, and copies of what they were after the last launch.
        self._remembered: list[tuple[torch.Tensor, torch.Tensor]] = []
        # Whether the last launch is taken to wait for one on another GPU: then they are not known.
        self._is_waiting = False

    def remember(self, tensor: torch.Tensor) -> None:
        """Expect only kernels to change this allocation from now on.

        Call it again after any other change that is allowed, such as zero_().
        """
        storage = tensor.untyped_storage()
        if storage.nbytes() > MAX_COMPARED_BYTES:
            return
        with _disable_current_modes():
            for memory, before in self._remembered:
                if memory.data_ptr() == storage.data_ptr():
                    before.copy_(memory)
                    return
            memory = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            self._remembered.append((memory, memory.clone()))

    def _check_contents(self) -> None:
        if self._is_waiting:
            return
        with _disable_current_modes():
            for memory, before in self._remembered:
                if not torch.equal(memory, before):
                    said = note("written-between-launches", bytes=int((memory != before).sum()))
                    remedy = note("compute-in-kernel")
                    raise Wrong(Fault("outside-kernel", (said,), remedy=remedy))

    def _accept_contents(self) -> None:
        if len(gpus.used()) > 1:
            # A kernel may store to memory of another GPU, whose stream does not wait for it.
            self._is_waiting = not gpus.idle_within(MAX_SECONDS)
            if self._is_waiting:
                return
        with _disable_current_modes():
            for memory, before in self._remembered:
                before.copy_(memory)

    def __enter__(self) -> Recorder:
        self._original = JITFunction.run

        def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            if warmup:
                return self._original(kernel, *args, grid=grid, warmup=warmup, **kwargs)
            self._check_contents()
            self.launches.append(_launch(kernel, args, grid, kwargs))
            launched = self._original(kernel, *args, grid=grid, warmup=warmup, **kwargs)
            self._accept_contents()
            return launched

        JITFunction.run = run
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        JITFunction.run = self._original
        if kind is None:
            self._check_contents()


def _launch(kernel: Any, args: tuple, grid: Any, kwargs: dict) -> Launch:
    names = kernel.arg_names
    parameters = {name: value for name, value in kwargs.items() if name in names}
    options = {name: value for name, value in kwargs.items() if name not in names}
    bound = kernel.signature.bind(*args, **parameters)
    bound.apply_defaults()
    size = grid(dict(bound.arguments)) if callable(grid) else grid
    size = tuple(int(n) for n in size)
    constexprs = frozenset(names[number] for number in kernel.constexprs)
    size += (1,) * (3 - len(size))
    gpu = torch.cuda.current_device() if torch.cuda.is_initialized() else None
    return Launch(kernel.fn, size, dict(bound.arguments), constexprs, options, gpu)
