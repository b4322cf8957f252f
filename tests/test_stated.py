"""No check of a first level asks what its stub does not say.

Each puzzle's tests run with methods of `Challenge` that note what is asked and do none of it. Each
kind of budget, rule and input has words in the spec, and each factor of a budget is a number there.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from course.challenge import Challenge
from course.paths import PUZZLES
from course.plugin import ladder
from course.proof import runner
from kernelgauge.core.verdict import Wrong

pytestmark = pytest.mark.proof

LADDER = ladder.ladder()
puzzles = pytest.mark.parametrize("puzzle", LADDER)

# What the spec says of each budget that a test may set: any of these words.
WORDS = {
    "reads": r"load|read",
    "writes": r"stored|written|stores?\b",
    "reads_by_launch": r"loaded",
    "sectors": r"neighbour|coalesced|sectors|side by side",
    "grid_at_most": r"at most [^;,]*\bprograms",
    "programs_at_least": r"at least \d+ programs|by many programs|as many programs|every multipro",
    "largest_share": r"the busiest",
    "idle": r"no program (is idle|without elements)",
    "total_reads": r"loaded once|loads (and [\d.]+ stores )?per|% for|, each of",
    "total_writes": r"nothing else|no mask|at most .*(stores|numbers)|never loaded|for the partial|"
    r"little else|stored once(, one launch)?; nothing|up never",
    "largest_write": r"no(thing|) (tensor |else|of size|larger)|no tensor|up never",
    "dot_macs": r"multiplied|multiply-adds|products|tl\.dot does|in blocks of",
    "allocated": r"allocated",
    "scratch": r"nothing|no memory|no other memory|part|little else|store for one another",
    "scalars": r"never (reads|does)",
    "spills": r"spills at most|no thread spills",
    "saved_for_backward": r"kept for the backward pass",
    "declared_configs": r"[Aa]t least \d+",
    "check_late": r"meet",
}
# And of each rule for results that makes a check harder.
RULES = {
    "deterministic": r"the same bits|no atomic",
    "alike": r"equal bit for bit|as in 18\.1",
    "in_place": r"in place|overwritten",
    "contiguous": r"contiguous",
    "gradients": r"backward pass",
}
# The budgets whose factors are numbers of the spec.
COUNTED = WORDS.keys() - {"sectors", "saved_for_backward", "declared_configs"}
# The default of budgets, looser than any spec asks for.
LOOSE = {"scratch": 0.25}
# To spare, where words say that little else is moved or that lanes are neighbours.
SPARE = {1.1, 1.01, 0.01}
COUNTS = {0: r"nothing|no\b|never|without|not (loaded|stored)", 1: r"\bonce\b|\bone\b|\beach\b|1 "}
COUNTS |= {2: r"\btwice\b|\btwo\b|\bboth\b", 3: r"\bthree\b", 4: r"\bfour\b", 9: r"\bnine\b"}
LAUNCHES = {"one": 1, "two": 2, "three": 3}
DTYPES = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.complex64: "complex64",
    torch.float8_e4m3fn: "float8",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.int32: "int32",
    torch.int64: "int64",
}
STRIDED = r"any strides|transpose|stride of 0|halves|a slice|channels last|inside rows"


@dataclass
class Asked:
    """What a puzzle asks: the tensors of its calls, each with the method, and what of WORDS."""

    inputs: list[tuple[str, torch.Tensor]] = field(default_factory=list)
    budgets: dict[str, list[Any]] = field(default_factory=dict)

    def note(self, **budgets: Any) -> None:
        for name, budget in budgets.items():
            self.budgets.setdefault(name, []).append(budget)


class Anything:
    """What a run would have counted: equal to all that is asked."""

    grid = (1, 1, 1)

    def __eq__(self, other: object) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return Anything()


class Counted(Anything):
    """Stands for a Traffic."""

    def __init__(self, asked: Asked):
        self.check = lambda **budgets: asked.note(**budgets)

    @property
    def programs(self) -> Any:
        return Anything()

    def window_bytes(self, names: object, window: object) -> float:
        return 0.0

    def tensor(self, name: str) -> Any:
        flow = SimpleNamespace(lines={})
        return SimpleNamespace(loaded=flow, stored=flow)


METHODS = (
    *("check", "check_exactly", "check_late", "check_offsets", "check_grid", "check_or_raises"),
    *("check_large_offsets", "traffic", "compiles", "configs", "declared_configs", "guarded"),
    "saved_for_backward",
)
ANSWERS = {"configs": 1, "declared_configs": 99, "guarded": Anything()}


@functools.cache
def asked_of(puzzle: str) -> Asked:
    """Return what each case of a puzzle's first level asks for, without a run of any kernel."""
    asked = Asked()

    def standing_in(method: str, answer: Any = None) -> Any:
        def noted(puzzle: Challenge, *inputs: Any, **options: Any) -> Any:
            tensors = [it for it in flat(inputs) if isinstance(it, torch.Tensor)]
            asked.inputs += [(method, hollow(it)) for it in tensors]
            given = {name: options.pop(name) for name in ("scalars", "spills") if name in options}
            asked.note(**given, **({method: True} if method in WORDS else {}))
            return Counted(asked) if method == "traffic" else answer

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for method in METHODS:
            patch.setattr(Challenge, method, standing_in(method, ANSWERS.get(method)))
        patch.setattr(Challenge, "given", lambda puzzle, **sizes: contextlib.nullcontext())
        for case in runner.cases_of(puzzle):
            if ladder.check_of(case.test) != "speedup":
                with contextlib.suppress(Wrong, NotImplementedError):
                    case.run()
    return asked


