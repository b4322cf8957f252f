"""`--cluster`: a class on a Ray cluster; a node that is killed loses nothing."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from course import paths
from course.plugin import batch, cluster
from tests import test_batch
from tests.test_batch import PEOPLE, SWISH, verdicts

pytest.importorskip("ray", reason=cluster.INSTALL)
pytestmark = [pytest.mark.proof, pytest.mark.nightly]


@pytest.fixture
def nodes():
    """Start a cluster without a CPU, to which nodes can be added, and end it."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield made
    made.shutdown()


def a_class(folder: Path, people: dict[str, str]) -> Path:
    for person, source in people.items():
        file = folder / person / f"{SWISH}.py"
        file.parent.mkdir(parents=True)
        file.write_text(source)
    return folder


def test_a_node_is_killed(tmp_path, nodes):
    people = PEOPLE | {f"ada{n}": PEOPLE["ada"] for n in range(4)}
    given = a_class(tmp_path / "class", people), tmp_path / "results", tmp_path / "found.xml"
    killed, _ = [nodes.add_node(num_cpus=1) for _ in range(2)]
    command = [*test_batch.command(*given), "--cluster", nodes.address]
    run = subprocess.Popen(command, **test_batch.process(), stdout=subprocess.PIPE, text=True)
    said = []
    for line in run.stdout:
        said.append(line)
        if line.startswith("1 of "):
            nodes.remove_node(killed, allow_graceful=False)
    assert run.wait() == 1, "".join(said)

    found = verdicts("".join(said))
    expected = dict.fromkeys(people, "passed") | {"bob": "wrong", "eve": "status 3"}
    assert found == {
        f"{person}  {SWISH}  {'not graded: ' * (person == 'eve')}{said}"
        for person, said in expected.items()
    }
    assert {it.get("name") for it in test_batch.suites(given[2])} == people.keys()

    # What ended without a verdict is tried again, and so is what is missing.
    (tmp_path / "results" / "ada2" / "01_pointwise-swish.json").unlink()
    again = subprocess.run(command, **test_batch.process(), capture_output=True, text=True)
    assert f"graded before: {len(people) - 2} of {len(people)}" in again.stdout
    assert {it.split()[0] for it in verdicts(again.stdout)} == {"ada2", "eve"}


def units(folder: Path, count: int) -> list[batch.Unit]:
    tests = paths.PUZZLES / "01_pointwise" / "test_swish.py"
    return [
        batch.Unit(f"p{n}", folder, SWISH, folder / f"{n}.json", (), tests, folder, {}, "")
        for n in range(count)
    ]


def takes_a_second(unit, versions):
    """Stand in for `cluster.grade`: a task that takes no core."""
    time.sleep(1)
    return cluster.Found(0, None, b"")


def races(unit, versions):
    """Stand in for `cluster.grade`: a task that times on its GPU, as the judge does."""
    from kernelgauge.speed import gpu_lock

    node_and_gpu = f"{os.environ['NODE']}-{os.environ['CUDA_VISIBLE_DEVICES']}"
    waited = time.time()
    with gpu_lock.hold(node_and_gpu):
        began = time.time()
        time.sleep(0.4)
        told = f"{node_and_gpu} {waited} {began} {time.time()}"
    return cluster.Found(0, None, told.encode())


def by_value(function):
    """Let a function of this file reach nodes that do not have it."""
    import types

    space = {"cluster": cluster, "time": time, "os": os}
    return types.FunctionType(function.__code__, space, function.__name__)


def test_more_nodes_grade_more(tmp_path, nodes):
    """Of tasks that do not share a core, twice the nodes do nearly twice as many."""
    seconds = {}
    for count in (1, 2):
        nodes.add_node(num_cpus=1)
        began = time.monotonic()
        done = list(cluster.graded(units(tmp_path, 12), nodes.address, by_value(takes_a_second)))
        seconds[count] = time.monotonic() - began
        assert sorted(unit.person for unit, _ in done) == sorted(f"p{n}" for n in range(12))
    assert seconds[1] / seconds[2] > 1.5


def test_one_timing_at_a_time_on_each_gpu(tmp_path, nodes, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    for name in "ab":
        nodes.add_node(num_cpus=8, num_gpus=2, env_vars={"NODE": name})
    waiting = units(tmp_path, 16)
    assert all(status == 0 for _, status in cluster.graded(waiting, nodes.address, by_value(races)))
    told = [batch.log_of(unit).read_text().split() for unit in waiting]
    by_gpu = {}
    for gpu, *times in told:
        by_gpu.setdefault(gpu, []).append(tuple(map(float, times)))
    assert by_gpu.keys() == {"a-0", "a-1", "b-0", "b-1"}
    overlap = False
    for timings in by_gpu.values():
        timings.sort(key=lambda it: it[1])
        for (_, _, ended), (waited, began, _) in itertools.pairwise(timings):
            assert ended <= began
            overlap |= waited < ended
    assert overlap, "no two tasks shared a GPU"


def test_without_results(pytester):
    command = [
        sys.executable,
        "-m",
        "pytest",
        "puzzles",
        "--cluster",
        "auto",
        "-p",
        "no:cacheprovider",
    ]
    run = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True)
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--cluster grades a class" in run.stderr
