"""The training that the lesson of chapter 12 ends with, as a command."""

from __future__ import annotations

import subprocess
import sys

import pytest

from course import paths

pytestmark = pytest.mark.proof


def test_our_step_trains_as_pytorch_does():
    command = [sys.executable, "-m", "course.training", "--steps", "5"]
    done = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    losses = [(float(mine), float(theirs)) for _, mine, theirs in lines[3:8]]
    assert losses[-1][1] < losses[0][1] / 2
    assert all(abs(mine - theirs) < 0.01 * theirs for mine, theirs in losses)
