"""Hints, stubs as they came, and comparisons, without starting pytest."""

from __future__ import annotations

import contextlib
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest

from course import observers, running
from course.desk import comparison, hints, stubs
from course.inputs import randn
from course.observers import Comparing, Racing
from course.options import asked
from course.paths import PUZZLES, ROOT
from course.plugin import desk
from course.plugin.listing import state
from course.plugin.progress import Progress
from course.proof import runner
from kernelgauge import kernel
from kernelgauge.compilation.ahead_of_time import Compiled
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.speed.interval import Interval
from kernelgauge.speed.result import RaceResult
from kernelgauge.speed.roofline import Bound
from tests.simulated_limits import H200

TODAY = date(2026, 11, 23)
PUZZLE = "01_pointwise/swish"


@pytest.fixture
def file(monkeypatch, tmp_path) -> Path:
    """A learner's file, and its stub as it came."""
    for folder in ("puzzles", "stubs"):
        (tmp_path / folder / "01_pointwise").mkdir(parents=True)
    monkeypatch.setattr(stubs, "PUZZLES", tmp_path / "puzzles")
    monkeypatch.setattr(stubs, "STUBS", tmp_path / "stubs")
    (tmp_path / "stubs" / f"{PUZZLE}.py").write_text("stub")
    path = tmp_path / "puzzles" / f"{PUZZLE}.py"
    path.write_text("mine")
    return path


def beside(file: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in file.parent.iterdir()}


def test_reset_keeps_every_version(file):
    stubs.reset(PUZZLE, TODAY)
    for text in ("second", "third"):
        file.write_text(text)
        stubs.reset(PUZZLE, TODAY)
    assert beside(file) == {
        "swish.py": "stub",
        "swish.py.2026-11-23": "mine",
        "swish.py.2026-11-23.2": "second",
        "swish.py.2026-11-23.3": "third",
    }


def test_reset_of_a_stub_leaves_nothing_behind(file):
    file.write_text("stub")
    assert stubs.is_untouched(PUZZLE)
    assert stubs.reset(PUZZLE, TODAY) is None
    assert beside(file) == {"swish.py": "stub"}


def test_reset_brings_a_deleted_file_back(file):
    file.unlink()
    assert stubs.reset(PUZZLE, TODAY) is None
    assert beside(file) == {"swish.py": "stub"}


def test_reset_without_a_stub_changes_nothing(file):
    (stubs.STUBS / f"{PUZZLE}.py").unlink()
    with pytest.raises(FileNotFoundError):
        stubs.reset(PUZZLE, TODAY)
    assert beside(file) == {"swish.py": "mine"}


def test_reset_in_a_folder_that_cannot_be_written_changes_nothing(file, monkeypatch):
    def refuse(path, mode="r", *rest, **options):
        if "x" in mode:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, mode, *rest, **options)

    opened = Path.open
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(PermissionError):
        stubs.reset(PUZZLE, TODAY)
    assert beside(file) == {"swish.py": "mine"}


def test_reset_on_a_full_disk_has_kept_the_file(file, monkeypatch):
    def refuse(path, data):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(OSError, match="No space left"):
        stubs.reset(PUZZLE, TODAY)
    assert beside(file)["swish.py.2026-11-23"] == "mine"


def test_a_reset_that_fails_is_one_line_that_names_the_file(monkeypatch):
    def refuse(puzzle, today):
        raise PermissionError(13, "Permission denied", str(PUZZLES / f"{PUZZLE}.py.2026-11-23"))

    monkeypatch.setattr(desk.stubs, "is_untouched", lambda puzzle: False)
    monkeypatch.setattr(desk.stubs, "reset", refuse)
    with pytest.raises(pytest.UsageError, match=r"Permission denied: .*swish\.py\.2026-11-23$"):
        desk._reset(None, PUZZLE)


def test_hints_are_those_of_the_lesson_in_their_order():
    found = hints.hints_of("07_matmul/tiled")
    assert [hint.kind for hint in found] == ["a question", "the idea", "the line of thought"]
    assert found[0].text.startswith("M = 67, N = 35, K = 131, tiles of 32. How many programs")
    assert "<" not in "".join(hint.text for hint in found)
    lesson = (PUZZLES / "07_matmul" / "README.md").read_text().splitlines()
    assert all(f"tiled: {hint.kind}" in lesson[hint.line - 1] for hint in found)
    assert lesson[hints.idea_of("07_matmul/tiled") - 1] == "## The idea"


