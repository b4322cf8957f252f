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

from kernelgauge.core.verdict import Wrong
from kernelgauge.subject.canaries import Arena
from kernelgauge.words.fault import Fault, note


class Hidden:
    """The inputs of one run, by name."""

    def __init__(self, arenas: Mapping[str, Arena]):
        self._kept = [
            (name, memory, memory.clone(), arena.fresh[arena.begin : arena.end])
            for name, arena in arenas.items()
            if (memory := arena.buffer[arena.begin : arena.end]).numel()
        ]
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
            said = note("changed-by-the-launcher", tensor=self._changed)
            fault = Fault("outside-kernel", (said,), tensor=self._changed)
            raise Wrong(fault.but(remedy=note("compute-in-kernel")))

    def _hide(self) -> None:
        with _disable_current_modes():
            for _, memory, contents, poison in self._kept:
                contents.copy_(memory)
                memory.copy_(poison)
        self._is_hidden = True

    def _show(self) -> None:
        self._is_hidden = False
        with _disable_current_modes():
            for name, memory, contents, poison in self._kept:
                if not torch.equal(memory, poison):
                    self._changed = self._changed or name
                memory.copy_(contents)
