"""What the tests of the diagnosis observe without a kernel: a result and what it should be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from kernelgauge.diagnosis import report
from kernelgauge.diagnosis.observations import Observation, diagnose
from kernelgauge.diagnosis.wrong_result import Mistake, WrongResult
from kernelgauge.numerics.compare import Mismatch
from kernelgauge.words.fault import Cause, Fault


def observed(
    got: torch.Tensor,
    truth: torch.Tensor,
    mismatch: Mismatch,
    *,
    mistakes: Iterable[Mistake] = (),
    known: Cause | None = None,
    **more: Any,
) -> Observation:
    """Return what a case of one result leaves.

    mistakes: what may have been done wrong
    known: the cause that a run has shown
    more: of the WrongResult
    """
    result = WrongResult(got, truth, mismatch, **more)
    fault = report.facts(mismatch, None, result.origin).but(cause=known)
    return Observation(fault, 0, {0: result}, lambda number: mistakes)


def diagnosed(*given: Any, **more: Any) -> Fault:
    """Return the fault of a case by itself, with its cause. Takes what `observed` takes."""
    return diagnose([observed(*given, **more)])[0]
