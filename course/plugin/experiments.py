"""Whether a run looks at kernels instead of grading them, as --compiled and --try ask."""

from __future__ import annotations

import ast
import itertools
import math

import pytest

from course.plugin import looks
from course.plugin.compiled import CompiledLook
from course.plugin.trials import TrialLook

MAX_COMBINATIONS = 48
# Compiling to machine code, for each target and configuration, takes longer than a check.
PATIENCE = 5


def look(config: pytest.Config) -> looks.Look | None:
    """Return what looks at kernels in this run, None if it grades. Raises UsageError."""
    option = config.option
    if option.compiled is None and not option.tries:
        return None
    if option.compiled is not None:
        option.time_limit *= PATIENCE
        return CompiledLook(config)
    values = _values(option.tries)
    combinations = [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    ]
    option.time_limit *= PATIENCE * (1 + len(combinations))
    return TrialLook(config, combinations)


def _values(given: list[str]) -> dict[str, tuple]:
    """Return the values to try, by name. Raises UsageError."""
    found: dict[str, tuple] = {}
    for text in given:
        name, equals, values = text.partition("=")
        if not equals or not name.isidentifier():
            raise pytest.UsageError(
                f"--try {text}: write a name and its values, as in --try BLOCK=64,128"
            )
        if name in found:
            raise pytest.UsageError(
                f"--try {name} is given twice: write all its values behind one, as in "
                f"--try {name}=64,128"
            )
        try:
            found[name] = ast.literal_eval(f"({values},)") if values.strip() else ()
        except (SyntaxError, ValueError):
            found[name] = ()
        if not found[name]:
            raise pytest.UsageError(
                f"--try {text}: {values or 'nothing'} is not a list of values: write numbers, "
                "True, False, None or quoted words, with commas between them"
            )
        found[name] = tuple(dict.fromkeys(found[name]))
    count = math.prod(map(len, found.values()))
    if count > MAX_COMBINATIONS:
        raise pytest.UsageError(
            f"--try: {count} combinations are more than {MAX_COMBINATIONS}: try fewer at a time"
        )
    return found
