"""Which of xdist's workers runs a test, and when.

One worker runs all tests of a file, whose failures are diagnosed together. Where several share a
GPU, races come last: a race waits until the others have left the GPU, and they wait until it is
over. With races among all tests, 14 workers on an H200 waited for two thirds of the time.
"""

from __future__ import annotations

import re
from collections import OrderedDict

from course import paths
from course.plugin.ladder import check_of, puzzle_of

# What is added to the scope of tests that come last.
LAST = " at last"


def scope(nodeid: str) -> str:
    """Return what tests have in common that one process must run: the file of a puzzle's level.

    Of the judge's tests, those that grade one puzzle stay together, since they share what its
    reference gives.
    """
    if nodeid.startswith("puzzles/"):
        return nodeid.partition("::")[0]
    graded = re.match(r"(.*?)::.*(\[\d\d_\w+/\w+)", nodeid)
    return "".join(graded.groups()) if graded else nodeid


def length(scope_: str) -> int:
    """Return how long each of these tests takes, in proportion: as long as our solution is.

    By the number of tests alone, train_step's would end some 40 s after all others: they are few,
    and long (reckoned from the times of each test on an H200 with 16 workers).
    """
    puzzle = puzzle_of(paths.ROOT / scope_)
    return (paths.SOLUTIONS / f"{puzzle}.py").stat().st_size if puzzle else 1


def scheduling(config, log, races_last: bool):
    """Return what hands tests to xdist's workers: see `scope`.

    races_last: whether races come after all other tests
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def __init__(self) -> None:
            super().__init__(config, log)
            self._worker_of: dict[str, object] = {}

        def _split_scope(self, nodeid: str) -> str:
            name = nodeid.partition("::")[2]
            return scope(nodeid) + LAST * (races_last and check_of(name) == "speedup")

        def _may_run(self, node, scope_: str) -> bool:
            worker = self._worker_of.get(scope_.removesuffix(LAST))
            is_last = scope_.endswith(LAST)
            return not is_last or worker is node or worker not in self.assigned_work

        def _sort(self) -> None:
            """Let races come last, and before them what takes longest first."""

            def place(queued: tuple[str, dict[str, bool]]) -> tuple[bool, int]:
                scope_, tests = queued
                return scope_.endswith(LAST), -len(tests) * length(scope_.removesuffix(LAST))

            self.workqueue = OrderedDict(sorted(self.workqueue.items(), key=place))

        def _assign_work_unit(self, node) -> None:
            """Give a worker its next tests, or end it where the others have what is left."""
            if races_last:
                if not self._worker_of:
                    self._sort()
                chosen = next((it for it in self.workqueue if self._may_run(node, it)), None)
                if chosen is None:
                    node.shutdown()
                    return
                self._worker_of[chosen] = node
                self.workqueue.move_to_end(chosen, last=False)
            super()._assign_work_unit(node)

        def remove_node(self, node) -> str | None:
            """Return the test that a worker died in. Others take over those after it.

            xdist's own would run it again, and files that are through.
            """
            files = self.assigned_work.pop(node)
            left = [(tests, it) for tests in files.values() for it in tests if not tests[it]]
            if not left:
                return None
            tests, died_in = left[0]
            tests[died_in] = True
            self.workqueue.update({it: files[it] for it in files if not all(files[it].values())})
            if races_last:
                self._sort()
            for other in self.nodes:
                self._reschedule(other)
            return died_in

        def _reschedule(self, node) -> None:
            # A worker begins a test when it has the one after it, or is told that there is none.
            # xdist's own leaves one that took another's place with a single test, and waits for it.
            if node.shutting_down or node not in self.registered_collections:
                return
            super()._reschedule(node)
            while self.workqueue and not node.shutting_down:
                if self._pending_of(self.assigned_work[node]) >= 2:
                    break
                self._assign_work_unit(node)
            if not (self.workqueue or node.shutting_down):
                node.shutdown()

    return Scheduling()
