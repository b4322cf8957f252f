"""Run a subject with other values for its meta-parameters, such as BLOCK=64 and num_warps=8.

Each launch gets the values in place of those that it passes. A grid that is a function of the
meta-parameters follows by itself. What the launcher makes from the same variable or number follows
in a copy of the file in memory (launcher_source). What follows neither way is noted.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import KernelInterface

from kernelgauge.core import paths
from kernelgauge.core.launch import Launch
from kernelgauge.memory.executor import OPTIONS
from kernelgauge.subject import launcher_source


@dataclasses.dataclass
class Trial:
    """Values to try, and what became of them. Launches in `running` get them.

    values: by name, of constexprs and launch options
    fixed: for each kernel whose grid did not follow, the name and the value that it was made for
    """

    values: dict[str, Any]
    fixed: dict[tuple[str, str], Any] = dataclasses.field(default_factory=dict)

    @contextlib.contextmanager
    def running(self, path: Path) -> Iterator[None]:
        """Let launches in the body get the values, in a copy of this file that has them too."""
        if not self.values:
            yield
            return
        original = KernelInterface.__getitem__
        KernelInterface.__getitem__ = lambda kernel, grid: self._launcher(kernel, grid)
        try:
            tree = ast.parse(path.read_text())
            launcher_source.set_values(tree, self.values)
            with paths.replaced(path, tree):
                yield
        finally:
            KernelInterface.__getitem__ = original

    def missed(self, launches: list[Launch]) -> str:
        """Return the name of a constexpr that was launched with another value, or ""."""
        wrong = (
            name
            for launch in launches
            for name, value in self.values.items()
            if name in launch.constexprs and launch.arguments[name] != value
        )
        return next(wrong, "")

    def _launcher(self, kernel: Any, grid: Any) -> Any:
        names = kernel.arg_names
        mine = {n: v for n, v in self.values.items() if n in names or n in OPTIONS}

        def launch(*args: Any, **kwargs: Any) -> Any:
            placed = dict(zip(names, args, strict=False))
            given = placed | kwargs
            for name in mine.keys() & given.keys() & set(names):
                if given[name] != mine[name] and not callable(grid):
                    self.fixed[_name_of(kernel), name] = given[name]
            args = (*(mine.get(*one) for one in placed.items()), *args[len(placed) :])
            named = {name: value for name, value in mine.items() if name not in placed}
            with _configured(kernel, named) as rest:
                return kernel.run(*args, grid=grid, warmup=False, **kwargs | rest)

        return launch


@contextlib.contextmanager
def _configured(kernel: Any, values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give an autotuner one configuration, its first with these values. Yields those left over."""
    if not isinstance(kernel, Autotuner):
        yield values
        return
    before, config = kernel.configs, copy.copy(kernel.configs[0])
    config.kwargs = config.kwargs | {n: v for n, v in values.items() if n in config.kwargs}
    options = {name for name in values if name in vars(config)}
    for name in options:
        setattr(config, name, values[name])
    kernel.configs = [config]
    try:
        yield {n: v for n, v in values.items() if n not in config.kwargs and n not in options}
    finally:
        kernel.configs = before


def _name_of(kernel: Any) -> str:
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel.__name__
