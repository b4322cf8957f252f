"""`--cluster ADDRESS`: the units of a class on a Ray cluster, one task each.

A task carries what it grades, and the cluster gets this judge from here, so that a node needs no
more than Python with the dependencies. What a task finds is written here. A task whose node dies
is run on another.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from course import paths
from course.plugin import batch
from kernelgauge import setup

# So many tasks share a GPU: most of their time is the host's. A race waits until it has the GPU
# alone: see kernelgauge.speed.gpu_lock.
TASKS_OF_A_GPU = 4
# A task is lost with its node, or where a node's memory is short.
RETRIES = 5
# Of this folder, what no node needs.
LEFT_OUT = ("/.git", "/.venv", "/tests", "/docs", "/build", "/out", "/dist", "__pycache__")
INSTALL = (
    "--cluster needs Ray, which is not installed: pip install -c constraints.txt -e '.[cluster]'"
)


class Found(NamedTuple):
    """What a task found.

    data: as --json writes it; None where the process left none
    log: what it printed
    """

    status: int
    data: bytes | None
    log: bytes


def check(option) -> None:
    """Raise pytest.UsageError where the options do not go together, or Ray is missing."""
    if not option.results:
        raise pytest.UsageError("--cluster grades a class: say with --results where it leaves what")
    if option.jobs:
        raise pytest.UsageError("--jobs is for this machine: a cluster runs a task on each CPU")
    try:
        import ray  # noqa: F401
    except ImportError:
        raise pytest.UsageError(INSTALL) from None


def graded(
    units: Sequence[batch.Unit],
    address: str,
    how: Callable[[batch.Unit, tuple[str, ...]], Found] | None = None,
) -> Generator[tuple[batch.Unit, int]]:
    """Grade units on a cluster. Yields each with the exit status of its process, as they end.

    address: as ray.init takes it, "auto" for the cluster that this machine belongs to
    how: replaced in tests
    """
    # Ray asks and tells on the terminal otherwise.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    environment = {name: os.environ[name] for name in (setup.INTERPRET,) if name in os.environ}
    try:
        ray.init(
            address=address,
            runtime_env={
                "working_dir": str(paths.ROOT),
                "excludes": list(LEFT_OUT),
                "env_vars": environment,
            },
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError) as error:
        raise pytest.UsageError(f"--cluster {address}: {str(error).splitlines()[0]}") from None
    try:
        needs: dict[str, float] = {"num_cpus": 1}
        if ray.cluster_resources().get("GPU") and not setup.asks_to_interpret():
            needs["num_gpus"] = 1 / TASKS_OF_A_GPU
        task = ray.remote(max_retries=RETRIES, scheduling_strategy="SPREAD", **needs)(how or grade)
        running = {task.remote(_portable(unit), batch.versions()): unit for unit in units}
        while running:
            (done,), _ = ray.wait(list(running), num_returns=1)
            unit = running.pop(done)
            try:
                found = ray.get(done)
            except ray.exceptions.RayError as error:
                found = Found(pytest.ExitCode.INTERNAL_ERROR, None, str(error).encode())
            yield unit, _keep(unit, found)
    finally:
        ray.shutdown()


def grade(unit: batch.Unit, versions: tuple[str, ...]) -> Found:
    """Grade a unit on this node. Raises RuntimeError where it has other versions than ours."""
    if batch.versions() != versions:
        raise RuntimeError(f"this node has {batch.versions()}, and where the run began {versions}")
    with tempfile.TemporaryDirectory(prefix="triton-kata-") as there:
        folder = Path(there, "class", unit.person)
        for name, content in unit.sources.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        data = Path(there, "found.json")
        moved = replace(
            unit, folder=folder, data=data, where=paths.ROOT, tests=paths.ROOT / unit.tests
        )
        status = batch.grade(moved)
        log = batch.log_of(moved).read_bytes()
        return Found(status, data.read_bytes() if data.exists() else None, log)


def _portable(unit: batch.Unit) -> batch.Unit:
    return replace(unit, tests=unit.tests.relative_to(paths.HOME))


def _keep(unit: batch.Unit, found: Found) -> int:
    """Write here what a task found. Returns its status."""
    unit.data.parent.mkdir(parents=True, exist_ok=True)
    batch.log_of(unit).write_bytes(found.log)
    if found.data is not None:
        part = unit.data.with_suffix(".part.json")
        part.write_bytes(found.data)
        batch.keep(unit, part)
    return found.status
