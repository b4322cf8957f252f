"""Sealed runs: the subject's Python runs in a cell, and only what it asks for is done.

- cell: Cell, the process; in_force
- system_calls: those that it does not get
- recorder.py: what runs in it
- gpus: what it is told of GPUs
- replay: load_subject, which returns a subject's function whose calls go through a cell, and Timed,
  which calls it without one
"""

from __future__ import annotations

from pathlib import Path


def recorder_file() -> Path:
    """Return the one file of ours that a cell is given."""
    return Path(__file__).with_name("recorder.py")
