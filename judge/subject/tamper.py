"""Whether what the judge relies on is still the same after a subject was loaded, or ran.

Torch, Triton, the clock and the judge itself can be changed by anybody in this process.
"""

from __future__ import annotations

import _thread
import contextlib
import operator
import sys
from collections.abc import Iterator
from pathlib import Path

from judge.core import paths
from judge.core.verdict import Wrong
from judge.subject import audit
from judge.subject.audit import HINT

# Modules and classes whose functions the judge calls or compares with. Those not imported yet are
# no concern; the judge's own are all looked at, with their variables.
RELIED_ON = (
    "builtins", "gc", "math", "random", "statistics", "sys", "threading", "time",
    "numpy", "numpy.linalg", "torch", "torch:Tensor", "torch._C",
    "torch.autograd", "torch.cuda", "torch.cuda:Event", "torch.cuda:Stream", "torch.linalg",
    "torch.nn.functional", "torch.special", "torch.testing", "torch.utils._python_dispatch",
    "torch.utils._python_dispatch:TorchDispatchMode",
    "triton", "triton.language", "triton.language.core", "triton.language.math",
    "triton.language.standard", "triton.compiler", "triton.compiler.compiler", "triton.testing",
    "triton.runtime.autotuner:Autotuner", "triton.runtime.interpreter",
    "triton.runtime.interpreter:GridExecutor", "triton.runtime.interpreter:InterpretedFunction",
    "triton.runtime.interpreter:InterpreterBuilder",
    "triton.runtime.jit", "triton.runtime.jit:JITFunction", "triton.runtime.jit:KernelInterface",
)  # fmt: skip

# What the judge itself sets while a subject runs, and torch when its compiler is imported.
MAY_CHANGE = {("judge.subject.autotuning", "outside_guard"), ("torch", "manual_seed")}


@contextlib.contextmanager
def untouched(subject: Path) -> Iterator[None]:
    """This file is loaded or runs in the body. Raises Wrong if it reached where it may not."""
    # Bound here, where a subject that changes this module does not reach them.
    compare, count, seen = _changes, _thread._count, []
    before, threads = _state(), count()
    try:
        with audit.listening() as seen:
            yield
    finally:
        file = paths.shown(subject)
        seen += [
            f"{file}: {what} was replaced: grading relies on it{HINT}" for what in compare(before)
        ]
        if count() > threads:
            seen.append(f"{file}: leaves a thread behind{HINT}")
        if seen:
            raise Wrong(seen[0]) from sys.exc_info()[1]


def _state() -> list[tuple[object, dict, dict]]:
    """Owners, what their names stand for, and what the judge's own functions and tables hold."""
    state = []
    for name in RELIED_ON:
        module, _, attribute = name.partition(":")
        owner = sys.modules.get(module)
        owner = getattr(owner, attribute, None) if attribute else owner
        if owner is not None:
            state.append((owner, dict(vars(owner)), {}))
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "judge" and module is not None:
            classes = [it for it in vars(module).values() if isinstance(it, type)]
            for owner in (module, *(it for it in classes if it.__module__ == name)):
                names = dict(vars(owner))
                inside = {n: held for n, it in names.items() if (held := _inside(n, it))}
                state.append((owner, names, inside))
    return state


def _inside(name: str, value: object) -> object:
    """The code of a function, a copy of a table; None of all else."""
    if isinstance(value, (dict, set)) and name.isupper():
        return value.copy()
    return getattr(value, "__code__", None)


def _changes(state: list) -> list[str]:
    """Names of what is no longer as it was. It is put back, for who is graded next."""
    found = []
    for owner, before, inside in state:
        now = dict(vars(owner))
        same = len(now) == len(before) and all(map(operator.is_, now.values(), before.values()))
        if same and not inside:
            continue
        ours = _shown(owner).partition(".")[0] == "judge"
        for name, value in before.items():
            if now.get(name, found) is not value and _matters(owner, name, value, ours):
                setattr(owner, name, value)
            elif name in inside and _inside(name, value) != inside[name]:
                _put_back(value, inside[name])
            else:
                continue
            found.append(f"{_shown(owner)}.{name}")
        for name in now.keys() - before.keys():
            if isinstance(owner, type) and _shadows(owner, name, now[name]):
                delattr(owner, name)
                found.append(f"{_shown(owner)}.{name}")
    return found


def _shadows(owner: type, name: str, value: object) -> bool:
    """Whether this new attribute hides another that the class inherits."""
    inherited = [vars(base)[name] for base in owner.__mro__[1:] if name in vars(base)]
    return not name.startswith("__") and bool(inherited) and value is not inherited[0]


def _put_back(value: object, held: object) -> None:
    if isinstance(value, (dict, set)):
        value.clear()
        value.update(held)
    else:
        value.__code__ = held


def _matters(owner: object, name: str, value: object, ours: bool) -> bool:
    if (_shown(owner), name) in MAY_CHANGE:
        return False
    if ours:
        return not name.startswith("__")
    return callable(value) or isinstance(value, (property, classmethod, staticmethod))


def _shown(owner: object) -> str:
    return f"{owner.__module__}.{owner.__name__}" if isinstance(owner, type) else owner.__name__
