"""The time line of a Gluon program: who waits for what, and what is under way."""

from __future__ import annotations

import pytest

from course import running
from course.observers import Drawing
from course.pictures import calls
from course.pictures.timeline import MAX_ROWS, timeline
from course.proof import runner
from kernelgauge.core.verdict import Wrong
from kernelgauge.memory.recording import Moment, Recording
from kernelgauge.memory.watch import Watch
from kernelgauge.words import message, say
from tests import synchronisation
from tests.launching import interpreted_only
from tests.test_gluon import KERNELS, load
from tests.test_pictures import boxes, words

# A copy into a ring of one slot, whose consumer waits for a phase that never ends.
MOMENTS = [
    Moment("wait", "producer", 1, "empty[0]", amount=1),
    Moment("goes on", "producer", 1, "empty[0]"),
    Moment("expect", "producer", 2, "full[0]", amount=64),
    Moment("copy", "producer", 3, number=7),
    Moment("writes", "producer", 3, "slots[0]", number=7),
    Moment("wait", "consumer", 4, "full[0]", amount=0),
    Moment("ends", "producer", 3, number=7),
    Moment("completes", "the kernel", 3, "full[0]", phases=1),
    Moment("goes on", "consumer", 4, "full[0]", phases=1),
    Moment("reads", "consumer", 5, "slots[0]"),
    Moment("wait", "consumer", 4, "full[0]", amount=1, phases=1),
]


def test_lines_and_what_lasts_from_one_to_another():
    picture = timeline("p", "f()", 3, MOMENTS, "every partition waits:\n  consumer waits")
    said = words(picture)
    lines = [it for it in said if it[0].isdigit() and " " in it]
    assert lines == [
        "1 wait empty[0] 1", "2 expect full[0] 64", "3 copy slots[0]", "4 wait full[0] 0",
        "3 copy ends", "5 load slots[0]", "4 wait full[0] 1",
    ]  # fmt: skip
    assert {"producer", "consumer", "empty", "full", "slots"} <= set(said)
    assert said[-5:-3] == ["every partition waits:", "  consumer waits"]
    ((_, top, _, row),) = [it for it in boxes(picture, "p0") if it[2] > 14]
    # The copy is under way from its line to that where it ends.
    assert row == pytest.approx(3 * 15)
    waits = sorted(boxes(picture, "hatch"), key=lambda it: it[1])
    assert [it[3] for it in waits] == pytest.approx([2 * 15, 15])
    assert waits[0][1] == pytest.approx(top + 15)
    # Phase 0 of `full` ends with the copy, and phase 1 begins in the line after.
    (odd,) = [it for it in boxes(picture, "p2") if it[2] > 14]
    assert (odd[1], odd[3]) == pytest.approx((top + 3 * 15, 2 * 15))


def test_only_the_last_lines_of_a_long_program_are_drawn():
    picture = timeline("p", "f()", 0, MOMENTS * 20)
    lines = [it for it in words(picture) if it[0].isdigit() and " " in it]
    assert len(lines) == MAX_ROWS
    assert f"The first {7 * 20 - MAX_ROWS} lines are left out." in picture.caption
    assert "red" not in picture.caption


def test_what_has_no_operations_has_no_time_line():
    assert timeline("p", "f()", 0, [it for it in MOMENTS if not it.number]) is None


@interpreted_only
def test_a_recorded_run_is_the_order_that_failed(tmp_path):
    find = "mbarrier.wait(full.index(slot), i // 2 & 1)\n        tile"
    source = KERNELS.read_text().replace(find, find.replace("// 2 ", ""))
    module = load(source, tmp_path / "wrong_gluon.py")

    def said(seed: int, record: Recording | None) -> str:
        with pytest.raises(Wrong) as wrong, Watch(order="shuffled", seed=seed, record=record):
            module.ring()
        return message(wrong.value.fault)

    records = [Recording() for _ in range(6)]
    found = [said(seed, record) for seed, record in enumerate(records)]
    assert found == [said(seed, None) for seed in range(6)]
    for record, fault in zip(records, found, strict=True):
        # What is wrong is the last thing that a partition did.
        last = next(it for it in reversed(record.moments) if it.did in ("wait", "reads"))
        assert (last.did == "wait") == ("every partition waits" in fault)
        assert last.about in fault


@interpreted_only
def test_the_order_of_the_check_that_failed_is_drawn(tmp_path, monkeypatch):
    drawing = Drawing()
    monkeypatch.setattr(running.current(), "observers", [drawing])
    (mutant,) = (
        it
        for it in synchronisation.mutants("barrier_ring")
        if "arrive" in it.call and it.edit == "before load"
    )
    puzzle = f"{synchronisation.CHAPTER}/barrier_ring"
    with runner.graded(puzzle, mutant.source, tmp_path):
        for case in (it for it in runner.cases_of(puzzle) if "other_orders" in it.test):
            drawing.begin()
            running.current().case = case.id
            with pytest.raises(Wrong) as wrong:
                case.function(**case.parameters)
            pictures = calls.draw(drawing.calls[-1])
            (picture,) = (it for it in pictures if it.kind == "timeline")
            red = " ".join(words(picture)).replace("  ", " ")
            assert say(wrong.value.fault.said[0])[:60] in red
