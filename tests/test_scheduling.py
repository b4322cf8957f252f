"""Which worker runs which test: a file's tests are together, and races come last."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from course.plugin.scheduling import length, scheduling

FILES = [
    f"puzzles/04_softmax/test_{name}.py" for name in ("softmax", "cross_entropy", "column_softmax")
]
TESTS = [
    f"{file}::test_{check}"
    for file in FILES
    for check in ("shapes[a]", "speedup", "masks[b]", "compiles", "speedup_large")
]


class Worker:
    """Stands in for xdist's: runs what it is sent, test by test."""

    def __init__(self, name: str):
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.sent: list[int] = []
        self.ran: list[str] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    def can_run(self) -> bool:
        """As in xdist: with the test after it, or the word that there is none."""
        return len(self.sent) > 1 or (self.shutting_down and bool(self.sent))


def started(number: int, races_last: bool):
    option = SimpleNamespace(loadscopereorder=True)
    config = SimpleNamespace(option=option, getvalue=lambda name: ["popen"] * number)
    workers = [Worker(f"gw{it}") for it in range(number)]
    made = scheduling(config, None, races_last)
    for worker in workers:
        made.add_node(worker)
        made.add_node_collection(worker, TESTS)
    made.schedule()
    return made, workers


def run(made, workers: list[Worker], until: int = 10**6) -> list[str]:
    """Let the workers run a test each in turn. Returns the tests in the order they ran in."""
    ran = []
    while any(worker.can_run() for worker in workers) and len(ran) < until:
        for worker in workers:
            if worker.can_run() and len(ran) < until:
                index = worker.sent.pop(0)
                worker.ran.append(TESTS[index])
                ran.append(TESTS[index])
                made.mark_test_complete(worker, index)
    return ran


@pytest.mark.parametrize("number", [2, 3, 5])
@pytest.mark.parametrize("races_last", [False, True])
def test_each_test_runs_once_and_a_file_in_one_worker(number, races_last):
    made, workers = started(number, races_last)
    ran = run(made, workers)
    assert sorted(ran) == sorted(TESTS)
    assert all(worker.shutting_down and not worker.sent for worker in workers)
    for file in FILES:
        assert sum(any(it.startswith(file) for it in worker.ran) for worker in workers) == 1


@pytest.mark.parametrize("number", [2, 3])
def test_where_a_gpu_is_shared_races_come_last(number):
    for races_last in (False, True):
        made, workers = started(number, races_last)
        run(made, workers)
        for worker in workers:
            are_races = ["test_speedup" in it for it in worker.ran]
            assert (are_races == sorted(are_races)) == races_last


def test_what_takes_longest_begins_first():
    """Each file has as many tests: what differs is how long our solutions are."""
    made, workers = started(1, races_last=True)
    ran = run(made, workers)
    sizes = [length(it.partition("::")[0]) for it in ran if "speedup" not in it]
    assert len(set(sizes)) == 3
    assert sizes == sorted(sizes, reverse=True)


def test_the_races_of_a_worker_that_died_are_run_by_others():
    made, workers = started(2, races_last=True)
    ran = run(made, workers, until=7)
    died = workers.pop(0)
    assert died.sent
    died_in = made.remove_node(died)
    ran += run(made, workers)
    new = Worker("gw2")
    made.add_node(new)
    made.add_node_collection(new, TESTS)
    made.schedule()
    ran += run(made, [*workers, new])
    assert died_in == TESTS[died.sent[0]]
    assert sorted([*ran, died_in]) == sorted(TESTS)
