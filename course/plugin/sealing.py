"""`--sealed`: launchers run in cells, and what keeps those apart is said in the header."""

from __future__ import annotations

import pytest

from kernelgauge.core.settings import settings

# What these options do to a subject is done in the process that grades it.
NOT_SEALED = {
    "compiled": "--compiled",
    "tries": "--try",
    "usepdb": "--pdb",
    "trace": "--trace",
    "watch": "--watch",
}


def check(option) -> None:
    """Raises pytest.UsageError where a run cannot be sealed."""
    for name, flag in NOT_SEALED.items():
        if getattr(option, name, None) not in (None, False):
            raise pytest.UsageError(f"{flag} and --sealed do not go together: give one of them")
    if not (option.subject or option.solutions):
        raise pytest.UsageError(
            "--sealed grades other people's files: name them with --subject DIR"
        )
    if option.cluster:
        # Its nodes have the cells, and say the same there.
        return
    from kernelgauge.sealed import cell

    try:
        option.sealed_by = cell.in_force()
    except cell.CannotSeal as reason:
        raise pytest.UsageError(str(reason)) from None


def begin(config) -> None:
    """Seal this process, and begin to start its cell if it is one that runs tests."""
    from kernelgauge.sealed import replay

    settings.sealed = True
    assert settings.subjects is not None
    settings.subjects = settings.subjects.resolve()
    if hasattr(config, "workerinput") or not config.option.numprocesses:
        replay.start(settings.subjects)


def header(config) -> list[str]:
    """Return what keeps cells apart."""
    return [config.option.sealed_by]
