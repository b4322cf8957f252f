"""Failures of a puzzle are told once a cause, what to fix first first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course.challenge import broken_rule
from course.options import asked
from course.paths import ROOT
from course.plugin import failures
from course.plugin.failures import Failure
from course.plugin.ladder import PRODUCTION, SOLVED
from kernelgauge import words
from kernelgauge.core.settings import settings
from kernelgauge.words.fault import CONSISTENT, PROVEN, Call, Cause, Fault, Note, Place, note
from kernelgauge.words.kinds import KINDS

FILE = str(ROOT / "puzzles" / "04_softmax" / "softmax.py")
CALL = Call(FILE, "softmax", "x: float32 (5, 3)")


def said(*lines: str) -> tuple[Note, ...]:
    return tuple(note("text", text=line) for line in lines)


def out_of_bounds(first: int, line: int = 8) -> Fault:
    return Fault(
        "out-of-bounds-load",
        said(f"program (0, 0, 0) reads x[{first}..1023] but x has {first} elements"),
        place=Place(FILE, line, source="tl.load(x_ptr + offs)"),
        tensor="x",
        remedy=note("text", text="mask with offs < N"),
    )


def wrong(cause: str = "", *more: str, explains: int = 0, got: float = 1.0) -> Fault:
    known = PROVEN if explains else CONSISTENT
    why = Cause(note("text", text=cause), known, explains, explains) if cause else None
    lines = ("the result is wrong in 5 of 5 elements", f"worst at [0, 1]: got {got}, expected 2")
    numbers = {"got": got}
    return Fault("wrong-result", said(*lines, *more), call=CALL, cause=why, numbers=numbers)


RACE = Fault(
    "race", said("race: program (1, 0, 0) stores y[0]"), Place(FILE, 9, source="tl.store(y_ptr, y)")
)
BAD_INPUT = Fault("bad-input", said("must raise ValueError that names x"), call=CALL)


class Terminal:
    """Keeps what is printed."""

    def __init__(self):
        self.lines: list[str] = []

    def section(self, title: str, sep: str, **_) -> None:
        self.lines.append(f"{sep * 3} {title}")

    def line(self, text: str, **_) -> None:
        self.lines.append(text)


def failed(*faults: Fault, printed: str = "") -> list[Failure]:
    return [
        Failure(
            "04_softmax/softmax", SOLVED, f"test_masks[case{n}]", "t.py", n, failures.told(fault),
            printed,
        )
        for n, fault in enumerate(faults)
    ]  # fmt: skip


def written(found: list[Failure], verbosity: int = 0) -> list[str]:
    terminal = Terminal()
    failures.write(terminal, found, verbosity)
    return terminal.lines


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    monkeypatch.setattr(settings, "interpreted", True)


def test_failures_with_one_cause_are_one_block():
    lines = written(failed(*(out_of_bounds(first) for first in (5, 700, 12))))
    assert [line for line in lines if line.startswith("___")] == ["___ softmax: a load outside x"]
    assert "reads x[5..1023]" in lines[2]
    assert lines[-4:] == [
        "3 checks fail for this reason: test_masks[case0], test_masks[case1], test_masks[case2]",
        "run this one: pytest t.py -k 'test_masks and case0'",
        "draw it: pytest t.py --pictures out",
        "what it means: pytest --explain out-of-bounds-load",
    ]


def test_the_command_that_draws_is_told_of_what_can_be_seen_and_is_not_drawn_yet(monkeypatch):
    drawn = "draw it: pytest t.py --pictures out"
    partitions = Fault("deadlock", (note("partitions-wait", waits=(), ended=()),))
    programs = Fault("deadlock", (note("waits-forever", program=(0, 0, 0)),))
    seen = (wrong(), True), (RACE, True), (partitions, True), (programs, False), (BAD_INPUT, False)
    for fault, sees in seen:
        assert (drawn in written(failed(fault))) == sees
    # Of the first cause alone: that is what is drawn.
    assert written(failed(out_of_bounds(5), RACE)).count(drawn) == 1
    monkeypatch.setattr(asked, "draws", True)
    assert drawn not in written(failed(RACE))
    monkeypatch.setattr(asked, "draws", False)
    monkeypatch.setattr(settings, "interpreted", False)
    assert drawn not in written(failed(RACE))


def test_what_to_fix_first_comes_first_and_two_causes_are_shown():
    lines = written(failed(BAD_INPUT, wrong("a"), wrong("b"), wrong("a"), RACE))
    titles = [line for line in lines if line.startswith("___")]
    assert titles == [
        "___ softmax: programs race for the same element",
        "___ softmax: a wrong result",
    ]
    rest = lines[lines.index("and after that:") + 1 :]
    assert rest[0] == "  a wrong result: test_masks[case2]"
    assert rest[1] == "  bad input is neither rejected nor handled: test_masks[case0]"
    assert "-v shows them in full" in rest[2]


@pytest.mark.parametrize(("first", "said_too"), [(BAD_INPUT, ": b"), (out_of_bounds(5), "")])
def test_the_list_names_a_cause_where_other_cases_confirm_it_and_no_access_went_astray(
    first, said_too
):
    faults = [first, wrong("b", explains=3), wrong("c"), wrong("d", got=float("nan"))]
    groups = [failed(fault) for fault in faults]
    listed = failures._listed(groups[1:], explained=not groups[0][0].is_of_memory)
    titles = [f"a wrong result{said_too}", "a wrong result", "a wrong result, NaN or infinity"]
    assert list(listed) == list(dict.fromkeys(titles))


@pytest.mark.parametrize(("explains", "said_too"), [(3, ": b"), (2, "")])
def test_the_list_names_no_cause_where_more_cases_have_none(explains, said_too):
    groups = [failed(fault) for fault in (wrong("b", explains=explains), *map(wrong, "cde"))]
    assert next(iter(failures._listed(groups, explained=True))) == f"a wrong result{said_too}"


def test_verbose_shows_every_cause():
    lines = written(failed(*(wrong(cause) for cause in "abcd")), verbosity=1)
    assert sum(line.startswith("___") for line in lines) == 4


def test_bad_input_that_runs_out_of_bounds_has_the_cause_of_the_others():
    lines = written(failed(out_of_bounds(9), BAD_INPUT.but(instead=out_of_bounds(5))))
    assert "2 checks fail for this reason: test_masks[case0], test_masks[case1]" in lines


def test_a_result_that_is_wrong_instead_of_an_error_is_bad_input():
    (failure,) = failed(BAD_INPUT.but(instead=wrong("b")))
    assert failure.kind == "bad-input"
    assert failure.message.splitlines()[1] == "must raise ValueError that names x"
    assert failure.message.endswith("likely cause: b")


def test_a_long_map_is_left_to_the_verbose_run():
    drawn = note("text", text="map of the result\n" + "    ..xx\n" * 12)
    fault = wrong("a").but(said=(*wrong().said, Note("map", drawn.values)))
    told = failures.told(fault.but(said=wrong().said))
    told["parts"].insert(3, ["map", words.say(drawn)])
    (failure,) = (replace(it, told=told) for it in failed(wrong("a")))
    assert not any("..xx" in line for line in written([failure]))
    assert any("..xx" in line for line in written([failure], verbosity=1))


def test_what_the_case_printed_stands_below_its_message():
    lines = written(failed(RACE, printed="offs: [0 1]\n"))
    assert lines[-5:-3] == ["printed by this case:", "    offs: [0 1]"]


def test_words_of_a_learner_choose_no_title():
    """Titles were once found by regular expressions over messages."""
    text = "ValueError: N=5 does not compile well, and crashed the process"
    (failure,) = failed(Fault("raises", (note("text", text=text, error="ValueError"),)))
    assert failure.title == "it raises ValueError"


@pytest.mark.parametrize(
    ("test", "command"),
    [
        ("test_masks", "pytest t.py -k test_masks"),
        ("test_masks[ragged]", "pytest t.py -k 'test_masks and ragged'"),
        ("test_masks[float16-ragged]", "pytest 't.py::test_masks[float16-ragged]'"),
    ],
)
def test_the_command_runs_this_case(test, command):
    assert Failure("a/b", SOLVED, test, "t.py", 0).command == command


def test_the_first_level_comes_before_production():
    first, memory = failed(wrong("the mask is left out"), out_of_bounds(5))
    found = failures.grouped([replace(memory, level=PRODUCTION), first])
    assert [group[0].level for group in found] == [SOLVED, PRODUCTION]


def test_production_is_no_second_block_while_the_first_level_fails():
    first, memory = failed(wrong("the mask is left out"), out_of_bounds(5))
    lines = written([first, replace(memory, level=PRODUCTION)])
    assert [it for it in lines if it.startswith("___")] == ["___ softmax: a wrong result"]
    assert "  a load outside x: test_masks[case1]" in lines
    alone = written([replace(it, level=PRODUCTION) for it in (first, memory)])
    assert sum(it.startswith("___") for it in alone) == 2


def test_broken_rules_of_honesty_come_before_what_does_not_compile():
    wide, torch = Fault("not-compiled", said("too wide")), Fault("outside-kernel", said("uses add"))
    assert written(failed(wide, torch))[0] == "___ softmax: what a launcher may not do"


def test_what_compiler_and_interpreter_say_of_one_line_is_one_cause():
    rejected, remedy = note("text", text="a power of 2", error="ValueError"), note("text", text="b")
    found = failures.grouped(
        failed(
            Fault("raises", (rejected,), Place(FILE, 11), remedy=remedy),
            Fault("not-compiled", (rejected,), Place(FILE, 11, 34), remedy=remedy),
        )
    )
    assert len(found) == 1
    assert found[0][0].kind == "not-compiled"


def test_two_rules_of_one_puzzle_are_two_causes():
    told = [("the grid is (3, 1, 1)", "see Tiles"), ("the grid is (4, 1, 1)", "see Tiles")]
    told += [("a gradient changes", ""), ("no gradient", "")]
    found = failures.grouped(failed(*(broken_rule(*it).fault for it in told)))
    assert [len(group) for group in found] == [2, 1, 1]
    assert found[0][0].message == "the grid is (3, 1, 1)\nhint: see Tiles"
    assert found[0][0].title == "a rule of the spec is broken"


def test_the_second_cause_is_told_briefly():
    lines = written(failed(out_of_bounds(5), wrong("the mask is left out", "with the kernel")))
    told = lines[lines.index("___ softmax: a wrong result") + 1 :]
    assert told[3] == "likely cause: the mask is left out"
    assert not any("with the kernel" in line for line in told)


def test_kinds_come_in_the_order_in_which_to_fix_them():
    assert list(KINDS).index("out-of-bounds-load") < list(KINDS).index("wrong-result")
    assert list(KINDS).index("wrong-result") < list(KINDS).index("too-slow")


def test_a_cause_that_is_withheld_is_in_the_data_and_not_on_the_screen():
    shown = written(
        [
            Failure(
                "08_debugging/entropy",
                SOLVED,
                "test_masks",
                "t.py",
                0,
                failures.told(out_of_bounds(5), withheld=True),
            )
        ]
    )
    assert shown[0] == "___ entropy: a load outside x"
    assert shown[3:] == [
        "run this one: pytest t.py -k test_masks",
        "look inside, with print() or breakpoint() in the kernel: TRITON_INTERPRET=1 pytest t.py "
        "-k test_masks -x -s",
        "draw it: pytest puzzles/08_debugging/entropy.py --pictures out",
        "get nearer to the cause, a step at a time: pytest puzzles/08_debugging/entropy.py --hint",
    ]
    assert failures.told(out_of_bounds(5), withheld=True)["fault"]["remedy"]


def test_a_remedy_that_is_about_the_run_is_not_withheld():
    fault = Fault("endless", said("did not return"), call=CALL, remedy=note("end-every-loop"))
    assert failures.told(fault, withheld=True) == failures.told(fault) | {"withheld": True}
