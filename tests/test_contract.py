"""What holds for every puzzle: its parts are all there, and say the same."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path

import pytest

from course import loader, paths
from course.desk import comparison, hints
from course.desk import stubs as kept
from course.paths import PRODUCTION, PUZZLES, ROOT, SOLUTIONS
from course.plugin import ladder
from course.proof import mutants, runner
from kernelgauge.core import blame

pytestmark = pytest.mark.proof

LADDER = ladder.ladder()
CHAPTERS = sorted({puzzle.split("/")[0] for puzzle in LADDER})
WORKED_EXAMPLES = {"01_pointwise/vector_copy"}
SPEC = ("Given", "Return", "New here", "Traffic", "Speed", "Run")
PRODUCTION_BLOCK = "\nProduction (puzzles/PRODUCTION.md says how) adds\n"
NATURAL = ROOT / "tests" / "alternatives" / "natural"

# How long a first level may be: its test file, and its spec between the title and Run, without
# empty lines.
MAX_LINES = 90
MAX_SPEC_LINES = 15

# How long a puzzle is said to take: estimates are no finer.
TIMES = [f"{minutes} min" for minutes in (10, 15, 20, 30, 45)] + [
    f"{hours} h" for hours in (1, 1.5, 2, 3, 4, 5, 6, 8)
]

puzzles = pytest.mark.parametrize("puzzle", LADDER)
# Kernels that a stub gives whole, because what is new in the puzzle is something else.
GIVEN = {"01_pointwise/relu": {"relu_kernel"}, "12_transformer/train_step": {"matmul_kernel"}}
# Their stubs are whole but for three gaps in the kernel.
WITH_GAPS = ["01_pointwise/square"]
with_gaps = pytest.mark.parametrize("puzzle", WITH_GAPS)
# Their stubs are whole kernels with one fault, which is the first mutant of their solution.
DEBUGGING = ("08_debugging/", "19_gluon/sigmoid_attention")
PLANTED = [p for p in LADDER if p.startswith(DEBUGGING)]
planted = pytest.mark.parametrize("puzzle", PLANTED)
stubs = pytest.mark.parametrize("puzzle", [p for p in LADDER if p not in WORKED_EXAMPLES])
empty_stubs = pytest.mark.parametrize(
    "puzzle", [p for p in LADDER if p not in (*WORKED_EXAMPLES, *PLANTED, *WITH_GAPS)]
)


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def function_name(puzzle: str) -> str:
    return runner.module_of(puzzle).puzzle.name


def functions(path: Path) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in tree_of(path).body if isinstance(node, ast.FunctionDef)}


def kernels(path: Path) -> dict[str, ast.FunctionDef]:
    return {
        name: node
        for name, node in functions(path).items()
        if any(
            ast.unparse(it).startswith(("triton.jit", "gluon.jit")) for it in node.decorator_list
        )
    }


def parameters(function: ast.FunctionDef) -> list[str]:
    return [ast.unparse(argument) for argument in function.args.args]


def title(path: Path) -> str:
    return ast.get_docstring(tree_of(path)).splitlines()[0]


def spec(puzzle: str) -> str:
    return ast.get_docstring(tree_of(PUZZLES / f"{puzzle}.py"), clean=False)


def section(text: str, name: str) -> str:
    """What a spec says after this word, up to the next word at the beginning of a line."""
    found = re.search(rf"^{name} +(.+(?:\n +.+)*)", text, re.MULTILINE)
    return found[1] if found else ""


def mutants_of(puzzle: str) -> list[mutants.Mutant]:
    path = mutants.FOLDER / f"{puzzle.split('/')[0]}.toml"
    return [mutant for mutant in mutants.read(path) if mutant.puzzle == puzzle]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_nothing_is_left_over(chapter):
    named = {puzzle for puzzle in LADDER if puzzle.startswith(f"{chapter}/")}
    for folder in (PUZZLES / chapter, SOLUTIONS / chapter, kept.STUBS / chapter):
        files = [path for path in folder.glob("*.py") if not path.name.startswith("test_")]
        assert {f"{chapter}/{path.stem}" for path in files} == named


@puzzles
def test_parts_are_there(puzzle):
    """The steps of CONTRIBUTING.md, one by one: the first that fails is the next to do."""
    chapter, name = puzzle.split("/")
    for path, what in (
        (SOLUTIONS / f"{puzzle}.py", "our solution"),
        (kept.STUBS / f"{puzzle}.py", f"a copy of puzzles/{puzzle}.py, which --reset brings back"),
        (ladder.path_of_tests(puzzle), "the tests of the first level"),
        (ladder.path_of_tests(puzzle, PRODUCTION), "the tests in production"),
        (NATURAL / f"{puzzle}.py", "a natural right kernel, built otherwise than our solution"),
        (mutants.FOLDER / f"{chapter}.toml", "wrong versions of the solutions"),
    ):
        assert path.exists(), f"{puzzle} lacks {path.relative_to(ROOT)}, {what}"
    assert callable(loader.load_reference(chapter, function_name(puzzle)))
    lesson = (PUZZLES / chapter / "README.md").read_text()
    row = re.search(rf"^\| *\[{name}\.py\]\({name}\.py\)", lesson, re.MULTILINE)
    assert row, f"the table in the lesson of {chapter} has no row for [{name}.py]({name}.py)"


@puzzles
def test_the_lesson_says_how_long_it_takes_and_how_hard_it_is(puzzle):
    time, difficulty = ladder.effort_of(puzzle)
    assert difficulty in ladder.DIFFICULTIES
    assert time in TIMES


@stubs
def test_three_hints(puzzle):
    kinds = [hint.kind for hint in hints.hints_of(puzzle)]
    assert kinds == ["a question", "the idea", "the line of thought"]


@puzzles
def test_stub_is_kept_as_it_came(puzzle):
    """--reset brings it back from there. After a change: cp puzzles/X.py reference/stubs/X.py"""
    assert (kept.STUBS / f"{puzzle}.py").read_text() == (PUZZLES / f"{puzzle}.py").read_text()


@puzzles
def test_no_name_of_the_standard_library(puzzle):
    """Run from its folder, a file of such a name would be imported in place of Python's own."""
    assert puzzle.split("/")[1] not in sys.stdlib_module_names


