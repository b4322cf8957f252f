"""The share of first messages that name the cause: printed, and held to a bar."""

from __future__ import annotations

import pytest

# What share must name it, of how many.
BARS = {"wrong kernels": 0.9, "mutants": 0.95}
# Of fewer a share says nothing.
MIN_MESSAGES = 20


def _shares(terminal) -> dict[str, tuple[int, int]]:
    """How many first messages name the cause, and of how many, by what they are about."""
    found: dict[str, tuple[int, int]] = {}
    for outcome in ("passed", "failed", "xfailed", "xpassed"):
        for report in terminal.stats.get(outcome, ()):
            for name, about in getattr(report, "user_properties", ()):
                if name == "names the cause":
                    named, of = found.get(about, (0, 0))
                    found[about] = named + (outcome == "passed"), of + 1
    return found


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    terminal = session.config.pluginmanager.getplugin("terminalreporter")
    if terminal is None or session.exitstatus != pytest.ExitCode.OK:
        return
    for about, (named, of) in _shares(terminal).items():
        if of >= MIN_MESSAGES and named < BARS[about] * of:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    for about, (named, of) in _shares(terminalreporter).items():
        share = f"{named} of {of}, {named / of:.0%}"
        asked = f"; at least {BARS[about]:.0%} must" if of >= MIN_MESSAGES else ""
        terminalreporter.line(f"first messages of {about} that name the cause: {share}{asked}")
