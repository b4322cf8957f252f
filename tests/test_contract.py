"""What holds for every puzzle: its parts are all there, and say the same."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from judge.core import blame, paths
from judge.core.paths import PUZZLES, ROOT, SOLUTIONS
from judge.plugin import ladder
from judge.proof import mutants, runner
from judge.subject import loader

LADDER = ladder.ladder()
CHAPTERS = sorted({puzzle.split("/")[0] for puzzle in LADDER})
WORKED_EXAMPLES = {"01_pointwise/vector_copy"}
SPEC = ("Given", "Return", "New here", "Traffic", "Speed", "Run")

puzzles = pytest.mark.parametrize("puzzle", LADDER)
stubs = pytest.mark.parametrize("puzzle", [p for p in LADDER if p not in WORKED_EXAMPLES])


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def function_name(puzzle: str) -> str:
    return runner.module_of(puzzle).puzzle.spec.function


def functions(path: Path) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in tree_of(path).body if isinstance(node, ast.FunctionDef)}


def kernels(path: Path) -> dict[str, ast.FunctionDef]:
    return {
        name: node
        for name, node in functions(path).items()
        if any(ast.unparse(it).startswith("triton.jit") for it in node.decorator_list)
    }


def parameters(function: ast.FunctionDef) -> list[str]:
    return [ast.unparse(argument) for argument in function.args.args]


def title(path: Path) -> str:
    return ast.get_docstring(tree_of(path)).splitlines()[0]


def section(puzzle: str, name: str) -> str:
    """What the spec says after this word, up to the next word at the beginning of a line."""
    spec = ast.get_docstring(tree_of(PUZZLES / f"{puzzle}.py"), clean=False)
    found = re.search(rf"^{name} +(.+(?:\n +.+)*)", spec, re.MULTILINE)
    assert found, f"the spec of {puzzle} has no line {name}"
    return found[1]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_nothing_is_left_over(chapter):
    named = {puzzle for puzzle in LADDER if puzzle.startswith(f"{chapter}/")}
    for folder in (PUZZLES / chapter, SOLUTIONS / chapter):
        files = [path for path in folder.glob("*.py") if not path.name.startswith("test_")]
        assert {f"{chapter}/{path.stem}" for path in files} == named


@puzzles
def test_parts_are_there(puzzle):
    chapter, name = puzzle.split("/")
    assert callable(loader.load_reference(chapter, function_name(puzzle)))
    lesson = (PUZZLES / chapter / "README.md").read_text()
    assert re.search(rf"^\| *\[{name}\.py\]\({name}\.py\)", lesson, re.MULTILINE)


@puzzles
def test_every_kind_of_check(puzzle):
    assert ladder.checks_of(puzzle) == set(ladder.CHECKS)


@puzzles
def test_one_signature(puzzle):
    function = function_name(puzzle)
    stub = functions(PUZZLES / f"{puzzle}.py")[function]
    solution = functions(SOLUTIONS / f"{puzzle}.py")[function]
    assert ast.unparse(stub.args) == ast.unparse(solution.args)
    assert ast.unparse(stub.returns) == ast.unparse(solution.returns)
    source = inspect.getsource(loader.load_reference(puzzle.split("/")[0], function))
    reference = ast.parse(source).body[0].args
    for argument in stub.args.args:
        argument.annotation = None
    assert ast.unparse(reference) == ast.unparse(stub.args)


@puzzles
def test_solution_fills_in_the_kernels_of_the_stub(puzzle):
    given, solved = kernels(PUZZLES / f"{puzzle}.py"), kernels(SOLUTIONS / f"{puzzle}.py")
    assert given
    for name, kernel in given.items():
        remaining = iter(parameters(solved[name]))
        assert all(parameter in remaining for parameter in parameters(kernel))


@stubs
def test_stub_holds_no_part_of_the_solution(puzzle):
    path = PUZZLES / f"{puzzle}.py"
    for kernel in kernels(path).values():
        assert ast.unparse(kernel.body) == "pass"
    used = {node.attr for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute)}
    assert not used & {"load", "store", "dot"}
    assert "TODO" in path.read_text()


@stubs
def test_stub_is_unsolved(puzzle):
    path = PUZZLES / f"{puzzle}.py"
    launcher = getattr(paths.load(path), function_name(puzzle))
    count = len(inspect.signature(launcher).parameters)
    with pytest.raises(NotImplementedError) as raised:
        launcher(*[None] * count)
    assert blame.is_unsolved(raised.value, path)


@puzzles
def test_spec(puzzle):
    for word in SPEC:
        assert section(puzzle, word)
    assert section(puzzle, "Run") == f"pytest {ladder.path_of_tests(puzzle).relative_to(ROOT)}"


@puzzles
def test_title_has_its_place_in_the_lesson(puzzle):
    chapter = puzzle.split("/")[0]
    place = [step for step in LADDER if step.startswith(f"{chapter}/")].index(puzzle) + 1
    assert title(PUZZLES / f"{puzzle}.py").startswith(f"{chapter[:2]}.{place}  ")


@stubs
def test_solution_has_the_title_of_the_stub(puzzle):
    stub, solution = PUZZLES / f"{puzzle}.py", SOLUTIONS / f"{puzzle}.py"
    assert title(solution) == f"{title(stub)}: one good answer."


@puzzles
def test_speed_bar_of_the_spec_is_the_one_of_the_test(puzzle):
    told = {float(number) for number in re.findall(r"at least ([\d.]+)x", section(puzzle, "Speed"))}
    tests = functions(ladder.path_of_tests(puzzle))
    demanded = {
        ast.literal_eval(keyword.value)
        for name, test in tests.items()
        if ladder.check_of(name) == "speedup"
        for keyword in ast.walk(test)
        if isinstance(keyword, ast.keyword) and keyword.arg == "at_least"
    }
    assert told == demanded


@puzzles
def test_mutants(puzzle):
    path = mutants.FOLDER / f"{puzzle.split('/')[0]}.toml"
    assert path.exists(), "tests/mutants has no file for the chapter"
    assert sum(mutant.puzzle == puzzle for mutant in mutants.read(path)) >= 6