@puzzles
def test_every_kind_of_check(puzzle):
    assert ladder.checks_of(puzzle) == set(ladder.CHECKS)


@puzzles
def test_production_asks_for_the_speed_of_our_solution(puzzle):
    assert "speedup" in ladder.checks_of(puzzle, PRODUCTION)


@puzzles
def test_first_level_is_read_in_one_sitting(puzzle):
    assert len(ladder.path_of_tests(puzzle).read_text().splitlines()) <= MAX_LINES


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
    empty = {name: it for name, it in given.items() if name not in GIVEN.get(puzzle, ())}
    for name, kernel in empty.items():
        remaining = iter(parameters(solved[name]))
        assert all(parameter in remaining for parameter in parameters(kernel))


@empty_stubs
def test_stub_holds_no_part_of_the_solution(puzzle):
    path, tree = PUZZLES / f"{puzzle}.py", tree_of(PUZZLES / f"{puzzle}.py")
    given = GIVEN.get(puzzle, set())
    assert given <= kernels(path).keys()
    for name, kernel in kernels(path).items():
        assert name in given or ast.unparse(kernel.body) == "pass"
    tree.body = [node for node in tree.body if getattr(node, "name", "") not in given]
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not used & {"load", "store", "dot"}
    assert "TODO" in path.read_text()


@empty_stubs
def test_stub_is_unsolved(puzzle):
    path = PUZZLES / f"{puzzle}.py"
    launcher = getattr(paths.load(path), function_name(puzzle))
    count = len(inspect.signature(launcher).parameters)
    with pytest.raises(NotImplementedError) as raised:
        launcher(*[None] * count)
    assert blame.is_unsolved(raised.value, path)


@with_gaps
def test_each_gap_says_what_to_write(puzzle):
    path = PUZZLES / f"{puzzle}.py"
    lines, gaps = path.read_text().splitlines(), loader.gaps(path)
    assert [lines[gap - 2].split(":")[0].strip() for gap in gaps] == [
        f"# TODO, gap {number}" for number in (1, 2, 3)
    ]


