"""A check that torch still has the private names that honest timing relies on."""

from __future__ import annotations

from operator import attrgetter

import torch

from kernelgauge.core.complaint import Complaint

PRIVATE_NAMES = {
    "cuda._sleep": "keeps the stream busy while a timed call is queued",
    "_C._cuda_setStream": "is replaced to catch a subject that changes the stream",
}


def failures() -> list[Complaint]:
    """Return a complaint for each private name that is missing or not callable.

    A build of torch without CUDA has no such names and times nothing: the list is empty there.
    """
    complaints = []
    for name, purpose in PRIVATE_NAMES.items() if torch.backends.cuda.is_built() else ():
        try:
            wrong = "" if callable(attrgetter(name)(torch)) else "is not callable"
        except AttributeError:
            wrong = "is missing"
        if wrong:
            line = f"torch {torch.__version__}: torch.{name}, which {purpose}, {wrong}"
            complaints.append(Complaint(line))
    return complaints
