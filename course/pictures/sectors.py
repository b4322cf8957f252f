"""The sectors of memory that 32 neighbouring lanes fetch, and how much of them they use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from course.pictures.layout import legend
from course.pictures.scene import Scene
from course.pictures.svg import MARGIN, Picture, Svg
from kernelgauge.memory.call_sites import ACCESS_CALLS
from kernelgauge.memory.recording import Touch
from kernelgauge.memory.traffic import SECTOR_BYTES

LANES = 32
MAX_ACCESSES = 6
# Sectors in a row, and pixels of each.
IN_A_ROW = 8
WIDE, HIGH, APART = 80, 18, 8
# Pixels of a cell in which a lane's number is read.
LEGIBLE = 9


@dataclass
class Fetch:
    """What 32 neighbouring lanes of an access fetch.

    sectors: the number of each sector, from the tensor's first, in order
    lanes: the first lane in each slot of the size of an element, by sector and slot; -1 for none
    used: bytes that the lanes use
    idle: how many of the lanes the mask turns off
    """

    touch: Touch
    sectors: np.ndarray
    lanes: np.ndarray
    used: int
    idle: int

    @property
    def share(self) -> float:
        """The part of what is fetched that is used."""
        return self.used / (self.sectors.size * SECTOR_BYTES)

    @property
    def is_scattered(self) -> bool:
        """Whether the same bytes, next to one another, would take fewer sectors."""
        return self.sectors.size > -(-self.used // SECTOR_BYTES) + 1


def fetch_of(touch: Touch) -> Fetch | None:
    """Return what neighbouring lanes of an access fetch, None if none touches anything.

    Triton gives neighbouring lanes to the axis of a tile along which addresses are closest.
    """
    steps = [_step(touch.element, axis) for axis in range(touch.element.ndim)]
    ordered = sorted(range(len(steps)), key=lambda axis: (steps[axis] > 0, -steps[axis]))
    active = touch.active.transpose(ordered).reshape(-1)
    # The fullest of the groups of lanes: an edge is not what an access is like.
    groups = np.add.reduceat(active, np.arange(0, active.size, LANES), dtype=np.int64)
    start = int(groups.argmax()) * LANES
    active = active[start : start + LANES]
    element = touch.element.transpose(ordered).reshape(-1)[start : start + LANES][active]
    idle = active.size - element.size
    if not element.size:
        return None
    size = touch.tensor.itemsize
    address = touch.tensor.start + element * size
    sectors = np.unique(address // SECTOR_BYTES)
    lanes = np.full((sectors.size, max(SECTOR_BYTES // size, 1)), -1)
    numbers = np.flatnonzero(active)
    for lane, byte in zip(numbers.tolist()[::-1], address.tolist()[::-1], strict=True):
        at = int(np.searchsorted(sectors, byte // SECTOR_BYTES))
        lanes[at, byte % SECTOR_BYTES // size] = lane
    return Fetch(touch, sectors, lanes, int((lanes >= 0).sum()) * size, idle)


def _step(element: np.ndarray, axis: int) -> float:
    """Return how many elements apart neighbours along an axis of a tile are, 0 if they are one."""
    if element.shape[axis] == 1:
        return 0.0
    return float(np.median(np.abs(np.diff(element, axis=axis))))


def sectors(scene: Scene) -> Picture | None:
    """Draw the sectors of each tensor's most wasteful load and store."""
    # A ragged edge is not what an access is like: the fullest tile of each line is.
    fullest: dict[tuple, Touch] = {}
    for touch in scene.touches:
        key = id(touch.tensor), touch.verb, touch.site
        rank = int(touch.active.sum()), -touch.program
        if key not in fullest or rank > (int(fullest[key].active.sum()), -fullest[key].program):
            fullest[key] = touch
    worst: dict[tuple, Fetch] = {}
    for (tensor, verb, _), touch in fullest.items():
        fetch = fetch_of(touch) if touch.element.size > 1 else None
        known = worst.get((tensor, verb))
        if fetch and (known is None or fetch.share < known.share):
            worst[tensor, verb] = fetch
    found = sorted(worst.values(), key=lambda fetch: fetch.touch.verb != "reads")[:MAX_ACCESSES]
    if not found:
        return None
    title = f"Which sectors of memory 32 neighbouring lanes fetch{scene.whose}"
    wasted = any(fetch.share < 1 for fetch in found)
    scattered = any(fetch.is_scattered for fetch in found)
    caption = (
        "Memory is fetched in sectors of 32 bytes, whatever of them is used. A cell is an element"
    )
    legible = [WIDE / fetch.lanes.shape[1] >= LEGIBLE for fetch in found]
    if any(legible):
        caption += ", with the number of the lane that takes it"
        caption += "" if all(legible) else " where there is room"
    caption += "."
    caption += " Grey cells are fetched in vain." if wasted else " All that is fetched is used."
    if scattered:
        caption += (
            " Neighbouring lanes should take neighbouring elements wherever that is possible."
        )
    svg = Svg(title, caption, f"{scene.name} {scene.about} sectors", scene.call)
    for fetch in found:
        _draw(svg, fetch)
    entries = [("p0", "", "used")]
    if wasted:
        entries.append(("empty", "", "fetched in vain"))
    legend(svg, entries)
    return Picture("sectors", scene.about, title, caption, svg.render())


def _draw(svg: Svg, fetch: Fetch) -> None:
    touch = fetch.touch
    call = touch.site.call(*ACCESS_CALLS[touch.verb])
    total = fetch.sectors.size * SECTOR_BYTES
    number = fetch.sectors.size
    masked = f"; {fetch.idle} of the lanes are masked off" if fetch.idle else ""
    y = svg.bottom + 20
    svg.text(MARGIN, y, f"{touch.tensor.name}: {touch.site.short}  {call}", "n")
    svg.text(
        MARGIN,
        y + 15,
        f"{number} sector{'s' * (number != 1)}: {fetch.used} of {total} bytes are used, "
        f"{100 * fetch.share:.0f} %{masked}",
        "s",
    )
    y += 24
    slots = fetch.lanes.shape[1]
    across = WIDE / slots
    used, empty = [], []
    for at, lanes in enumerate(fetch.lanes.tolist()):
        row, column = divmod(at, IN_A_ROW)
        x, top = MARGIN + column * (WIDE + APART), y + row * (HIGH + APART)
        for slot, lane in enumerate(lanes):
            (used if lane >= 0 else empty).append((x + slot * across, top, across, HIGH))
    svg.boxes(empty, "empty edge")
    svg.boxes(used, "used edge p0")
    for at, lanes in enumerate(fetch.lanes.tolist()):
        row, column = divmod(at, IN_A_ROW)
        x, top = MARGIN + column * (WIDE + APART), y + row * (HIGH + APART)
        svg.rect(x, top, WIDE, HIGH, "frame")
        for slot, lane in enumerate(lanes):
            if lane >= 0 and across >= LEGIBLE:
                svg.text(x + (slot + 0.5) * across, top + 13, str(lane), "on lane")
        if at + 1 < len(fetch.sectors) and fetch.sectors[at + 1] != fetch.sectors[at] + 1:
            svg.text(x + WIDE + 1, top + 12, "…", "s")
