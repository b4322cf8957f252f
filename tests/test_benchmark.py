"""The benchmark: contestants take turns, rows are honest, files say what was measured."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch

from course import loader, paths
from course.benchmark import __main__, tables, timing
from course.benchmark.peers import FOLDER, Benchmark, Peer, load_benchmarks
from kernelgauge.core import gpus
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Unsolved
from kernelgauge.speed.buffers import Buffers
from kernelgauge.speed.roofline import Limits
from tests.simulated_limits import H200

# A warning of torch's own, on import of its compiler.
pytestmark = [pytest.mark.proof, pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")]


class SimulatedTimer:
    """Calls say how long they take. order: names of the timed calls."""

    def __init__(self):
        self.ms, self.order, self.name = 0.0, [], ""

    def free_bytes(self) -> int:
        return 10**9

    def time(self, call):
        self.ms = 0.0
        returned = call()
        self.order.append(self.name)
        return self.ms, returned


@pytest.fixture
def timer(monkeypatch):
    timer = SimulatedTimer()
    monkeypatch.setattr(loader, "load_reference", lambda *_: taking(timer, "eager", 1.0))
    monkeypatch.setattr(loader, "load_subject", lambda *_: taking(timer, "solution", 0.5))
    return timer


def taking(timer, name, ms, function=lambda x: 2 * x):
    """Return a function that doubles its argument, and takes so long."""

    def call(x):
        timer.ms, timer.name = ms, name
        return function(x)

    return call


def fast(timer) -> Peer:
    return Peer("fast", taking(timer, "fast", 0.25))


def absent(reference):
    raise ImportError("No module named 'liger_kernel'")


def broken(x):
    raise RuntimeError("CUDA error: invalid argument\nand more lines")


def run(timer, *peers, puzzle="01_x/double", **options) -> dict[str, tables.Row]:
    """Compare the contestants of a benchmark, and return the rows by contestant."""
    settings = {
        "make": lambda M, N, dtype: (torch.randn(M, N, dtype=dtype),),
        "sizes": ((64, 32),),
        "dtypes": ("float16",),
        "bytes_moved": lambda M, N, itemsize: 2 * M * N * itemsize,
    }
    benchmark = Benchmark("double", peers=peers, **(settings | options))
    size, dtype = benchmark.sizes[0], benchmark.dtypes[0]
    rows = timing.compare(puzzle, benchmark, size, dtype, H200, timer, device="cpu", seconds=0.0)
    return {row.contestant: row for row in rows}


def test_a_row_for_each_contestant(timer):
    rows = run(timer, fast(timer))
    assert list(rows) == ["solution", "eager", "fast"]
    row = rows["solution"]
    assert (row.puzzle, row.size, row.magnitude, row.dtype) == (
        "01_x/double",
        "64 x 32",
        2048,
        "float16",
    )
    assert (row.ms, row.to_eager, row.to_best_peer) == (0.5, 2.0, 0.5)
    assert row.limit == "copy bandwidth"
    assert row.limit_ms == pytest.approx(2 * 2048 * 2 / H200.copy * 1e3)
    assert row.share == pytest.approx(row.limit_ms / 0.5)
    assert row.rate == "16.4 MB/s"
    assert rows["fast"].to_best_peer == 1.0
    assert row.torch == torch.__version__
    assert all(row.note == "" for row in rows.values())


def test_three_contestants_take_turns_in_every_order(timer):
    run(timer, fast(timer))
    rounds = [tuple(timer.order[n : n + 3]) for n in range(0, len(timer.order), 3)]
    assert len(rounds) == timing.MIN_ROUNDS
    assert len(set(rounds)) == 6
    assert all(set(order) == {"solution", "eager", "fast"} for order in rounds)
    for name in ("solution", "eager", "fast"):
        assert {order.index(name) for order in rounds} == {0, 1, 2}


def test_two_contestants_take_turns_and_the_reference_is_the_best_peer(timer):
    rows = run(timer)
    assert timer.order[:8] == [
        *("solution", "eager", "eager", "solution"),
        *("eager", "solution", "solution", "eager"),
    ]
    assert (rows["solution"].to_best_peer, rows["eager"].to_best_peer) == (2.0, 1.0)


@pytest.mark.parametrize(
    ("peer", "note"),
    [
        (Peer("Liger", prepare=absent), "ImportError: No module named 'liger_kernel'"),
        (Peer("broken", broken), "RuntimeError: CUDA error: invalid argument"),
        (Peer("wrong", lambda x: 2.1 * x), "wrong result: relative error 0.05"),
        (Peer("nan", lambda x: x * float("nan")), "wrong result: relative error nan"),
        (Peer("sum", lambda x: x.sum()), "wrong shape: (), not (64, 32)"),
        (Peer("text", lambda x: "done"), "returned no tensor"),
    ],
    ids=lambda value: value.name if isinstance(value, Peer) else "",
)
def test_a_peer_that_cannot_be_timed_has_a_note(timer, peer, note):
    rows = run(timer, peer, fast(timer))
    assert rows[peer.name].ms is None
    assert rows[peer.name].note == note
    assert rows["fast"].ms == 0.25
    assert rows["solution"].to_best_peer == 0.5
    assert note in rows[peer.name].line()


def test_a_peer_that_does_other_work_is_timed_but_not_counted(timer):
    other = replace(fast(timer), other_work="reads a mask that was stored")
    rows = run(timer, other)
    assert rows["fast"].ms == 0.25
    assert rows["fast"].other_work == "reads a mask that was stored"
    assert rows["solution"].to_best_peer == 2.0


def test_eager_may_do_other_work(timer):
    rows = run(timer, eager_other_work="asserts on the device")
    assert rows["eager"].other_work == "asserts on the device"
    assert (rows["solution"].to_eager, rows["solution"].to_best_peer) == (2.0, None)


def test_a_peer_may_be_made_from_the_reference_and_round_differently(timer):
    made = Peer("made", prepare=lambda reference: lambda x: reference(x) * (1 + 1e-3))
    assert run(timer, made)["made"].ms == 1.0


def test_a_contestant_may_return_fewer_results(timer, monkeypatch):
    both = taking(timer, "eager", 1.0, lambda x: (2 * x, x.sum(1)))
    monkeypatch.setattr(loader, "load_reference", lambda *_: both)
    assert run(timer)["solution"].ms == 0.5


def test_work_in_place_is_compared_by_the_arguments(timer, monkeypatch):
    def in_place(factor):
        def function(x):
            x.mul_(factor)

        return function

    monkeypatch.setattr(loader, "load_reference", lambda *_: in_place(2))
    monkeypatch.setattr(loader, "load_subject", lambda *_: in_place(2))
    rows = run(timer, Peer("same", in_place(2)), Peer("other", in_place(3)))
    assert rows["same"].note == ""
    assert rows["other"].note.startswith("wrong result")


def test_random_results_are_compared_by_shape(timer, monkeypatch):
    loaded = []

    def load_reference(chapter, function):
        loaded.append(function)
        return taking(timer, "eager", 1.0)

    monkeypatch.setattr(loader, "load_reference", load_reference)
    peers = Peer("random", lambda x: torch.rand_like(x)), Peer("sum", lambda x: x.sum())
    rows = run(timer, *peers, baseline="eager_double")
    assert loaded == ["eager_double"]
    assert rows["random"].note == ""
    assert rows["sum"].note.startswith("wrong shape")


def test_the_timed_call_may_be_made_from_the_function(timer):
    def absolute(function):
        return lambda x: function(x).abs()

    rows = run(timer, Peer("negative", lambda x: -2 * x), timed=absolute)
    assert {row.note for row in rows.values()} == {""}


def test_a_second_benchmark_times_the_same_solution(timer, monkeypatch):
    loaded = []

    def load_subject(*names):
        loaded.append(names)
        return taking(timer, "solution", 0.5)

    monkeypatch.setattr(loader, "load_subject", load_subject)
    rows = run(timer, puzzle="01_x/double:twice")
    assert loaded == [("01_x", "double", "double")]
    assert {row.puzzle for row in rows.values()} == {"01_x/double:twice"}


def test_without_a_solution_the_others_are_timed(timer, monkeypatch):
    def unsolved(*_):
        raise Unsolved("unsolved: edit the stub")

    monkeypatch.setattr(loader, "load_subject", unsolved)
    rows = run(timer)
    assert rows["solution"].note == "Unsolved: unsolved: edit the stub"
    assert rows["eager"].ms == 1.0


def test_if_inputs_cannot_be_made_every_row_has_a_note(timer):
    def too_large(M, N, dtype):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 16.00 GiB")

    rows = run(timer, fast(timer), make=too_large)
    assert len(rows) == 3
    assert all(row.note.startswith("OutOfMemoryError: CUDA out of memory") for row in rows.values())


def test_operations_are_bound_by_the_rate_of_their_dtype(timer):
    row = run(timer, operations=lambda M, N: 7 * 10**11, bytes_moved=None)["eager"]
    assert (row.limit, row.rate) == ("float16 matmul rate", "700 TFLOP/s")
    assert row.limit_ms == pytest.approx(1.0)
    unmeasured = run(timer, operations=lambda M, N: 1, bytes_moved=None, rate="int4")
    assert unmeasured["eager"].limit is None


def test_peers_are_timed_on_the_inputs_of_a_race(timer, monkeypatch):
    benchmark = Benchmark(
        "double",
        make=lambda N, dtype: (torch.randn(N, dtype=dtype),),
        sizes=((10,),),
        peers=(
            fast(timer),
            Peer("Liger", prepare=absent),
            Peer("wrong", taking(timer, "wrong", 0.1, lambda x: 3 * x)),
        ),
    )
    monkeypatch.setattr(timing, "load_benchmarks", lambda _: {"01_x/double": benchmark})
    x = torch.randn(10)
    found = timing.time_peers("01_x/double", (x,), timer, lambda call: call, seconds=0)
    assert list(found) == [fast(timer).name]
    assert timing.time_peers("01_x/other", (x,), timer, lambda call: call, seconds=0) == {}


@pytest.fixture
def rows(timer):
    found = run(timer, fast(timer), Peer("Liger", prepare=absent))
    larger = [
        replace(row, size="640 x 32", magnitude=20480, ms=row.ms and 8 * row.ms)
        for row in found.values()
    ]
    return [*found.values(), *larger]


def test_files(rows, tmp_path):
    tables.save(rows, H200, tmp_path / "new")
    with (tmp_path / "new" / "peers.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["contestant"] for row in read] == ["solution", "eager", "fast", "Liger"] * 2
    assert [row["ms"] for row in read[:4]] == ["0.5", "1.0", "0.25", ""]
    kept = json.loads((tmp_path / "new" / "peers.json").read_text())
    assert [tables.Row(**row) for row in kept["rows"]] == rows
    assert Limits(**kept["limits"]) == H200


def test_markdown(rows):
    text = tables.markdown(rows, H200)
    limits = "copy 4.28 TB/s read plus written; matmul float16 700 TFLOP/s, "
    assert f"Measured limits: {limits}" in text
    assert "float32 50 TFLOP/s" in text
    assert "## 01_x/double, float16" in text
    assert "|  | 64 x 32 | 640 x 32 |\n|---|---|---|\n| solution | 0.5 (0 %) | 4 (0 %) |" in text
    assert "| Liger | see below | see below |" in text
    assert "| limit: copy bandwidth | 1.91e-06 | 1.91e-06 |" in text
    assert text.endswith("\n- Liger: ImportError: No module named 'liger_kernel'\n")
    somewhere = tables.markdown(rows[:4] + rows[4:7], H200)
    assert "\n- Liger, 64 x 32: ImportError" in somewhere


@pytest.mark.skipif(not find_spec("matplotlib"), reason="matplotlib is an extra")
def test_pictures(rows, tmp_path):
    drawn = tables.draw(rows, tmp_path)
    assert [path.name for path in drawn] == ["01_x_double_float16.png"]
    assert drawn[0].read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def doubling(timer, monkeypatch, tmp_path):
    """Let the command time one puzzle at two sizes."""
    benchmark = Benchmark(
        "double",
        make=lambda N, dtype: (torch.randn(N, dtype=dtype),),
        sizes=((10,), (20,)),
        dtypes=("float32",),
        peers=(Peer("Liger", prepare=absent),),
        bytes_moved=lambda N, itemsize: 2 * N * itemsize,
    )
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(settings, "subjects", paths.PUZZLES)
    monkeypatch.setattr(__main__, "load_benchmarks", lambda wanted: {"01_x/double": benchmark})
    monkeypatch.setattr(__main__.roofline, "measure", lambda: H200)
    monkeypatch.setattr(__main__, "CudaTimer", lambda: timer)
    monkeypatch.setattr(__main__.gpu_lock, "select_gpu", lambda: "GPU-0")
    monkeypatch.setattr(__main__.gpu_lock, "FOLDER", tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(Benchmark, "inputs", lambda self, size, dtype, _: (torch.randn(size),))


@pytest.mark.usefixtures("doubling")
def test_the_command_saves_everything(tmp_path, capsys):
    assert __main__.main(["--out", str(tmp_path / "out"), "--seconds", "0"]) == 0
    printed = capsys.readouterr().out
    assert "01_x/double" in printed
    assert "6 rows in" in printed
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"peers.csv", "peers.json", "peers.md"} <= made
    assert ("no pictures" in printed) == ("01_x_double_float32.png" not in made)


@pytest.mark.usefixtures("doubling")
def test_what_was_timed_before_the_command_was_stopped_is_saved(monkeypatch, tmp_path):
    def stop_at_the_second(puzzle, benchmark, size, *arguments, **options):
        if size == (20,):
            raise KeyboardInterrupt
        return timing.compare(puzzle, benchmark, size, *arguments, **options)

    monkeypatch.setattr(__main__, "compare", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        __main__.main(["--out", str(tmp_path / "out"), "--seconds", "0"])
    assert len(json.loads((tmp_path / "out" / "peers.json").read_text())["rows"]) == 3


def test_the_command_does_not_overwrite_an_earlier_run(tmp_path, capsys):
    (tmp_path / "peers.json").write_text("kept")
    with pytest.raises(SystemExit):
        __main__.main(["--out", str(tmp_path)])
    assert "holds an earlier run" in capsys.readouterr().err
    assert (tmp_path / "peers.json").read_text() == "kept"


@pytest.mark.parametrize(
    ("environment", "arguments", "message"),
    [
        ({}, [], "--out"),
        ({}, ["--out", "x"], "needs a CUDA device"),
        ({"gpu": "1", "TRITON_INTERPRET": "1"}, ["--out", "x"], "TRITON_INTERPRET is set"),
        ({"gpu": "1"}, ["--out", "x", "--subject", "nowhere"], "no such folder"),
        ({"gpu": "1"}, ["--out", "x", "--puzzle", "nothing"], "no puzzle or chapter nothing"),
    ],
    ids=["no_folder", "no_gpu", "interpreted", "no_subjects", "unknown_puzzle"],
)
def test_the_command_rejects(monkeypatch, capsys, environment, arguments, message):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(settings, "subjects", paths.PUZZLES)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    # Undone before the test ends, because conftest.py calls is_available as well.
    with monkeypatch.context() as patched:
        patched.setattr(torch.cuda, "is_available", lambda: "gpu" in environment)
        with pytest.raises(SystemExit) as stopped:
            __main__.main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


POINTWISE = [
    f"01_pointwise/{name}"
    for name in (
        *("vector_copy", "square", "relu", "vector_add"),
        *("fma", "swish", "polynomial", "complex_multiply"),
    )
]
BOTH = ["13_attention/grouped_query", "13_attention/grouped_query:causal"]


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("fma", ["01_pointwise/fma"]),
        ("01_pointwise/swish", ["01_pointwise/swish"]),
        ("01_pointwise", POINTWISE),
        ("grouped_query", BOTH),
        ("13_attention/grouped_query", BOTH),
        ("grouped_query:causal", BOTH[1:]),
    ],
)
def test_benchmarks_are_chosen_by_chapter_puzzle_or_name(word, found):
    assert list(load_benchmarks([word])) == found
    assert set(found) < set(load_benchmarks([]))


def test_an_unknown_benchmark_is_rejected():
    with pytest.raises(LookupError, match="nothing"):
        load_benchmarks(["fma", "nothing"])


@pytest.mark.parametrize("chapter", [path.stem for path in sorted(FOLDER.glob("[0-9]*.py"))])
def test_every_puzzle_of_a_chapter_has_a_benchmark(chapter):
    tests = {path.stem.removeprefix("test_") for path in (paths.PUZZLES / chapter).glob("test_*")}
    covered = {name.partition(":")[0].split("/")[1] for name in load_benchmarks([chapter])}
    assert covered == tests


@pytest.mark.parametrize("puzzle", load_benchmarks([]))
def test_a_benchmark_fits_its_reference(puzzle):
    """The peers that are always available agree with the reference at a small size."""
    benchmark = load_benchmarks([puzzle])[puzzle]
    assert len(benchmark.sizes) >= 3
    assert any(all(n & (n - 1) == 0 for n in size) for size in benchmark.sizes)
    assert any(any(n % 2 for n in size) for size in benchmark.sizes)
    # Otherwise two would share a place on the axis of a picture.
    assert len({math.prod(size) for size in benchmark.sizes}) == len(benchmark.sizes)
    small = tuple(min(n, 37) for n in benchmark.sizes[0])
    moved, operations = benchmark.work(small, benchmark.dtypes[0])
    assert moved or operations
    reference = loader.load_reference(
        puzzle.split("/")[0], benchmark.baseline or benchmark.function
    )
    functions = {peer.name: peer.function for peer in benchmark.peers if peer.function}
    functions[timing.EAGER] = reference
    contestants = [
        timing.Contestant(name, benchmark.timed(function)) for name, function in functions.items()
    ]
    buffers = Buffers(benchmark.inputs(small, benchmark.dtypes[0], "cpu"), 10**9)
    admitted = timing.admit(contestants, buffers, by_value=benchmark.baseline is None)
    assert [(contestant.name, contestant.note) for contestant in admitted] == [
        (name, "") for name in functions
    ]


def test_inputs_are_seeded_and_drawn_anew_if_varied():
    benchmark = SimpleNamespace(make=lambda N, dtype: (torch.randn(N, dtype=dtype),), varied=True)
    benchmark.ranks = False
    make = Benchmark.inputs(benchmark, (8,), "float32", "cpu")
    assert torch.equal(make(1)[0], make(1)[0])
    assert not torch.equal(make(0)[0], make(1)[0])
    benchmark.varied = False
    assert torch.equal(Benchmark.inputs(benchmark, (8,), "float32", "cpu")[0], make(0)[0])


def test_ranks_are_spread_over_the_gpus(monkeypatch):
    devices = [torch.device("cpu"), torch.device("meta")]
    monkeypatch.setattr(gpus, "connect", lambda: devices)
    shards = [torch.ones(8), torch.ones(8)]
    benchmark = SimpleNamespace(make=lambda N, dtype: (shards,), varied=False, ranks=True)
    (spread,) = Benchmark.inputs(benchmark, (8,), "float32", "meta")
    assert [x.device for x in spread] == devices
