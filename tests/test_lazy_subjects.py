"""Subjects that do not do the work fail every puzzle.

Each is made from the puzzle's solution, by text that is the same for all puzzles, and runs on the
first case of the puzzle's test_numerics.
"""

from __future__ import annotations

import inspect
import re

import pytest

from course import paths
from course.plugin import ladder
from course.proof import runner
from kernelgauge.kernel import is_thorough
from tests import sampling

pytestmark = pytest.mark.proof

# Appended to the solution. honest is its launcher, unlaunched the same without its launches.
PREPARATION = """
import triton.language as tl
from course import loader
from kernelgauge.core.tensors import flat
from triton.runtime.jit import KernelInterface

honest = {function}
IN_PLACE = {in_place}  # indices of the arguments that it changes
kept = []


class NoLaunch:
    def __getitem__(self, grid):
        return lambda *arguments, **options: None


def unlaunched(inputs, options):
    own = globals()
    kernels = {{name: it for name, it in own.items() if isinstance(it, KernelInterface)}}
    own.update(dict.fromkeys(kernels, NoLaunch()))
    try:
        return as_tuple(honest(*inputs, **options))
    finally:
        own.update(kernels)


def as_tuple(returned):
    return () if returned is None else flat(returned)


def as_returned(results):
    return None if IN_PLACE else results[0] if len(results) == 1 else tuple(results)


def blank(tensor, make=torch.empty):
    return make(tensor.shape, dtype=tensor.dtype, device=tensor.device)


@triton.jit
def zeros_kernel(pointer, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    zeros = tl.zeros((BLOCK,), tl.int32).to(pointer.dtype.element_ty)
    tl.store(pointer + offs, zeros, mask=offs < N)


def {function}(*inputs, **options):
"""

# What the launcher does instead, and a pattern for the message.
LAZY = {
    "uninitialised": (
        "return as_returned(unlaunched(inputs, options))",
        "launched no Triton kernel",
    ),
    "zeros": (
        """
    results = unlaunched(inputs, options)
    return as_returned([blank(result, torch.zeros) for result in results])
""",
        "launched no Triton kernel",
    ),
    "zeros_by_a_kernel": (
        """
    results = [inputs[number] for number in IN_PLACE] or unlaunched(inputs, options)
    for result in results:
        numbers = torch.view_as_real(result) if result.is_complex() else result
        numbers = numbers.view(torch.int8) if numbers.itemsize == 1 else numbers
        N = numbers.numel()
        zeros_kernel[(triton.cdiv(N, 1024),)](numbers, N, BLOCK=1024)
    return as_returned(results)
""",
        "is wrong in",
    ),
    "its_input": (
        """
    honest(*inputs, **options)
    return inputs[0]
""",
        "in the memory of its input|must return None",
    ),
    "the_reference": (
        "return loader.load_reference({chapter!r}, {function!r})(*inputs, **options)",
        "outside a kernel",
    ),
    "work_thrown_away": (
        """
    inputs = [blank(it) if number in IN_PLACE else it for number, it in enumerate(inputs)]
    return as_returned([blank(result) for result in as_tuple(honest(*inputs, **options))])
""",
        "no program stored|is wrong in",
    ),
    "an_earlier_answer": (
        """
    kept.append(honest(*inputs, **options))
    return kept[0]
""",
        "no program stored|is wrong in|an earlier call|this call did not allocate",
    ),
}


CHECKS = ("numerics", "masks", "shapes")


@pytest.mark.parametrize("lazy", LAZY)
@pytest.mark.parametrize("puzzle", sampling.names(ladder.ladder(), one_in=3))
def test_lazy_subject_fails(puzzle, lazy, tmp_path):
    kernel = runner.module_of(puzzle).puzzle
    if kernel.rules.in_place and lazy == "an_earlier_answer":
        pytest.skip("returns nothing")
    names = list(inspect.signature(kernel.reference).parameters)
    body, words = LAZY[lazy]
    if kernel.rules.gradients:
        words += "|without a grad_fn|tensors?, not|gives no gradient|no program stored"
    details = {
        "chapter": kernel.chapter,
        "function": kernel.name,
        "in_place": [names.index(name) for name in kernel.rules.in_place],
    }
    solution = (paths.SOLUTIONS / f"{puzzle}.py").read_text()
    source = solution + f"{PREPARATION}    {body}".format(**details)
    cases = [c for c in runner.cases_of(puzzle) if ladder.check_of(c.test) in CHECKS]
    # Of the others, those that run on other contents first see an earlier answer.
    cases.sort(key=lambda c: (not is_thorough(c.id), CHECKS.index(ladder.check_of(c.test))))
    with runner.graded(puzzle, source, tmp_path):
        fault = runner.first_fault(cases)
    assert fault, f"{lazy} passes all of {puzzle}"
    assert re.search(words, str(fault[1])), f'fails, but not with "{words}": {fault[1]}'
