"""The sectors of memory that 32 neighbouring lanes fetch, and how much of them they use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from judge.memory.call_sites import ACCESS_CALLS
from judge.memory.coordinates import spacing
from judge.memory.recording import Touch
from judge.memory.traffic import SECTOR_BYTES
from judge.pictures.drawing import Scene
from judge.pictures.layout import legend
from judge.pictures.svg import MARGIN, Picture, Svg

LANES = 32
MAX_ACCESSES = 6
# Sectors in a row, and pixels of each.
IN_A_ROW = 8
WIDE, HIGH, APART = 80, 18, 8

DONE = {"reads": "load", "writes": "store", "updates": "atomic"}


@dataclass
class Fetch:
    """What 32 neighbouring lanes of an access fetch.

    sectors: the number of each sector, from the tensor's first, in order
    lanes: the first lane in each slot of the size of an element, by sector and slot; -1 for none
    used: bytes that the lanes use
    """

    touch: Touch
    sectors: np.ndarray
    lanes: np.ndarray
    used: int

    @property
    def share(self) -> float:
        """The part of what is fetched that is used."""
        return self.used / (self.sectors.size * SECTOR_BYTES)


def fetch_of(touch: Touch) -> Fetch | None:
    """Return what the first lanes of an access fetch, None if they touch nothing.

    Triton gives neighbouring lanes to the axis of a tile along which addresses are closest.
    """
    steps = spacing(touch.element) or [0] * touch.element.ndim
    axes = sorted(range(len(steps)), key=lambda axis: (steps[axis] == 0, abs(steps[axis])))
    ordered = axes[::-1]
    element = touch.element.transpose(ordered).reshape(-1)
    active = touch.active.transpose(ordered).reshape(-1)
    element = element[:LANES][active[:LANES]]
    if not element.size:
        return None
    size = touch.tensor.itemsize
    address = touch.tensor.start + element * size
    sectors = np.unique(address // SECTOR_BYTES)
    lanes = np.full((sectors.size, max(SECTOR_BYTES // size, 1)), -1)
    numbers = np.flatnonzero(active[:LANES])
    for lane, byte in zip(numbers.tolist()[::-1], address.tolist()[::-1], strict=True):
        at = int(np.searchsorted(sectors, byte // SECTOR_BYTES))
        lanes[at, byte % SECTOR_BYTES // size] = lane
    return Fetch(touch, sectors, lanes, int((lanes >= 0).sum()) * size)


def sectors(scene: Scene) -> Picture | None:
    """Draw the sectors of each tensor's most wasteful load and store."""
    worst: dict[tuple, Fetch] = {}
    seen = set()
    for touch in scene.touches:
        key = id(touch.tensor), touch.verb
        if (key, touch.site) in seen or touch.element.size < 2:
            continue
        fetch = fetch_of(touch)
        # A ragged edge is not what an access is like.
        full = touch.active.all() or touch.program == scene.touches[-1].program
        if fetch is None or not (full or key not in worst):
            continue
        if full:
            seen.add((key, touch.site))
        known = worst.get(key)
        if known is None or (full and fetch.share < known.share):
            worst[key] = fetch
    found = sorted(worst.values(), key=lambda fetch: fetch.touch.verb != "reads")[:MAX_ACCESSES]
    if not found:
        return None
    title = "Which sectors of memory 32 neighbouring lanes fetch"
    wasted = [fetch for fetch in found if fetch.share < 0.99]
    caption = (
        "Memory is fetched in sectors of 32 bytes, whatever of them is used. A cell is an element, "
        "with the number of the lane that takes it."
    )
    caption += (
        " Pale cells are fetched in vain: neighbouring lanes should take neighbouring elements."
        if wasted
        else " Everything that is fetched is used."
    )
    svg = Svg(title, caption, f"{scene.name} {scene.about} sectors")
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
    y = svg.bottom + 20
    svg.text(MARGIN, y, f"{touch.tensor.name}: {touch.site.short}  {call}", "n")
    svg.text(
        MARGIN,
        y + 15,
        f"{number} sector{'s' * (number != 1)}: {fetch.used} of {total} bytes are used, "
        f"{100 * fetch.share:.0f} %",
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
            if lane >= 0 and across >= 9:
                svg.text(x + (slot + 0.5) * across, top + 13, str(lane), "on lane")
        if at + 1 < len(fetch.sectors) and fetch.sectors[at + 1] != fetch.sectors[at] + 1:
            svg.text(x + WIDE + 1, top + 12, "…", "s")
