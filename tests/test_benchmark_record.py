"""The record of a GPU: right rows, right peers, and the text above it left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judge.benchmark import record as summary
from judge.benchmark import tables
from judge.benchmark.tables import Row
from judge.core.paths import ROOT
from judge.speed.roofline import Limits

LIMITS = Limits(
    name="Simulated",
    uuid="GPU-0",
    torch="2.13.0",
    multiprocessors=4,
    l2_bytes=10**6,
    copy=4e12,
    read=4e12,
    matmul={"float16": 700e12},
)


def row(contestant, ms, puzzle="04_softmax/softmax", size="64 x 32", dtype="float32", note=""):
    return Row(
        date="2026-11-21",
        device="Simulated",
        torch="2.13.0",
        triton="3.7.1",
        puzzle=puzzle,
        size=size,
        magnitude=2048,
        dtype=dtype,
        contestant=contestant,
        ms=ms,
        limit_ms=0.2,
        limit="copy bandwidth",
        share=ms and 0.2 / ms,
        rate="3 TB/s" if ms else None,
        to_eager=ms and 1.0 / ms,
        note=note,
    )


ROWS = [row("solution", 0.25), row("eager", 1.0), row("fast", 0.2), row("Liger", None, note="no")]


def test_a_row_for_each_solution():
    text = summary.summarize(ROWS, [LIMITS])
    assert "Measured on 2026-11-21 by `python -m judge.benchmark`: Simulated, torch 2.13.0" in text
    assert "copy 4 TB/s read plus written; matmul float16 700 TFLOP/s." in text
    assert text.count("\n| ") == 2
    measured = "0.25 | 3 TB/s | 80 % of copy bandwidth | 4.00 | 0.80 | fast"
    assert f"| softmax | float32 | 64 x 32 | {measured} |\n" in text


def test_limits_of_several_runs_are_a_range():
    text = summary.summarize(ROWS, [LIMITS, replace(LIMITS, copy=4.2e12)])
    assert "copy 4 TB/s to 4.2 TB/s read" in text


def test_the_best_peer_is_of_the_same_size_and_dtype():
    others = [row("fast", 0.01, size="8 x 8"), row("fast", 0.01, dtype="float16")]
    assert summary.best_peer(ROWS[0], ROWS + others).ms == 0.2
    assert summary.best_peer(ROWS[0], ROWS[:1] + others) is None


def test_a_solution_that_could_not_run_says_why():
    text = summary.summarize([row("solution", None, note="RuntimeError: a | b"), ROWS[1]], [LIMITS])
    assert "| softmax | float32 | 64 x 32 | RuntimeError: a / b |  |  |  |  |  |" in text


def test_chapters_are_in_order_and_headed():
    later = row("solution", 1.0, puzzle="13_attention/grouped_query:causal")
    text = summary.summarize(summary.merge([[later], ROWS]), [LIMITS])
    assert text.index("## 04_softmax") < text.index("## 13_attention")
    assert "| grouped_query:causal | float32 |" in text


def test_the_last_of_two_runs_counts():
    again = [row("solution", 0.5), row("solution", 0.6, dtype="float16")]
    merged = summary.merge([ROWS, again])
    assert [(r.dtype, r.ms) for r in merged] == [("float32", 0.5), ("float16", 0.6)]


def test_the_text_above_the_mark_is_kept(tmp_path, capsys):
    tables.save(ROWS, LIMITS, tmp_path / "run")
    record = tmp_path / "GPU.md"
    record.write_text("# By hand\n\nWords.\n")
    for _ in range(2):
        assert summary.main([str(tmp_path / "run"), "--into", str(record)]) == 0
    text = record.read_text()
    assert text.startswith(f"# By hand\n\nWords.\n\n{summary.MARK}\n\nMeasured on")
    assert text.count(summary.MARK) == text.count("Measured on") == 1
    assert "1 rows in" in capsys.readouterr().out


def test_a_new_file_begins_with_the_mark(tmp_path):
    tables.save(ROWS, LIMITS, tmp_path)
    summary.main([str(tmp_path), "--into", str(tmp_path / "new.md")])
    assert (tmp_path / "new.md").read_text().startswith(summary.MARK)


@pytest.mark.parametrize(
    ("saved", "message"),
    [(None, "No such file"), ("{}", "another version"), ("not json", "Expecting value")],
)
def test_what_cannot_be_read_is_said(tmp_path, capsys, saved, message):
    if saved:
        (tmp_path / "peers.json").write_text(saved)
    with pytest.raises(SystemExit) as stopped:
        summary.main([str(tmp_path), "--into", str(tmp_path / "new.md")])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new.md").exists()


def test_the_record_of_the_h200_can_be_written_again():
    assert summary.MARK in (ROOT / "reference" / "H200.md").read_text()