def typed(**given: bool) -> SimpleNamespace:
    names = dict.fromkeys((*desk.OPTIONS, *desk.OTHERS), False)
    return SimpleNamespace(**names | given)


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("list", "hint", False),
        ("reset", "show_solution", False),
        ("compare", "solutions", False),
        ("show_solution", "subject", False),
        ("list", "proof", False),
        ("hint", "pictures", False),
        ("watch", "pictures", False),
        ("tries", "pictures", False),
        ("pictures", "subject", True),
        ("compare", "pictures", True),
        ("compare", "show_solution", True),
        ("compare", "subject", True),
        ("solutions", "proof", True),
    ],
)
def test_options_that_contradict_each_other(one, other, together):
    given = typed(**{one: True, other: True})
    if together:
        desk.check(given)
        return
    flag = desk.FLAGS.get(one, f"--{one}")
    with pytest.raises(pytest.UsageError, match=rf"{flag} and --.* do not go"):
        desk.check(given)


@pytest.mark.parametrize(
    ("path", "puzzles"),
    [
        ("puzzles/07_matmul/tiled.py", ["07_matmul/tiled"]),
        ("puzzles/07_matmul/test_tiled.py", ["07_matmul/tiled"]),
        ("puzzles/07_matmul/production/test_tiled.py", ["07_matmul/tiled"]),
        ("reference/solutions/07_matmul/tiled.py", []),
        ("puzzles/07_matmul/untiled.py", []),
        ("puzzles/07_matmul/README.md", []),
        ("tests", []),
    ],
)
def test_the_puzzle_that_a_path_names(path, puzzles):
    assert desk.puzzles_at(ROOT / path) == puzzles


def test_the_puzzles_of_a_folder():
    chapter = desk.puzzles_at(PUZZLES / "07_matmul")
    assert chapter[:2] == ["07_matmul/matvec", "07_matmul/tiled"]
    assert desk.puzzles_at(PUZZLES / "07_matmul" / "production") == chapter
    assert len(desk.puzzles_at(ROOT)) > len(chapter)


def test_a_puzzle_that_failed_says_how_much_of_it_passes(monkeypatch, tmp_path):
    (tmp_path / "01_pointwise").mkdir()
    (tmp_path / f"{PUZZLE}.py").write_text("mine")
    for module in ("course.plugin.listing", "course.desk.stubs"):
        monkeypatch.setattr(f"{module}.PUZZLES", tmp_path)
    progress = Progress(None, tmp_path)
    progress.add(PUZZLE, {"solved": {"test_masks": True, "test_shapes": False}})
    assert state(PUZZLE, progress)[0] == "not solved   1 of 2 checks pass"


SOURCE = '''"""A file

of two lines of code."""

# A comment.
def f():
    """What it does."""
    return """a
    string"""  # of two lines
'''


def test_lines_of_code_are_those_that_hold_code():
    assert comparison.lines_of_code(SOURCE) == 3


def moved(**times: tuple[float, float]) -> SimpleNamespace:
    """Traffic of tensors of 100 elements of 4 bytes: how many times each is loaded and stored."""

    def flow(count: float) -> SimpleNamespace:
        return SimpleNamespace(times=count, bytes=int(400 * count))

    tensors = {n: SimpleNamespace(loaded=flow(a), stored=flow(b)) for n, (a, b) in times.items()}
    return SimpleNamespace(launches=1, tensors=tensors)


def test_traffic_names_the_tensors_that_differ():
    yours = moved(a=(4, 0), b=(1, 0), result=(0, 1), scratch=(9, 9))
    ours = moved(a=(1, 0), b=(1, 0), result=(0, 1))
    assert comparison.of_traffic("a: float32 (100,)", yours, ours) == {
        "of": "traffic of a: float32 (100,)",
        "rows": [
            ["launches", "1", "1"],
            ["bytes loaded", "5,600", "800"],
            ["a loaded", "4x", "1x"],
            ["bytes stored", "4,000", "400"],
        ],
    }


def compiled(registers: int, spills: int = 0) -> Compiled:
    return Compiled(
        kernel="k", target="sm_90", num_warps=4, shared=2048, registers=registers, spills=spills,
        settings="",
    )  # fmt: skip


def test_resources_have_a_figure_for_each_kernel_and_spills_only_where_there_are():
    rows = comparison.of_resources("x", [compiled(32)], [compiled(40), compiled(16)])["rows"]
    assert rows[0] == ["registers a thread, by kernel", "32", "40, 16"]
    assert [row[0] for row in rows[1:]] == [
        "bytes of shared memory a program, by kernel",
        "warps a program, by kernel",
    ]
    rows = comparison.of_resources("x", [compiled(255, 96)], [compiled(40)])["rows"]
    assert rows[1] == ["spilled bytes a thread", "96", "0"]


def test_of_many_kernels_the_most_is_shown():
    many = [compiled(registers) for registers in (16, 99, 32, 40, 8)]
    rows = comparison.of_resources("x", many, [compiled(64)])["rows"]
    assert rows[0] == ["registers a thread, the most", "99", "64"]


