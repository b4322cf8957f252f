"""What a run sets up once in each process, and what each test begins with."""

from __future__ import annotations

import pytest
import torch

from course import inputs, running
from course.options import asked
from course.plugin.environment import Environment
from kernelgauge.compilation import targets
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotMeasured
from kernelgauge.interpreter import patches
from kernelgauge.interpreter import selftest as interpreter_selftest
from kernelgauge.memory import executor
from kernelgauge.memory import selftest as memory_selftest
from kernelgauge.run import Observer
from kernelgauge.speed import gpu
from kernelgauge.speed import selftest as speed_selftest
from kernelgauge.subject import audit, autotuning
from kernelgauge.subject import selftest as subject_selftest

# Repairs and hooks that did not take on this version of Triton, in plain lines.
complaints: list[str] = []


def start(config, environment: Environment) -> None:
    """Ready the judge for this process. Triton may be imported from here on."""
    settings.interpreted = environment.interpreted
    settings.targets = tuple(config.option.targets.split(","))
    try:
        for name in settings.targets:
            targets.find_target(name)
    except ValueError as unknown:
        raise pytest.UsageError(f"--targets: {unknown}") from None
    asked.speed_scale = config.option.speed_scale
    asked.compares = config.option.compare
    asked.times_peers = config.option.pictures is not None
    asked.draws = asked.times_peers or config.option.page is not None
    running.observers[:] = _observers()
    settings.device = environment.device
    if not environment.interpreted:
        settings.capability = torch.cuda.get_device_capability()
        settings.multiprocessors = torch.cuda.get_device_properties("cuda").multi_processor_count
    autotuning.install()
    workerinput = getattr(config, "workerinput", {})
    worker = workerinput.get("workerid")
    controls = config.option.numprocesses and worker is None
    _share_cores(workerinput.get("workercount", 1), environment.interpreted)
    if not environment.interpreted and not controls:
        gpu.take(worker, getattr(config, "cache", None))
    complaints[:] = subject_selftest.failures()
    if environment.interpreted:
        patches.install()
        executor.install()
        complaints.extend(interpreter_selftest.failures() + memory_selftest.failures())
    else:
        complaints.extend(speed_selftest.failures())


def _observers() -> list[Observer]:
    """Return what looks on while puzzles are graded, as the command line asks."""
    if not (asked.compares or asked.draws):
        return []
    from course.observers import Comparing, Drawing, Racing

    comparing = [Comparing()] if asked.compares else []
    return [*comparing, Racing(*comparing), *([Drawing()] if asked.draws else [])]


def _share_cores(workers: int, interpreted: bool) -> None:
    """Threads that wait for one another cost more than they give, by far if they outnumber cores.

    In a container torch starts as many as the host has cores. In the interpreter tensors are small.
    """
    most = 1 if interpreted else 4
    torch.set_num_threads(max(1, min(most, torch.get_num_threads()) // workers))


def require_measurable(check: str | None) -> None:
    """Raises NotMeasured where this mode cannot tell, before a test makes large inputs."""
    if check == "speedup" and settings.interpreted:
        raise NotMeasured("speed takes a GPU")
    if check == "traffic" and not settings.interpreted:
        raise NotMeasured("traffic is counted in the interpreter: set TRITON_INTERPRET=1")


def begin(test: str, *, defers: bool = False) -> None:
    """Forget what the test before left, and seed the inputs of this one.

    defers: as `running.begin` has it
    """
    audit.debugged.clear()
    running.begin(test, defers=defers)
    inputs.seed(test)
