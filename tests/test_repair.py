"""Causes that are found by trial: single edits of the source that make wrong results right."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kernelgauge import words
from kernelgauge.core import paths
from kernelgauge.diagnosis import repair
from kernelgauge.diagnosis.edits import STORES, edits, reached
from kernelgauge.words.fault import Note

KINDS = {("f", name): ("float", ()) for name in ("x", "y", "eps", "n")}
KINDS["f", "mask"] = "bool", (8,)
KINDS |= {("f", name): ("integer", ()) for name in ("i", "j", "m")}


def texts_of(line: str) -> list[str]:
    """Return what is made of one line of a function, without blanks around it."""
    source = f"@jit\ndef f(x, y, eps, n):\n    {line}\n    return z\n"
    return [it.text.splitlines()[2].strip() for it in edits(source, ["f"], KINDS)]


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("z = load(x, mask=y, other=0.0)", 'z = load(x, mask=y, other=float("-inf"))'),
        ("z = tl.max(x, 1)", "z = tl.max(x, 0)"),
        ("z = tl.sum(x, axis=0)", "z = tl.sum(x, axis=1)"),
        ("z = tl.max(x)", "z = tl.max(x, axis=0)"),
        ("z = x < n", "z = x <= n"),
        ("z = x == n", "z = x != n"),
        ("z = 0.5 * x * y", "z = 0.5 * y * y"),
        ("z = x + y", "z = x"),
        ("z = (x + y) * n", "z = (x) * n"),
        ("z = x * (y + n)", "z = x * y + n"),
        ("z = x / (y + n)", "z = x / y + n"),
        ("z = (x + eps) / n", "z = x / n + eps"),
        ("z = x / n + eps", "z = (x + eps) / n"),
        ("z = tl.sqrt(x) + eps", "z = tl.sqrt(x + eps)"),
        ("z = tl.rsqrt(x + eps)", "z = tl.rsqrt(x) + eps"),
        ("z = tl.exp2(x)", "z = tl.exp(x)"),
        ("z = tl.minimum(-x, 10.0)", "z = -x"),
        ("z = tl.where(x > 0, x, 1.0) / n", "z = tl.where(x > 0, x / n, 1.0)"),
        ("z = x - y + f(x - y, 0.0)", "z = f(x - y, 0.0) + f(x - y, 0.0)"),
        ("z = tl.sum(x * y)", "z = tl.sum(tl.where(mask, x * y, 0.0))"),
        ("z = -x", "z = x"),
        ("z = 0.044 * x", "z = 0.088 * x"),
        ("z = x.to(y)", "z = x"),
        ("z += x", "z = x"),
        ("z = tl.max(x, axis=0)", "z = tl.sum(x, axis=0)"),
        ("z = i % m + x", "z = i // j + x"),
        ("z = i - m", "z = i - m - 1"),
        ("z = x < eps", "z = x < eps * n"),
        ("z = i < m", "z = i < 2 * m"),
        ("for z in range(i, j, m): pass", "for z in range(i, j, m * tl.num_programs(0)): pass"),
        ("z = tl.atomic_add(x, 1)", "z = tl.atomic_add(x, 1, mask=tl.program_id(1) == 0)"),
        ("z = tl.atomic_add(x, 1, m)", "z = tl.atomic_add(x, 1, m, mask=tl.program_id(2) == 0)"),
        ("z = f.atomic_add(x, mask=m)", "z = f.atomic_add(x, mask=m & (tl.program_id(1) == 0))"),
    ],
)  # fmt: skip
def test_edits(line, made):
    assert made in texts_of(line)


def test_every_text_is_made_once_and_differs():
    line = "z = (x + eps) / n * tl.where(x > 0, x, 1.0)"
    found = texts_of(line)
    assert len(found) == len(set(found))
    assert line not in found


def test_statements_change_places_where_one_needs_the_other():
    source = "@jit\ndef f(x):\n    m = x\n    m += 1\n    d = x - m\n    e = x\n"
    found = {it.text for it in edits(source, ["f"], {})}
    assert source.replace("m += 1\n    d = x - m", "d = x - m\n    m += 1") in found
    assert source.replace("d = x - m\n    e = x", "e = x\n    d = x - m") not in found


def test_tiles_of_a_launcher_stay():
    source = "def f(x):\n    block = 64\n    k[(n // block,)](x, block)\n"
    assert not [it for it in edits(source, ["f"], {}) if "block = 64" not in it.text]


PLACED = """@jit
def f(x_ptr, w_ptr, y_ptr, i, j, m):
    row = i * m
    channel = i % m
    x = tl.load(x_ptr + row)
    w = tl.load(w_ptr + row + channel)
    tl.store(y_ptr + j, x * w)
