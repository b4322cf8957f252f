"""Reports as a run makes them, for the tests of the page."""

from __future__ import annotations

from course.page import report as pages
from course.page.report import Cause, Check, Picture, Puzzle, Report
from kernelgauge.core.figure import Figure

HOSTILE = "<script>document.title = 'taken over'</script>\"'&"
MESSAGE = (
    f"swish.py:9  tl.load(x_ptr + offs)  {HOSTILE}\n"
    "program (0, 0, 0) reads x[1..1023] but x has 1 element\n"
    "map of where it is wrong:\n"
    "    ....xxxx....xxxx....xxxx....xxxx....xxxx....xxxx....xxxx....xxxx\n"
    "hint: mask with offs < N"
)
DRAWING = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 60" width="900" height="60">
<style>text, h1 { fill: red; color: red }</style><script>document.title = "drawn"</script>
<rect width="900" height="60" fill="#ccd"/><text x="9" y="30">tiles of c</text></svg>"""

CHAPTERS = {"01": "01 Pointwise: loads, stores, masks", "07": "07 Matmul: tiles and tensor cores"}


def check(test: str, verdict: str = "passed", message: str = "", level: str = "solved") -> Check:
    """A check of a kind that its name tells."""
    kind = test.partition("[")[0].removeprefix("test_").partition("_")[0]
    return Check(level, test, kind, verdict, message)


def puzzle(name: str, number: str, state: str, **parts) -> Puzzle:
    """A step of the ladder."""
    title = name.partition("/")[2].replace("_", " ").capitalize()
    return Puzzle(name, number, title, CHAPTERS[number[:2]], f"handed_in/{name}.py", state, **parts)


def solved(name: str, number: str) -> Puzzle:
    """A solved puzzle, whose production has a way to go, with what was measured of it."""
    traffic, race = check("test_traffic"), check("test_speedup")
    traffic.figures = [
        Figure("x read", 1.0, 1.0, "x"),
        Figure("allocated beside the results", 20480, 65536, "bytes"),
    ]
    race.figures = [
        Figure("speed-up over the reference", 3.25, 1.5, "x", at_least=True),
        Figure("time of yours", 0.361, unit="ms"),
    ]
    bad_input = check("test_shapes_bad_input", "wrong", "must raise ValueError", "production")
    return puzzle(
        name, number, pages.SOLVED, production=[1, 2],
        cells={"solved": {"shapes": "2/2", "masks": "1/1", "numerics": "4/4", "traffic": "1/1",
                          "compiles": "2/2", "speedup": "1/1"},
               "production": dict.fromkeys(("masks", "numerics", "traffic", "compiles", "speedup"),
                                           "-") | {"shapes": "1/2"}},
        checks=[check("test_shapes[one]"), traffic, race, bad_input],
        causes=[Cause("bad input is neither rejected nor handled", "bad-input", "production",
                      [bad_input.test], bad_input.message, "", "pytest a_test.py")],
        pictures=[Picture("tiles", "Tiles of c", "Each program stores one.", DRAWING)],
    )  # fmt: skip


def wrong(name: str, number: str) -> Puzzle:
    """A puzzle whose mask was forgotten, and that reads x twice."""
    tests = ["test_shapes[single_element]", *(f"test_masks[ragged-{n}]" for n in range(6))]
    failing = [check(test, "wrong", MESSAGE) for test in tests]
    traffic = check("test_traffic", "wrong", "x is read 2.0 times, but the budget is 1")
    traffic.figures = [Figure("x read", 2.0, 1.0, "x")]
    return puzzle(
        name, number, pages.WRONG,
        cells={"solved": {"shapes": "1/2", "masks": "0/6", "numerics": "-", "traffic": "0/1",
                          "compiles": "1/1", "speedup": "needs a GPU"}},
        checks=[*failing, traffic, check("test_compiles"),
                check("test_speedup", "not measured", "speed takes a GPU")],
        causes=[Cause("a load outside x", "out-of-bounds-load", "solved", tests, MESSAGE,
                      f"offs {HOSTILE}",
                      "pytest puzzles/01_pointwise/test_swish.py -k single_element"),
                Cause("more traffic than the spec allows", "too-much-traffic", "solved",
                      ["test_traffic"], traffic.message, "", "pytest b_test.py")],
    )  # fmt: skip


def not_started(name: str, number: str) -> Puzzle:
    """A puzzle in whose file nothing is written."""
    cells = {"solved": dict.fromkeys(
        ("shapes", "masks", "numerics", "traffic", "compiles", "speedup"), "0/1"
    )}  # fmt: skip
    return puzzle(
        name, number, pages.NOT_STARTED, cells=cells, checks=[check("test_masks", "unsolved")]
    )


def report(person: str, *kinds) -> Report:
    """A run of two chapters; kinds: what the first puzzles are, the others are not started."""
    names = [("01_pointwise/vector_copy", "01.1"), ("01_pointwise/swish", "01.2"),
             ("07_matmul/matvec", "07.1"), ("07_matmul/tiled", "07.2")]  # fmt: skip
    steps = [
        make(*name)
        for name, make in zip(names, [*kinds, *[not_started] * (4 - len(kinds))], strict=True)
    ]
    steps.append(puzzle("07_matmul/linear", "07.3", pages.NOT_GRADED))
    return Report(
        person,
        f"handed_in/{person}",
        "2026-11-23 17:30",
        "interpreter, CPU (no CUDA device); Python 3.11.7, torch 2.13.0, triton 3.7.1",
        "pytest puzzles --subject handed_in --page class.html",
        steps,
    )


def klass() -> list[Report]:
    """A class of four, of whom one could not be graded."""
    lost = Report(
        "dora", "handed_in/dora", "", "", "pytest", problem="not graded: pytest ended with status 3"
    )
    return [
        report("alice", solved, solved, solved, solved),
        report(f"bob {HOSTILE}", solved, wrong),
        report("carla"),
        lost,
    ]
