"""One launch of a call, ready to be drawn: what it touched, and its words."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from course.pictures.frames import Frame, frames_of
from kernelgauge.core.launch import Launch
from kernelgauge.memory.recording import Touch

MAX_TENSORS = 8


@dataclass
class Scene:
    """What one launch touched, ready to be drawn.

    name: tells its pictures from those of all others, such as 07_matmul/tiled
    call: what was called: transpose(x: float32 (65, 129))
    about: the kernel, where the call launches several; "" otherwise
    """

    name: str
    call: str
    about: str
    launch: Launch
    touches: list[Touch]

    @property
    def whose(self) -> str:
        """Return the end of a title."""
        return f": {self.about}" if self.about else ""

    @property
    def programs(self) -> int:
        """How many programs the launch has."""
        return math.prod(self.launch.grid)

    def frames(self, *verbs: str) -> list[Frame]:
        """Return the frames of all tensors, with room around them for lanes that are beyond.

        verbs: only the tensors that are accessed so, without room
        """
        by_tensor: dict[int, list[Touch]] = defaultdict(list)
        for touch in self.touches:
            by_tensor[id(touch.tensor)].append(touch)
        wanted = [
            touches
            for touches in by_tensor.values()
            if any(t.active.any() or t.outside.any() for t in touches)
            and (not verbs or any(touch.verb in verbs for touch in touches))
        ]
        room = not verbs
        return [
            frame for touches in wanted[:MAX_TENSORS] for frame in frames_of(touches, room=room)
        ]

    def id_of(self, program: int) -> str:
        """Return a program's ids as a kernel sees them: 3, or (1, 0)."""
        ids = self.launch.program(program)
        dims = max((axis for axis in range(3) if self.launch.grid[axis] > 1), default=0) + 1
        return str(ids[0]) if dims == 1 else f"({', '.join(map(str, ids[:dims]))})"

    def grid(self) -> str:
        """Return the grid in words."""
        sizes = list(self.launch.grid)
        while len(sizes) > 1 and sizes[-1] == 1:
            sizes.pop()
        shape = f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"
        return f"{self.launch.kernel.__name__} with the grid {shape}"
