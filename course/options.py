"""What the command line asked of this run, beyond what the instrument is told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Asked:
    """Options of this process, filled in by `course.plugin.session` at the start.

    speed_scale: factor on every speed-up that a spec requires, since those were set on an H200
    compares: whether what is solved is measured beside our solution
    draws: whether pictures are drawn of what kernels do
    times_peers: whether a race times what else a user would take, for its roofline
    """

    speed_scale: float = 1.0
    compares: bool = False
    draws: bool = False
    times_peers: bool = False


asked = Asked()
