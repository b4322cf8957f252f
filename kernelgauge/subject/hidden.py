"""Inputs that kernels alone can see, while a subject runs in the interpreter.

Whatever way a launcher finds to the memory of a tensor, NumPy's, DLPack's or a C library's, it
finds poison there. Only in launches, in reads of scalars that the guard counts, and in the hooks of
an autotuner do inputs hold their contents.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch.utils._python_dispatch import _disable_current_modes

from kernelgauge.core.tensors import once
from kernelgauge.core.verdict import Wrong
from kernelgauge.words.fault import Fault, note

# As integers of their size, so that NaN equals itself.
WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# The bit that tells a quiet NaN. Without it, all others set, a NaN signals: what is computed of it
# is another one.
QUIET = {torch.float16: 9, torch.bfloat16: 6, torch.float32: 22, torch.float64: 51}


def _words_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's memory as integers, without what autograd knows of its changes."""
    size = min(tensor.itemsize, 8)
    each = tensor.itemsize // size
    shape, strides = (*tensor.shape, each), (*(each * s for s in tensor.stride()), 1)
    words = torch.empty(0, dtype=WORDS[size], device=tensor.device)
    return words.set_(tensor.untyped_storage(), each * tensor.storage_offset(), shape, strides)


class Hidden:
    """The inputs of one run.

    inputs: by name. No two may share memory
    """

    def __init__(self, inputs: Mapping[str, torch.Tensor]):
        self._kept = []
        for name, tensor in inputs.items():
            words = _words_of(once(tensor))
            poison = ~(1 << QUIET[tensor.dtype]) if tensor.dtype in QUIET else -1
            self._kept.append((name, words, words.clone(), poison))
        self._is_hidden = False
        self._changed = ""

    @contextlib.contextmanager
    def hiding(self) -> Iterator[None]:
        """Hide the inputs in the body."""
        self._hide()
        try:
            yield
        finally:
            self._show()

    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        """Let the inputs hold their contents in the body, and keep what it makes of them.

        Raises Wrong if they were stored to before.
        """
        if not self._is_hidden:
            yield
            return
        self._show()
        try:
            self.check()
            yield
        finally:
            self._hide()

    def check(self) -> None:
        """Raise Wrong if an input was stored to while it was hidden."""
        if self._changed:
            said = note("changed-outside-kernel", tensor=self._changed, element="")
            fault = Fault("outside-kernel", (said,), tensor=self._changed)
            raise Wrong(fault.but(remedy=note("compute-in-kernel")))

    def _hide(self) -> None:
        with _disable_current_modes():
            for _, memory, contents, poison in self._kept:
                contents.copy_(memory)
                memory.fill_(poison)
        self._is_hidden = True

    def _show(self) -> None:
        self._is_hidden = False
        with _disable_current_modes():
            for name, memory, contents, poison in self._kept:
                if bool((memory != poison).any()):
                    self._changed = self._changed or name
                memory.copy_(contents)
