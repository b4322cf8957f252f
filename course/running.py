"""The test that runs: what its checks measure, and who looks on."""

from __future__ import annotations

from kernelgauge.core.settings import settings
from kernelgauge.run import Memory, NoMemory, Observer, Run
from kernelgauge.subject import state

# Look on in every test of this process.
observers: list[Observer] = []
# What the tests of this process keep of the reference's results.
memory: Memory = NoMemory()
_run = Run()


def begin(case: str, *, defers: bool = False) -> Run:
    """Begin a test.

    case: its file, and its name with its parameters: no other test has both
    defers: whether the wrong results of its file are diagnosed together once it is through
    """
    global _run
    state.begin()
    if settings.sealed:
        from kernelgauge.sealed import replay

        replay.begin()
    # What is not diagnosed with others is not printed: a proof runs many wrong kernels.
    _run = Run(case, observers, defers, memory, closely=defers)
    for observer in observers:
        observer.begin()
    return _run


def current() -> Run:
    """Return the Run of the test that runs."""
    return _run