def spec_of(puzzle: str) -> str:
    """What the stub says of its first level."""
    text = ast.get_docstring(ast.parse((PUZZLES / f"{puzzle}.py").read_text()))
    return re.sub(r"\s+", " ", text.partition("\nRun ")[0])


def flat(thing: Any) -> Iterator[Any]:
    if isinstance(thing, (list, tuple)):
        for part in thing:
            yield from flat(part)
    else:
        yield thing


def hollow(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the same layout that holds nothing."""
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")


def is_asked(budget: str, value: Any) -> bool:
    """Whether this is more than budgets ask by default."""
    loose = LOOSE.get(budget, math.inf)
    return value is not None and (isinstance(value, dict) or value < loose)


@puzzles
def test_each_budget_and_rule_has_words(puzzle):
    spec, asked = spec_of(puzzle), asked_of(puzzle)
    challenges = [it for it in vars(runner.module_of(puzzle)).values() if isinstance(it, Challenge)]
    wanted = {
        name: WORDS[name]
        for name, values in asked.budgets.items()
        if name != "launches" and any(is_asked(name, value) for value in values)
    }
    wanted |= {n: words for n, words in RULES.items() for it in challenges if getattr(it.rules, n)}
    unsaid = {name for name, words in wanted.items() if not re.search(words, spec)}
    assert not unsaid
    of_each = (it for it in asked.budgets.get("reads", ()) if isinstance(it, dict))
    named = {name.split("[")[0] for name in itertools.chain(*of_each)} - {"result", "dout"}
    assert all(re.search(rf"\b{name}\b", spec) for name in named)


@puzzles
def test_launches_are_as_many_as_stated(puzzle):
    spec, asked = spec_of(puzzle), asked_of(puzzle)
    found = re.findall(r"(\w+)(?: (R))? launch(?:es)?( each way)?", spec)
    stated = set()
    for count, ranks, each_way in found:
        number = LAUNCHES.get(count.lower(), int(count) if count.isdigit() else 1)
        of_ranks = ranks or count == "R"
        stated.add(number * (4 if of_ranks else 1) * (2 if each_way else 1))
    assert {*asked.budgets.get("launches", ())} <= {None, *stated}


def numbers_in(*nodes: ast.AST) -> set[float]:
    parts = (it for node in nodes for it in ast.walk(node) if isinstance(it, ast.Constant))
    return {it.value for it in parts if type(it.value) in (int, float)}


def is_loose(budget: ast.keyword) -> bool:
    """Whether a budget is no more than what is asked by default."""
    value = budget.value
    return isinstance(value, ast.Constant) and value.value >= LOOSE.get(budget.arg, math.inf)


def is_check(node: ast.AST) -> bool:
    """Whether this is puzzle.traffic(...).check(...)."""
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "check"


@puzzles
def test_each_factor_of_a_budget_is_stated(puzzle):
    """Or it is a size of the case."""
    spec = spec_of(puzzle)
    numbers = {float(it) for it in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", spec)}
    percent = {float(it) / 100 for it in re.findall(r"([\d.]+) ?%", spec)}
    stated = numbers | percent | {1 + it for it in percent}
    stated |= {number for number, words in COUNTS.items() if re.search(words, spec)}
    stated |= {1 / 4} if "quarter" in spec else set()
    stated |= {1024} if "KiB" in spec else set()
    tree = ast.parse(ladder.path_of_tests(puzzle).read_text())
    for test in (it for it in tree.body if isinstance(it, ast.FunctionDef)):
        if ladder.check_of(test.name) == "traffic":
            parts = list(ast.walk(test))
            budgets = [it for it in parts if getattr(it, "arg", "") in COUNTED and not is_loose(it)]
            checks = {id(it.func.value) for it in parts if is_check(it)}
            sizes = [it for it in parts if isinstance(it, ast.Assign) or id(it) in checks]
            factors = numbers_in(*budgets) - numbers_in(*sizes, *test.decorator_list)
            assert factors <= stated | SPARE


@puzzles
def test_inputs_are_of_stated_dtypes_and_layouts(puzzle):
    spec = spec_of(puzzle)
    wrong = set()
    for method, x in asked_of(puzzle).inputs:
        if method != "check_or_raises":
            if DTYPES[x.dtype] not in spec:
                wrong.add(f"{method}: {x.dtype}")
            if not x.is_contiguous() and not re.search(STRIDED, spec):
                wrong.add(f"{method}: strides {x.stride()} of {tuple(x.shape)}")
            if not x.numel() and not re.search(r"any length|any size|0 or more", spec):
                wrong.add(f"{method}: {tuple(x.shape)}")
    assert not wrong
