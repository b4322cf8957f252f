"""One launch of a Triton kernel, as the subject requested it, whatever runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel.

    kernel: the kernel's Python function, without decorators
    grid: the number of programs along x, y and z
    arguments: the value of each parameter of the kernel, by name, defaults included: tensors,
        numbers, tensor descriptors, and the values of constexprs
    constexprs: the parameters that are annotated `tl.constexpr`
    options: `num_warps`, `num_stages` and other launch options, if the launch sets them
    gpu: the number of the GPU that it runs on, None in the interpreter
    """

    kernel: Callable
    grid: tuple[int, int, int]
    arguments: dict[str, object]
    constexprs: frozenset[str]
    options: dict[str, object] = field(default_factory=dict)
    gpu: int | None = None

    def program(self, number: int) -> tuple[int, int, int]:
        """Return the ids of a program, numbered in the order in which a GPU starts them."""
        width, height, _ = self.grid
        return number % width, number // width % height, number // (width * height)

    def number(self, program: tuple[int, int, int]) -> int:
        """Return the number of the program with these ids."""
        width, height, _ = self.grid
        x, y, z = program
        return x + width * (y + height * z)


def named_blocks(launch: Launch) -> dict[str, int]:
    """Return the integers above 1 passed as constexprs, by name: the block sizes, most likely."""
    given = ((name, launch.arguments.get(name)) for name in sorted(launch.constexprs))
    return {name: value for name, value in given if type(value) is int and value > 1}


def blocks_of(launches: list[Launch]) -> list[int]:
    """Return the block sizes of these launches, sorted."""
    return sorted({size for launch in launches for size in named_blocks(launch).values()})


class LaunchLog(Protocol):
    """A context manager that records what is launched in its body, in order."""

    launches: list[Launch]

    def __enter__(self) -> LaunchLog: ...

    def __exit__(self, kind: type[BaseException] | None, /, *rest: object) -> None: ...
