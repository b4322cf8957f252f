"""Lay out the files of a new puzzle, each with what is left to write.

python -m course.new 07_matmul transposed transposed_matmul

Nothing is overwritten. What the new files lack, `pytest tests/test_contract.py -k NAME` says.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from course.paths import PRODUCTION, PUZZLES, ROOT, SOLUTIONS

STUB = '''"""NN.N  Title

One sentence that says what to do.

    y[i] = x[i]          PyTorch: x.clone()

Given     x (N,): float16, bfloat16 or float32, contiguous, N >= 1
Return    y (N,): a new tensor with the dtype of x
New here  what this puzzle teaches
Traffic   each element of x loaded once, each of y stored once, one launch
Speed     at least 0.3x the speed of the reference at 64 Mi float32 elements

Run       pytest puzzles/{chapter}/test_{name}.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0; offsets and results beyond 2**31 elements
Raise     ValueError that names x if it is not 1-D.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/{chapter}/production/test_{name}.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def {function}_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: what one program does
    pass


def {function}(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose a grid, launch
'''

SOLUTION = '''"""NN.N  Title: one good answer.

In two or three sentences, what it does differently from the natural kernel, and why: for --compare.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def {function}_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pass


def {function}(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError
'''

TESTS = '''"""Tests of NN.N, title."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("{function}")


@cases(one_block=1024, several_blocks=8192, single_element=1)
def test_shapes(N):
    puzzle.check(integers(N))


@cases(one_short_of_a_block=1023, one_past_a_block=1025, ragged=20001)
def test_masks(N):
    puzzle.check(integers(N))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(3000, dtype=dtype))


def test_traffic():
    puzzle.traffic(randn(5000)).check(reads=1, writes=1, launches=1, sectors=1.1)


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(5000, dtype=dtype))


def test_speedup():
    puzzle.race(randn(2**26), at_least=0.3)
'''

PRODUCTION_TESTS = '''"""Tests of NN.N, title, in production."""

from course.challenge import challenge
from course.inputs import far_apart, integers, randn

puzzle = challenge("{function}")


def test_shapes_x_is_not_a_vector():
    puzzle.check_or_raises(randn(4, 4), names="x")


def test_masks_offsets_beyond_32_bits():
    puzzle.check_offsets(far_apart(integers(3, dtype="float16")))


def test_speedup():
    puzzle.race(randn(2**26), at_least=0.9, baseline="solution")
'''

NATURAL = """# Differs from our solution in: say how.
import torch
import triton
import triton.language as tl
"""


def files(chapter: str, name: str, function: str) -> dict[Path, str]:
    """Return the files of a new puzzle and what they begin with."""
    words = {"chapter": chapter, "name": name, "function": function}
    natural = ROOT / "tests" / "alternatives" / "natural"
    return {
        PUZZLES / chapter / f"{name}.py": STUB.format(**words),
        PUZZLES / chapter / f"test_{name}.py": TESTS.format(**words),
        PUZZLES / chapter / PRODUCTION / f"test_{name}.py": PRODUCTION_TESTS.format(**words),
        SOLUTIONS / chapter / f"{name}.py": SOLUTION.format(**words),
        natural / chapter / f"{name}.py": NATURAL,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m course.new", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("chapter", help="07_matmul")
    parser.add_argument("name", help="of the files, without .py: transposed")
    parser.add_argument("function", help="to be graded: transposed_matmul")
    options = parser.parse_args(arguments)
    if options.name in sys.stdlib_module_names:
        parser.error(f"{options.name} is a module of the standard library: choose another name")
    if not (options.name.isidentifier() and options.function.isidentifier()):
        parser.error("name and function must be Python identifiers")
    made = files(options.chapter, options.name, options.function)
    if there := [path for path in made if path.exists()]:
        parser.error(f"{there[0].relative_to(ROOT)} exists already: nothing was written")
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path.relative_to(ROOT))
    print(
        f"Now write {options.function} in reference/{options.chapter}.py, and a row for it in the "
        f"table of puzzles/{options.chapter}/README.md. CONTRIBUTING.md has the rest."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