"""
POINTERS = {("f", name): ("pointer", ()) for name in ("x_ptr", "w_ptr", "y_ptr")}


@pytest.mark.parametrize(
    ("doubted", "first", "near"),
    [
        # The row places x, too.
        ({"w"}, {4, 6}, 1),
        ({"x", "w"}, {3, 4, 5, 6}, 1),
        (5, {3, 5}, 1),
        (STORES, {7}, 1),
        ((), set(), 0),
    ],
)
def test_what_may_place_an_access_in_doubt_is_edited_first(doubted, first, near):
    found = edits(PLACED, ["f"], KINDS | POINTERS, doubted)
    assert {it.lines[0] for it in found if it.places} == first
    assert found[0].places == near


def test_functions_that_kernels_call_are_edited():
    source = "def g():\n    pass\n\n\ndef h():\n    pass\n\n\ndef f():\n    g()\n"
    assert reached(source, ["f"]) == ["f", "g"]


@pytest.fixture
def found(tmp_path) -> Callable[..., Note | None]:
    """Look for the edit that makes a function return what it must for these numbers."""

    def find(code: str, must: Callable, wrong: list, right: list) -> Note | None:
        file = tmp_path / "subject.py"
        file.write_text("jit = lambda f: f\n\n\n" + code)

        def is_right(file: Path, *, given: tuple) -> bool:
            try:
                return abs(paths.load(file).f(*given) - must(*given)) < 1e-6
            finally:
                paths.discard(file)

        def case(given: tuple) -> repair.Case:
            check = partial(is_right, given=given)
            assert check(file) is (given in right)
            return repair.Case(file, ["f"], 1, check, check)

        return repair.find([*map(case, wrong)], [], [*map(case, right)])

    return find


NUMBERS = [(1.5, 2.0), (3.0, -0.5), (2.0, 7.0)]


def test_the_edit_that_makes_all_results_right_is_said(found):
    code = "@jit\ndef f(x, y):\n    v = x + y\n    return x * v\n"
    cause = found(code, lambda x, y: (x + y) * (x + y), NUMBERS, [(1.0, 0.0)])
    assert words.say(cause) == (
        "line 7, x * v: with v * v in its place the result is right, here and in both other wrong "
        "cases"
    )


def test_the_order_of_two_statements_is_said(found):
    code = "@jit\ndef f(x, y):\n    m = x\n    m += y\n    d = m * 3.5\n    return d + m\n"
    cause = found(code, lambda x, y: x * 3.5 + x + y, NUMBERS, [(1.0, 0.0)])
    assert words.say(cause) == (
        "line 8, d = m * 3.5: with it before line 7, m += y, the result is right, here and in both "
        "other wrong cases"
    )


def test_all_that_goes_on_by_another_number_than_the_loop_is_one_edit(found):
    code = """@jit
def f(x, y):
    n, total, p, q = 4, 0.0, 0.0, x
    for k in range(0, 12, n):
        total += p + y * q
        p += 3
        q += 3 * y
    return total
"""

    def must(x: float, y: float) -> float:
        return sum(4 * k + y * (x + 4 * k * y) for k in range(3))

    assert words.say(found(code, must, NUMBERS, [])) == (
        "the loop of line 7 is over tiles of n, but by lines 9 and 10 it goes on by 3: with n "
        "there the result is right, here and in both other wrong cases"
    )


def test_the_size_of_a_loops_tiles_may_be_given_by_name():
    code = "@jit\ndef f(x, K, B):\n    for k in range(cdiv(K, div=B)):\n        x += 32\n"
    assert all(it.said.id != "repaired-steps" for it in edits(code, ["f"], {}))


SUM = "@jit\ndef f(x, y):\n    return x + y\n"


def test_nothing_is_said_of_an_edit_that_leaves_a_case_wrong(found):
    assert found(SUM, lambda x, y: x * y if x < 3 else 0.1, NUMBERS, [(2.0, 2.0)]) is None


def test_nothing_is_said_of_an_edit_that_makes_a_right_case_wrong(found):
    assert found(SUM, lambda x, y: x * y, NUMBERS, [(2.0, 2.0)]) is not None
    assert found(SUM, lambda x, y: x + y if x == 9 else x * y, NUMBERS, [(9.0, 4.0)]) is None


def test_nothing_is_said_where_edits_in_two_places_are_right(found):
    code = "@jit\ndef f(x, y):\n    v = x * 0.3\n    w = v * y\n    return w * 0.3\n"
    assert found(code, lambda x, y: x * y * 0.3, NUMBERS, [(0.0, 4.0)]) is None


def test_nothing_is_said_of_an_unusual_edit_by_one_wrong_case(found):
    assert found(SUM, lambda x, y: x * y, NUMBERS[:1], [(2.0, 2.0), (0.0, 0.0)]) is None


def test_an_edit_that_never_ends_is_given_up(found):
    code = (
        "@jit\ndef f(x, y):\n    i = 0\n    while i < 3:\n        i += 1\n    v = x + y\n"
        "    return x * v\n"
    )
    cause = found(code, lambda x, y: (x + y) * (x + y), NUMBERS, [(1.0, 0.0)])
    assert words.say(cause).startswith("line 10, x * v: with v * v in its place")
