"""The course: puzzles, their two levels, and what a learner sees. It is built on `kernelgauge`.

`challenge` and `inputs` are what a puzzle's test file imports. The packages are rooms of one
concern each; docs/judge.md is the map, and pyproject.toml holds the order of their imports.
"""

import pytest

from course.paths import PUZZLES, REFERENCE
from kernelgauge.core.settings import settings

settings.subjects = PUZZLES
settings.answers = REFERENCE
settings.packages = ("kernelgauge", "course")
settings.passing_errors = (KeyboardInterrupt, pytest.exit.Exception)
