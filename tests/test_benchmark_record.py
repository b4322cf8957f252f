"""The record of a GPU: the right rows and peers, and the text above it kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course.benchmark import record, tables
from course.benchmark.tables import Row
from course.paths import ROOT
from tests.simulated_limits import H200


def row(contestant, ms, puzzle="04_softmax/softmax", size="64 x 32", dtype="float32", note=""):
    return Row(
        date="2026-11-21",
        device=H200.name,
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
    text = record.summarize(ROWS, [H200])
    assert (
        "Measured on 2026-11-21 by `python -m course.benchmark`: NVIDIA H200, torch 2.13.0" in text
    )
    limits = (
        "copy 4.28 TB/s read plus written; matmul float16 700 TFLOP/s, bfloat16 700 TFLOP/s, "
        "float32 50 TFLOP/s, tf32 350 TFLOP/s, int8 1.4 PFLOP/s, float8_e4m3fn 1.29 PFLOP/s."
    )
    assert limits in text
    assert text.count("\n| ") == 2
    measured = "0.25 | 3 TB/s | 80 % of copy bandwidth | 4.00 | 0.80 | fast"
    assert f"| softmax | float32 | 64 x 32 | {measured} |\n" in text


def test_limits_of_several_runs_are_a_range():
    text = record.summarize(ROWS, [H200, replace(H200, copy=4.2e12)])
    assert "copy 4.2 TB/s to 4.28 TB/s read" in text


def test_the_best_peer_is_of_the_same_size_and_dtype():
    others = [row("fast", 0.01, size="8 x 8"), row("fast", 0.01, dtype="float16")]
    assert record.best_peer(ROWS[0], ROWS + others).ms == 0.2
    assert record.best_peer(ROWS[0], ROWS[:1] + others) is None


def test_rows_that_keep_up_with_the_best_peer_are_counted():
    others = [row("solution", 0.204, size="8 x 8"), row("fast", 0.2, size="8 x 8")]
    alone = [row("solution", 0.2, size="2 x 2")]
    other_chapter = [row(it, 0.2, puzzle="13_attention/dot") for it in ("solution", "fast")]
    text = record.summarize(record.merge([ROWS + others + alone + other_chapter]), [H200])
    assert (
        "Rows at 0.98 times the best peer's speed or more: 2 of 3 (1 of 2 in 04, 1 of 1 in 13)"
        in text
    )


def test_a_solution_that_could_not_run_says_why():
    text = record.summarize([row("solution", None, note="RuntimeError: a | b"), ROWS[1]], [H200])
    assert "| softmax | float32 | 64 x 32 | RuntimeError: a / b |  |  |  |  |  |" in text


def test_chapters_are_sorted_and_have_headings():
    later = row("solution", 1.0, puzzle="13_attention/grouped_query:causal")
    text = record.summarize(record.merge([[later], ROWS]), [H200])
    assert text.index("## 04_softmax") < text.index("## 13_attention")
    assert "| grouped_query:causal | float32 |" in text


def test_the_later_of_two_runs_counts():
    again = [row("solution", 0.5), row("solution", 0.6, dtype="float16")]
    merged = record.merge([ROWS, again])
    assert [(r.dtype, r.ms) for r in merged] == [("float32", 0.5), ("float16", 0.6)]


def test_the_text_above_the_mark_is_kept(tmp_path, capsys):
    tables.save(ROWS, H200, tmp_path / "run")
    file = tmp_path / "GPU.md"
    file.write_text("# By hand\n\nWords.\n")
    for _ in range(2):
        assert record.main([str(tmp_path / "run"), "--into", str(file)]) == 0
    text = file.read_text()
    assert text.startswith(f"# By hand\n\nWords.\n\n{record.MARK}\n\nMeasured on")
    assert text.count(record.MARK) == text.count("Measured on") == 1
    assert "1 rows in" in capsys.readouterr().out


def test_a_new_file_begins_with_a_title(tmp_path):
    tables.save(ROWS, H200, tmp_path)
    record.main([str(tmp_path), "--into", str(tmp_path / "new.md")])
    text = (tmp_path / "new.md").read_text()
    assert text.startswith(f"# Solutions on H200\n\n{record.MARK}\n")


@pytest.mark.parametrize(
    ("saved", "message"),
    [(None, "No such file"), ("{}", "another version"), ("not json", "Expecting value")],
    ids=["no_file", "another_version", "no_json"],
)
def test_a_folder_that_cannot_be_read_is_rejected(tmp_path, capsys, saved, message):
    if saved:
        (tmp_path / "peers.json").write_text(saved)
    with pytest.raises(SystemExit) as stopped:
        record.main([str(tmp_path), "--into", str(tmp_path / "new.md")])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new.md").exists()


def test_the_record_of_the_h200_can_be_written_again():
    assert record.MARK in (ROOT / "reference" / "H200.md").read_text()


def test_the_record_is_of_the_gpu_that_was_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(record, "ROOT", tmp_path)
    (tmp_path / "reference").mkdir()
    tables.save(ROWS, replace(H200, name="NVIDIA H100 80GB HBM3"), tmp_path / "run")
    assert record.main([str(tmp_path / "run")]) == 0
    text = (tmp_path / "reference" / "H100.md").read_text()
    assert text.startswith(f"# Solutions on H100\n\n{record.MARK}\n")


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("AMD Instinct MI300X", "Instinct-MI300X"),
        ("NVIDIA", "GPU"),
    ],
)
def test_the_name_of_a_record(device, name):
    assert record.short_name(device) == name


def test_a_record_is_of_one_gpu(tmp_path, capsys):
    tables.save(ROWS, H200, tmp_path / "a")
    tables.save(ROWS, replace(H200, name="NVIDIA L4"), tmp_path / "b")
    with pytest.raises(SystemExit):
        record.main([str(tmp_path / "a"), str(tmp_path / "b"), "--into", str(tmp_path / "new.md")])
    assert "a record is of one GPU" in capsys.readouterr().err


def test_records_beside_each_other_by_per_cent_of_each_limit(tmp_path, capsys):
    one = [row("solution", 0.25), row("solution", 0.4, size="8 x 8")]
    other = [replace(row("solution", 0.8), share=0.25)]
    for name, rows in (("H200", one), ("L4", other)):
        tables.save(rows, H200, tmp_path / name)
        record.main([str(tmp_path / name), "--into", str(tmp_path / f"{name}.md")])
    capsys.readouterr()
    files = [str(tmp_path / f"{name}.md") for name in ("H200", "L4")]
    assert record.main(["--beside", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| puzzle | dtype | sizes | % of H200 | % of L4 |"
    assert lines[2:] == ["| softmax | float32 | 64 x 32, 8 x 8 | 80, 50 | 25, - |"]


def test_folders_or_records_are_named(tmp_path):
    for arguments in ([], [str(tmp_path), "--beside", "H200.md"]):
        with pytest.raises(SystemExit):
            record.main(arguments)


def test_a_peer_that_does_other_work_is_named_and_does_not_count():
    other = replace(row("eager", 0.1), contestant="torch", other_work="reads a mask")
    rows = [*ROWS, other]
    assert record.best_peer(ROWS[0], rows).contestant == "fast"
    text = record.summarize(rows, [H200])
    assert "Peers that do other work do not count: torch of softmax reads a mask." in text


def test_the_clock_stands_beside_the_limits():
    held = replace(ROWS[0], mhz_low=1600, mhz_high=1900, held_back="power limit")
    free = replace(row("solution", 1.0, size="8 x 8"), mhz_low=1905, mhz_high=1980)
    text = record.summarize([held, free], [H200])
    assert (
        "read between the calls: 1600 to 1980 MHz; held back by power limit beside 1 of 2 rows."
        in text
    )
    assert "MHz" not in record.summarize(ROWS, [H200])
