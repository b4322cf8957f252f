"""Each kind of fault has its title, its rank, its page, and one wrong kernel that shows it.

tests/kinds.toml says what shows it.
"""

from __future__ import annotations

import ast
import contextlib
import re
import sys
from itertools import groupby
from types import SimpleNamespace

import pytest

from course.desk import faults
from course.inputs import randn
from course.paths import ROOT, SOLUTIONS
from course.plugin import desk, session
from course.proof import mutants, runner
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.speed import gpu, measure
from kernelgauge.speed.interval import Interval
from kernelgauge.speed.result import RaceResult
from kernelgauge.words.kinds import KINDS, ORDER

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SHOWN_BY = tomllib.loads((ROOT / "tests" / "kinds.toml").read_text())
HEADER = re.compile(r"# puzzle: (.+)\n# mode: (.+)\n")
LINKS = re.compile(r"\]\(([^)#\s]+)")
# A page is read while a kernel is being fixed.
SHORTEST, LONGEST = 15, 30
MAX_EXAMPLE_LINES = 4

kinds = pytest.mark.parametrize("kind", KINDS)


def page_of(kind: str) -> str:
    return faults.path_of(kind).read_text()


def mutant_of(kind: str) -> mutants.Mutant | None:
    """The mutant that shows a kind, None where something else does."""
    shown = SHOWN_BY[kind]
    if not isinstance(shown, str):
        return mutants.Mutant(name=kind, message="", **shown)
    if shown.endswith(".py") or "::" in shown:
        return None
    puzzle, _, name = shown.partition(".")
    file = mutants.FOLDER / f"{puzzle.partition('/')[0]}.toml"
    return next(it for it in mutants.read(file) if (it.puzzle, it.name) == (puzzle, name))


def test_every_kind_has_a_title_and_a_rank():
    assert [kind.id for kind in sorted(KINDS.values(), key=lambda it: ORDER[it.id])] == [*KINDS]
    titles = [faults.title_of(kind) for kind in KINDS]
    assert all(titles)
    assert len(set(titles)) == len(KINDS)
    groups = [group for group, _ in groupby(KINDS.values(), lambda kind: kind.group)]
    assert len(set(groups)) == len(groups), "the kinds of one group do not follow one another"


def test_there_is_a_page_for_every_kind_and_no_other():
    assert {path.stem for path in faults.FOLDER.glob("*.md")} == set(KINDS)


@kinds
def test_a_page_says_what_it_means_how_to_fix_and_find_it_and_where_the_lesson_is(kind):
    page = page_of(kind)
    assert page.partition("\n")[0] == f"# {kind}: {faults.title_of(kind)}"
    assert SHORTEST <= page.count("\n") <= LONGEST
    meaning, wrong, fixed, right, rest = faults.CODE.split(page)
    assert all(part.count("\n") <= MAX_EXAMPLE_LINES for part in (wrong, right))
    assert wrong != right
    paragraphs = [part.strip().split("\n\n") for part in (meaning, fixed, rest)]
    assert [len(it) for it in paragraphs] in ([2, 1, 2], [3, 1, 2])
    _, (how,), (find, lesson) = paragraphs
    assert how.startswith("Fixed")
    assert find.startswith("To find it: ")
    assert lesson.startswith("Lesson:")
    assert "/puzzles/" in LINKS.findall(lesson)[0]


@kinds
def test_a_page_is_text_in_a_terminal_whose_paths_can_be_opened(kind, monkeypatch):
    monkeypatch.chdir(ROOT)
    page = page_of(kind)
    shown = faults.shown(page.partition("\n")[2], 80)
    assert not re.search(r"```|\]\([^)]*\.md|<[a-z/]", shown)
    prose = faults.CODE.sub("", page)
    assert LINKS.findall(prose)
    for link in LINKS.findall(prose):
        path = (faults.FOLDER / link).resolve()
        assert path.is_file()
        assert f"({path.relative_to(ROOT)})" in shown


def test_what_explains_nothing_is_one_line():
    with pytest.raises(
        pytest.UsageError, match=r"rase is not a kind of fault: did you mean .*race"
    ):
        desk._explain(None, "rase")
    with pytest.raises(pytest.UsageError, match=r"^--explain: \? is not a kind of fault\. pytest"):
        desk._explain(None, "?")


def test_without_a_kind_all_are_listed_in_their_order():
    lines = []
    desk._explain(SimpleNamespace(line=lines.append), "")
    assert [line.split()[0] for line in lines if "  " in line] == [*KINDS]


def test_every_kind_is_shown_by_something_that_is_there():
    assert list(SHOWN_BY) == list(KINDS)
    for kind, shown in SHOWN_BY.items():
        if mutant := mutant_of(kind):
            mutant.source()
        elif shown.endswith(".py"):
            assert HEADER.match((ROOT / "tests" / shown).read_text()), shown
        else:
            file, _, test = shown.partition("::")
            tree = ast.parse((ROOT / file).read_text())
            assert test in {it.name for it in tree.body if isinstance(it, ast.FunctionDef)}, shown


@pytest.mark.proof
@pytest.mark.parametrize(
    "kind", [kind for kind, shown in SHOWN_BY.items() if "::" not in str(shown)]
)
def test_a_wrong_kernel_shows_its_kind(kind, tmp_path):
    if mutant := mutant_of(kind):
        if not mutant.seen_here:
            pytest.skip("seen elsewhere only, on a GPU or in the interpreter")
        puzzle, source = mutant.puzzle, mutant.source()
        cases = [it for it in runner.cases_of(puzzle, mutant.level) if mutant.concerns(it)]
    else:
        source = (ROOT / "tests" / SHOWN_BY[kind]).read_text()
        puzzle, mode = HEADER.match(source).groups()
        if mode not in ("both", "interpreter" if settings.interpreted else "gpu"):
            pytest.skip(f"noticed in this mode only: {mode}")
        cases = runner.cases_of(puzzle)
    with runner.graded(puzzle, source, tmp_path):
        fault = runner.first_fault(cases)
    assert fault, "no test fails"
    assert fault[1].fault.kind == kind, str(fault[1])


@pytest.mark.proof
def test_a_race_that_is_lost_is_too_slow(monkeypatch, tmp_path):
    def race(subject, reference, arguments, **options) -> RaceResult:
        half = Interval(2.0, 1.0, 0.5, 0.49, 0.51, settled=True)
        return RaceResult(half, at_least=1.0, scale=1.0, bound=None, calls=3, seconds=1.0)

    session.begin("a race")
    monkeypatch.setattr(gpu, "exclusive", contextlib.nullcontext)
    monkeypatch.setattr(gpu, "measured_limits", lambda: None)
    monkeypatch.setattr(measure, "race", race)
    puzzle = "01_pointwise/vector_copy"
    source = (SOLUTIONS / f"{puzzle}.py").read_text()
    with runner.graded(puzzle, source, tmp_path), pytest.raises(Wrong) as lost:
        runner.module_of(puzzle).puzzle.race(randn(500), at_least=1.0)
    assert lost.value.fault.kind == "too-slow", str(lost.value)
