"""Failures of a puzzle are told once a cause, what to fix first first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course.plugin import failures
from course.plugin.failures import Failure
from course.plugin.ladder import PRODUCTION, SOLVED

OUT_OF_BOUNDS = (
    "puzzles/04_softmax/softmax.py:{line}  tl.load(x_ptr + offs)\n"
    "program (0, 0, 0) reads x[{first}..1023] but x has {first} elements: 9 of 1024 lanes are "
    "out of bounds\n"
    "hint: mask with offs < N"
)
RACE = """puzzles/04_softmax/softmax.py:9  tl.store(y_ptr, y)
race: program (1, 0, 0) stores y[0]
hint: x"""
WRONG = (
    "puzzles/04_softmax/softmax.py: softmax(x: float32 (5, {size}))\n"
    "the result is wrong in 5 of 5 elements\n"
    "worst at [0, 1]: got 1, expected 2\n"
    "likely cause: {cause}"
)
BAD_INPUT = (
    "puzzles/04_softmax/softmax.py: softmax(x: float32 (5,)) must raise ValueError that names x"
)


class Terminal:
    """Keeps what is printed."""

    def __init__(self):
        self.lines: list[str] = []

    def section(self, title: str, sep: str, **_) -> None:
        self.lines.append(f"{sep * 3} {title}")

    def line(self, text: str, **_) -> None:
        self.lines.append(text)


def failed(*messages: str, printed: str = "") -> list[Failure]:
    return [
        Failure("04_softmax/softmax", SOLVED, f"test_masks[case{n}]", message, "t.py", n, printed)
        for n, message in enumerate(messages)
    ]


def written(found: list[Failure], verbosity: int = 0) -> list[str]:
    terminal = Terminal()
    failures.write(terminal, found, verbosity)
    return terminal.lines


def test_failures_with_one_cause_are_one_block():
    lines = written(failed(*(OUT_OF_BOUNDS.format(line=8, first=n) for n in (5, 700, 12))))
    assert [line for line in lines if line.startswith("___")] == ["___ softmax: a load outside x"]
    assert "reads x[5..1023]" in lines[2]
    assert lines[-2] == (
        "3 checks fail alike: test_masks[case0], test_masks[case1], test_masks[case2]"
    )
    assert lines[-1] == "run this one: pytest t.py -k 'test_masks and case0'"


def test_what_to_fix_first_comes_first_and_two_causes_are_shown():
    wrong = [WRONG.format(size=n, cause=cause) for n, cause in ((3, "a"), (4, "b"), (5, "a"))]
    lines = written(failed(BAD_INPUT, *wrong, RACE))
    titles = [line for line in lines if line.startswith("___")]
    assert titles == [
        "___ softmax: programs race for the same element",
        "___ softmax: a wrong result",
    ]
    rest = lines[lines.index("and after that:") + 1 :]
    assert rest[0] == "  a wrong result: test_masks[case2]"
    assert rest[1] == "  bad input is neither rejected nor answered: test_masks[case0]"
    assert "-v shows them in full" in rest[2]


CONFIRMED = (
    " (with this mistake, the reference gives exactly your result, and so it does in 2 other cases)"
)


@pytest.mark.parametrize(
    ("first", "told"), [("x is too slow", ": b"), (OUT_OF_BOUNDS.format(line=8, first=5), "")]
)
def test_the_list_names_a_cause_where_other_cases_confirm_it_and_no_access_went_astray(first, told):
    groups = [
        failed(message)
        for message in (
            first,
            WRONG.format(size=4, cause="b" + CONFIRMED),
            WRONG.format(size=5, cause="c"),
            WRONG.replace("got 1", "got nan").format(size=6, cause="d"),
        )
    ]
    astray = groups[0][0].is_of_memory
    listed = failures._listed(groups[1:], explained=not astray)
    assert list(listed) == list(
        dict.fromkeys(
            [f"a wrong result{told}", "a wrong result", "a wrong result, NaN or infinity"]
        )
    )


def test_verbose_shows_every_cause():
    wrong = [WRONG.format(size=n, cause=cause) for n, cause in enumerate("abcd")]
    lines = written(failed(*wrong), verbosity=1)
    assert sum(line.startswith("___") for line in lines) == 4


def test_bad_input_that_runs_out_of_bounds_has_the_cause_of_the_others():
    inside = f"{BAD_INPUT}; instead:\n{OUT_OF_BOUNDS.format(line=8, first=5)}"
    lines = written(failed(OUT_OF_BOUNDS.format(line=8, first=9), inside))
    assert "2 checks fail alike: test_masks[case0], test_masks[case1]" in lines


def test_a_long_map_is_left_to_the_verbose_run():
    message = WRONG.format(size=3, cause="a").replace(
        "worst", "map of the result\n" + "    ..xx\n" * 12 + "worst"
    )
    assert not any("..xx" in line for line in written(failed(message)))
    assert any("..xx" in line for line in written(failed(message), verbosity=1))


def test_what_the_case_printed_stands_below_its_message():
    lines = written(failed(RACE, printed="offs: [0 1]\n"))
    assert lines[-3:-1] == ["printed by this case:", "    offs: [0 1]"]


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ("a.py:3 did not return within 60 s", "it does not come to an end"),
        ("a.py:1  SyntaxError: invalid syntax", "the file is not valid Python"),
        ("a.py defines no function f: the tests call it", "the function is not there"),
        ("a.py:3  k does not compile for sm_80", "it does not compile for a GPU"),
        ("a.py:3  k does not fit for sm_80, sm_90\nit needs", "it does not fit on a GPU"),
        (
            "a.py: f: the result[4] was stored by no program: 1 of",
            "elements that no program stores",
        ),
        ("a.py:4  f uses torch's mul outside a kernel", "work outside the kernel"),
        ("x is read 2.0 times, the budget is 1", "more traffic than the spec allows"),
        ("a.py:9 in k: TypeError: no", "it raises TypeError"),
        ("a.py:9 in k: IntegerOverflow: 2 * 3", "an offset that does not fit 32 bits"),
        ("a.py: too slow: 0.1x", "too slow"),
        ("something new", "a check fails"),
    ],
)
def test_every_kind_has_a_title(message, title):
    (failure,) = failed(message)
    assert failure.kind[1] == title


@pytest.mark.parametrize(
    ("test", "command"),
    [
        ("test_masks", "pytest t.py -k test_masks"),
        ("test_masks[ragged]", "pytest t.py -k 'test_masks and ragged'"),
        ("test_masks[float16-ragged]", "pytest 't.py::test_masks[float16-ragged]'"),
    ],
)
def test_the_command_runs_this_case(test, command):
    assert Failure("a/b", SOLVED, test, "", "t.py", 0).command == command


def test_the_first_level_comes_before_production():
    wrong, *memory = failed(
        WRONG.format(size=5, cause="the mask is left out"), OUT_OF_BOUNDS.format(line=8, first=5)
    )
    found = failures.grouped([replace(memory[0], level=PRODUCTION), wrong])
    assert [group[0].level for group in found] == [SOLVED, PRODUCTION]


def test_what_compiler_and_interpreter_say_of_one_line_is_one_cause():
    hint = "hint: every side of a tile must be a power of two"
    found = failures.grouped(
        failed(
            f"t.py:11 in kernel: ValueError: arange's range must be a power of 2\n{hint}",
            f"t.py:11:34  kernel does not compile for sm_80\n{hint}",
        )
    )
    assert len(found) == 1
    assert found[0][0].kind[1] == failures.NOT_COMPILED


def test_the_second_cause_is_told_briefly():
    second = WRONG.format(size=5, cause="the mask is left out") + "\nwith the autotuner's kernel"
    lines = written(failed(OUT_OF_BOUNDS.format(line=8, first=5), second))
    told = lines[next(i for i, line in enumerate(lines) if "a wrong result" in line) + 1 :]
    assert told[:4] == second.splitlines()[:4]
    assert not told[4].startswith("with the autotuner")


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ("k spills registers to memory for sm_80\nbut the budget is 32", "it spills registers"),
        ("1 program does the work, but the spec asks for at least 9 programs", "too few programs"),
        ("the busiest program does 1.4 times as many, at most 1.1 are allowed", "the work is not"),
        ("3 of 9 programs neither load nor store, at most 0 may be without work", "programs with"),
        ("x is read 2.0 times, but the budget is 1", "more traffic"),
    ],
)
def test_budgets_have_titles_of_their_own(message, title):
    (failure,) = failed(message)
    assert failure.kind[1].startswith(title)