@pytest.mark.parametrize("puzzle", [*WITH_GAPS, "01_pointwise/relu"])
def test_natural_answer_keeps_what_the_stub_gives(puzzle):
    """It is solved, as tests/test_other_answers.py shows, and so what is given is right."""
    natural = functions(NATURAL / f"{puzzle}.py")
    gaps = loader.gaps(PUZZLES / f"{puzzle}.py")
    for name, given in functions(PUZZLES / f"{puzzle}.py").items():
        if "NotImplementedError" not in ast.unparse(given):
            for ours, theirs in zip(given.body, natural[name].body, strict=True):
                assert ours.lineno in gaps or ast.unparse(ours) == ast.unparse(theirs)


def undocumented(source: str) -> str:
    """What a file does, without docstrings, comments and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.unparse(tree)


@planted
def test_stub_is_the_solution_with_one_fault(puzzle):
    first, *others = mutants_of(puzzle)
    assert first.name == "planted"
    assert len(others) >= 5, "a planted fault needs wrong ways to fix it among the mutants"
    assert undocumented((PUZZLES / f"{puzzle}.py").read_text()) == undocumented(first.source())


@pytest.mark.parametrize("level", ladder.LEVELS)
@puzzles
def test_causes_are_named_but_where_debugging_is_learnt(puzzle, level):
    assert runner.module_of(puzzle, level).puzzle.names_causes == (puzzle not in PLANTED)


@puzzles
def test_spec(puzzle):
    solved, _, production = spec(puzzle).partition(PRODUCTION_BLOCK)
    assert production, f"the spec of {puzzle} has no line {PRODUCTION_BLOCK.strip()!r}"
    for part, level, words in (
        (solved, ladder.SOLVED, (*SPEC, "Report") if puzzle in PLANTED else SPEC),
        (production, PRODUCTION, ("Speed", "Run")),
    ):
        for word in words:
            assert section(part, word), f"the spec of {puzzle} has no line {word}"
        tests = ladder.path_of_tests(puzzle, level).relative_to(ROOT)
        assert section(part, "Run") == f"pytest {tests}"
    _, *lines, _ = filter(None, solved.strip().splitlines())
    assert len(lines) <= MAX_SPEC_LINES


@puzzles
def test_title_has_its_place_in_the_lesson(puzzle):
    chapter = puzzle.split("/")[0]
    place = [step for step in LADDER if step.startswith(f"{chapter}/")].index(puzzle) + 1
    assert title(PUZZLES / f"{puzzle}.py").startswith(f"{chapter[:2]}.{place}  ")


@stubs
def test_solution_has_the_title_of_the_stub(puzzle):
    stub, solution = PUZZLES / f"{puzzle}.py", SOLUTIONS / f"{puzzle}.py"
    assert title(solution) == f"{title(stub)}: one good answer."


@stubs
def test_solution_says_in_a_few_sentences_what_it_does_differently(puzzle):
    """For --compare, which a learner reads before our kernel, or instead of it."""
    text = comparison.difference_of(puzzle)
    assert 2 <= len(re.findall(r"[.!?](?: |$)", text)) <= 4
    assert len(text) <= 500


@puzzles
def test_speed_bars_of_the_spec_are_those_of_the_tests(puzzle):
    solved, _, production = spec(puzzle).partition(PRODUCTION_BLOCK)
    for part, level in ((solved, ladder.SOLVED), (production, PRODUCTION)):
        said = {
            float(number) for number in re.findall(r"at least ([\d.]+)x", section(part, "Speed"))
        }
        asked = {
            ast.literal_eval(keyword.value)
            for name, test in functions(ladder.path_of_tests(puzzle, level)).items()
            if ladder.check_of(name) == "speedup"
            for keyword in ast.walk(test)
            if isinstance(keyword, ast.keyword) and keyword.arg == "at_least"
        }
        assert said == asked


@puzzles
def test_mutants(puzzle):
    assert len(mutants_of(puzzle)) >= 6