def race(bound: Bound | None = None, at_least: float = 0.0) -> RaceResult:
    interval = Interval(0.36, 0.09, 0.25, 0.24, 0.26, settled=True)
    return RaceResult(interval, at_least, scale=1.0, bound=bound, calls=10, seconds=1.0)


def test_times_stand_beside_the_limit_where_it_is_known():
    assert comparison.of_times("x", race())["rows"] == [["time", "0.36 ms", "0.09 ms"]]
    rows = comparison.of_times("x", race(Bound(0.08, "copy bandwidth", 1e9, "B")))["rows"]
    assert rows[1] == ["of copy bandwidth", "22 %", "89 %"]


def test_a_table_is_aligned_and_no_line_of_it_is_long():
    groups = [
        {"of": "traffic of " + "x: float32 (5000,), " * 20, "rows": [["launches", "1", "12"]]},
        {"of": "the file", "rows": [["lines of code", "1,234", "5"]]},
    ]
    lines = comparison.table(groups)
    assert all(len(line) <= 100 for line in lines)
    assert lines[2:] == [
        "    launches       1      12",
        "the file",
        "    lines of code  1,234  5",
    ]
    assert lines[0].index("yours") == lines[2].index("1")
    assert lines[0].index("ours", lines[0].index("yours") + 5) == lines[2].index("12")


@pytest.mark.skipif(not settings.interpreted, reason="traffic is counted in the interpreter")
def test_one_call_of_a_file_is_compared_at_the_first_level(monkeypatch, tmp_path):
    comparing = Comparing()
    monkeypatch.setattr(running, "observers", [comparing])
    natural = (ROOT / "tests/alternatives/natural" / f"{PUZZLE}.py").read_text()
    cases = {case.test: case for case in runner.cases_of(PUZZLE)}
    with runner.graded(PUZZLE, natural, tmp_path):
        cases["test_traffic"].run()
        groups = dict(comparing.found)
        cases["test_traffic"].run()
        again = dict(comparing.found)
    assert groups["traffic"]["of"].startswith("traffic of x: float32")
    assert groups["traffic"]["rows"][0] == ["launches", "1", "1"]
    assert not again


@pytest.mark.parametrize("wanted", ["compares", "draws"])
def test_a_race_is_run_against_our_solution_too_and_its_verdict_is_the_first_one(
    monkeypatch, tmp_path, wanted
):
    raced = []

    def measure(subject, opponent, inputs, *, at_least, **rest):
        raced.append(at_least)
        return race(at_least=at_least)

    comparing = Comparing() if wanted == "compares" else None
    racing = Racing(comparing)
    monkeypatch.setattr(running, "observers", [*filter(None, [comparing]), racing])
    monkeypatch.setattr(asked, wanted, True)
    monkeypatch.setattr(asked, "times_peers", wanted == "draws")
    peers = {"slow": 3.0, "fast": 1.0, "usual": 2.0}
    monkeypatch.setattr(observers.timing, "time_peers", lambda *_: peers)
    monkeypatch.setattr(observers, "CudaTimer", lambda: None)
    monkeypatch.setattr(kernel.measure, "race", measure)
    monkeypatch.setattr(kernel.gpu, "measured_limits", lambda: H200)
    monkeypatch.setattr(kernel.gpu, "exclusive", contextlib.nullcontext)
    monkeypatch.setattr(kernel, "one_stream", contextlib.nullcontext)
    natural = (ROOT / "tests/alternatives/natural" / f"{PUZZLE}.py").read_text()
    with runner.graded(PUZZLE, natural, tmp_path):
        running.begin("race")
        with pytest.raises(Wrong, match=r"too slow: 0\.25x"):
            runner.module_of(PUZZLE).puzzle.race(randn(64), at_least=0.3)
    assert raced == [0.3, 0.0]
    # Those of the race that counts, also where it is lost.
    speed_up, *times = running.current().figures
    assert (speed_up.measured, speed_up.limit, speed_up.at_least) == (0.25, 0.3, True)
    assert [(time.measured, time.unit) for time in times] == [(0.36, "ms"), (0.09, "ms")]
    if wanted == "compares":
        assert comparing.found["speedup"]["rows"] == [["time", "0.36 ms", "0.09 ms"]]
        assert not racing.timed
        return
    (timed,) = racing.timed
    two = {"fast": 1.0, "usual": 2.0}
    assert timed.times == {"yours": 0.36, "eager PyTorch": 0.09, "ours": 0.09, **two}
    assert (timed.gpu, timed.bandwidth, timed.operations) == (H200.name, H200.copy, 0.0)
