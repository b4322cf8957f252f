"""One launch of a Triton kernel, as the subject asked for it, whoever runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from triton.runtime.jit import JITFunction


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


def blocks_of(launches: list[Launch]) -> list[int]:
    """Whole numbers that the kernels were given as constexprs: the sizes of their tiles."""
    given = (launch.arguments.get(name) for launch in launches for name in launch.constexprs)
    return sorted({value for value in given if type(value) is int and value > 1})


class Recorder:
    """Notes the launches of compiled kernels in its body: grid, arguments and options, in order."""

    def __init__(self):
        self.launches: list[Launch] = []

    def __enter__(self) -> Recorder:
        self._original = JITFunction.run

        def run(kernel, *args, grid, warmup, **kwargs):
            if not warmup:
                self.launches.append(_launch(kernel, args, grid, kwargs))
            return self._original(kernel, *args, grid=grid, warmup=warmup, **kwargs)

        JITFunction.run = run
        return self

    def __exit__(self, *_) -> None:
        JITFunction.run = self._original


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
