"""What a run sets up once in each process, and what each test begins with."""

from __future__ import annotations

import pytest

from course import inputs, running
from course.options import asked
from course.plugin.ladder import SOLVED
from kernelgauge import setup
from kernelgauge.compilation import targets
from kernelgauge.core.complaint import Complaint
from kernelgauge.core.settings import settings
from kernelgauge.kernel import require_interpreter
from kernelgauge.run import Observer
from kernelgauge.speed import gpu
from kernelgauge.subject import audit

# Repairs and hooks that did not take on this version of Triton.
complaints: list[Complaint] = []


def start(config) -> None:
    """Ready the judge for this process. Triton may be imported from here on."""
    names = config.option.targets.split(",")
    try:
        for name in names:
            targets.find_target(name)
    except ValueError as unknown:
        raise pytest.UsageError(f"--targets: {unknown}") from None
    observe(config)
    workerinput = getattr(config, "workerinput", {})
    worker = workerinput.get("workerid")
    installed = setup.install(
        targets=names,
        worker=worker,
        workers=workerinput.get("workercount", 1),
        cache=getattr(config, "cache", None),
        takes_gpu=worker is not None or not config.option.numprocesses,
    )
    complaints[:] = installed.complaints


def observe(config) -> None:
    """Let look on in this process what the command line asks for."""
    asked.speed_scale = config.option.speed_scale
    asked.compares = config.option.compare
    asked.times_peers = config.option.pictures is not None
    asked.draws = asked.times_peers or config.option.page is not None
    running.observers[:] = _observers()


def _observers() -> list[Observer]:
    """Return what looks on while puzzles are graded, as the command line asks."""
    if not (asked.compares or asked.draws):
        return []
    from course.observers import Comparing, Drawing, Racing

    comparing = [Comparing()] if asked.compares else []
    return [*comparing, Racing(*comparing), *([Drawing()] if asked.draws else [])]


def require_measurable(check: str | None, level: str = SOLVED) -> None:
    """Raises NotMeasured where this mode cannot tell, before a test makes large inputs.

    In the interpreter --compare estimates the time of a first level, for inputs that are not drawn.
    """
    if check == "speedup":
        inputs.are_hollow = asked.compares and settings.interpreted and level == SOLVED
        if not inputs.are_hollow:
            gpu.require()
    if check == "traffic":
        require_interpreter()


def begin(test: str, *, defers: bool = False) -> None:
    """Forget what the test before left, and seed the inputs of this one.

    defers: as `running.begin` has it
    """
    audit.debugged.clear()
    inputs.are_hollow = False
    running.begin(test, defers=defers)
    inputs.seed(test)
