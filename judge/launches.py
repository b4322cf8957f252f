"""One launch of a Triton kernel, as the subject asked for it, whoever runs it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Launch:
    """What a subject launched.

    kernel: the kernel's Python function, without decorators
    grid: the number of programs along x, y and z
    arguments: what each parameter of the kernel was given, by name, defaults filled in: tensors,
        numbers, tensor descriptors, and the values of constexprs
    constexprs: the parameters that are annotated `tl.constexpr`
    options: `num_warps`, `num_stages` and other launch options, only those that were given
    """

    kernel: Callable
    grid: tuple[int, int, int]
    arguments: dict[str, object]
    constexprs: frozenset[str]
    options: dict[str, object] = field(default_factory=dict)


@dataclass
class Record:
    """The launches of compiled kernels in the body of `recorded`, in order."""

    launches: list[Launch] = field(default_factory=list)


@contextlib.contextmanager
def recorded() -> Iterator[Record]:
    """Note each launch of a compiled kernel: its grid, arguments and options."""
    from triton.runtime.jit import JITFunction

    record = Record()
    original = JITFunction.run

    def run(kernel, *args, grid, warmup, **kwargs):
        if not warmup:
            record.launches.append(_launch(kernel, args, grid, kwargs))
        return original(kernel, *args, grid=grid, warmup=warmup, **kwargs)

    JITFunction.run = run
    try:
        yield record
    finally:
        JITFunction.run = original


def _launch(kernel, args: tuple, grid, kwargs: dict) -> Launch:
    names = kernel.arg_names
    parameters = {name: value for name, value in kwargs.items() if name in names}
    options = {name: value for name, value in kwargs.items() if name not in names}
    bound = kernel.signature.bind(*args, **parameters)
    bound.apply_defaults()
    size = grid(dict(bound.arguments)) if callable(grid) else grid
    size = tuple(int(n) for n in size)
    constexprs = frozenset(names[number] for number in kernel.constexprs)
    return Launch(
        kernel.fn, size + (1,) * (3 - len(size)), dict(bound.arguments), constexprs, options
    )
