"""Record the launches of compiled kernels while a subject runs."""

from __future__ import annotations

from triton.runtime.jit import JITFunction

from judge.core.launch import Launch


class Recorder:
    """Records the launches of compiled kernels in its body, in order."""

    def __init__(self) -> None:
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
