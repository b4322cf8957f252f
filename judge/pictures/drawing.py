"""Pictures of one launch: who touches what, in which order, and how often."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judge.core.launch import Launch
from judge.memory.recording import Touch
from judge.pictures.frames import Frame, frames_of
from judge.pictures.layout import (
    View,
    arrange,
    head,
    largest,
    legend,
    middle,
    views_of,
    write_in,
)
from judge.pictures.svg import ON_RAMP, PROGRAMS, RAMP, Picture, Svg

MAX_TENSORS = 8
# A line through more tiles is a tangle.
MAX_ORDERED = 400


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


def pictures(scene: Scene) -> list[Picture]:
    """Draw all pictures of a launch that show something."""
    found = [programs(scene), order(scene), reuse(scene)]
    return [picture for picture in found if picture]


def programs(scene: Scene) -> Picture | None:
    """Draw which program touches which elements of each tensor."""
    frames = scene.frames()
    if not frames:
        return None
    active = [frame.by_programs(lambda s, f=frame: f.cells(s.active)) for frame in frames]
    masked = [frame.by_programs(lambda s, f=frame: f.cells(s.masked)) for frame in frames]
    colours = _colours(scene.programs, active)
    red = [_any_of(frame, "outside") for frame in frames]
    views = views_of(
        [(frame, found[0]) for frame, found in zip(frames, active, strict=True)],
        [out if out.any() else found[0] for out, found in zip(red, active, strict=True)],
    )
    seen: set[str] = set()
    outside = sum(int(spots.outside[0].size) for frame in frames for spots in frame.spots)
    shared = any(len(each) > 1 for found in active for each in found[1])
    missed = _missed(frames)
    caption = _caption_of_programs(scene, shared, missed, outside, frames)
    title = f"Which program touches which elements{scene.whose}"
    svg = Svg(title, caption, f"{scene.name} {scene.about} programs", scene.call)
    arrange(svg, views)
    for view, on, off, out in zip(views, active, masked, red, strict=True):
        seen |= _draw_programs(svg, scene, view, on, off, out, colours)
    entries = [("p0", "", "one program, its id in it")]
    if shared:
        entries.append(("", svg.striped((0, 1)), "several programs"))
    for name, entry in (
        ("masked", ("", svg.hatched(), "lanes that the mask turns off")),
        ("outside", ("out", "", "out of bounds")),
        ("astray", ("astray", "", "past the end of a row, and so in the next")),
        ("empty", ("empty", "", "elements that no program touches")),
    ):
        if name in seen:
            entries.append(entry)
    legend(svg, entries)
    return Picture("programs", scene.about, title, caption, svg.render())


def _draw_programs(
    svg: Svg,
    scene: Scene,
    view: View,
    on: tuple,
    off: tuple,
    out: np.ndarray,
    colours: list[int],
) -> set[str]:
    """Draw one frame. Returns what is in it beside elements that are touched."""
    seen = set()
    frame = view.frame
    numbers, sets = on
    elements = view.elements()
    svg.rect(*elements, "empty")
    inner = view.shown(numbers)
    idle, idle_sets = off
    astray = _any_of(frame, "astray") & ~out if out.any() else np.zeros_like(out)
    idle = np.where((numbers > 0) | out | astray, 0, idle)
    by_number = defaultdict(list)
    for box in view.boxes(idle):
        by_number[box[0]].append(view.place(box))
    for number, places in by_number.items():
        seen.add("masked")
        owner = ", ".join(map(scene.id_of, sorted(idle_sets[number])[:4]))
        if len(idle_sets[number]) == 1:
            svg.boxes(places, f"faint p{colours[min(idle_sets[number])]}")
        svg.boxes(places, "masked", svg.hatched(), f"masked off in program {owner}")
    by_number = defaultdict(list)
    for box in view.boxes(numbers):
        by_number[box[0]].append(view.place(box))
    for number, places in by_number.items():
        members = sorted(sets[number])
        paints = tuple(sorted({colours[program] for program in members}))
        ids = [scene.id_of(program) for program in members]
        if len(members) == 1:
            svg.boxes(places, f"one edge p{paints[0]}", title=f"program {ids[0]}")
        else:
            title = f"programs {', '.join(ids[:12])}{', ...' if len(ids) > 12 else ''}"
            svg.boxes(places, "several edge", svg.striped(paints), title)
    for number, places in by_number.items():
        ids = [scene.id_of(program) for program in sorted(sets[number])]
        labels = [ids[0]] if len(ids) == 1 else [" ".join(ids), f"{len(ids)} programs"]
        place = largest(places)
        if len(ids) > 1:
            _write_on_plate(svg, place, labels)
        else:
            write_in(svg, place, labels)
    for cells, name, kind, title in (
        (out, "outside", "out", "out of bounds"),
        (astray, "astray", "astray", "past the end of a row"),
    ):
        places = [view.place(box) for box in view.boxes(cells.astype(np.int32))]
        if places:
            seen.add(name)
            svg.boxes(places, kind, title=title)
    if (inner == 0).any() and _has_untouched(view, numbers):
        seen.add("empty")
    svg.rect(*elements, "frame")
    head(svg, view)
    return seen


def _any_of(frame: Frame, kind: str) -> np.ndarray:
    """Return the cells of all lanes that are "outside", at the border if too far, or "astray"."""
    found = np.zeros(frame.shape, dtype=bool)
    for spots in frame.spots:
        found |= frame.cells(getattr(spots, kind), clip=kind == "outside")
    return found


def _write_on_plate(svg: Svg, place: tuple, labels: Sequence[str]) -> None:
    """Write a label on stripes, with a plate under it so that it is read."""
    x, y, width, height = place
    for label in labels:
        wide = len(label) * 6.2 + 8
        if wide <= width and height >= 14:
            at = x + width / 2, y + height / 2
            svg.rect(at[0] - wide / 2, at[1] - 7, wide, 14, "bg")
            svg.text(at[0], at[1] + 4, label, "m")
            return


def _has_untouched(view: View, numbers: np.ndarray) -> bool:
    top, _, left, _ = view.frame.room
    inner = numbers[top : top + view.frame.rows, left : left + view.frame.columns]
    return bool((inner == 0).any())


def _missed(frames: Sequence[Frame]) -> list[str]:
    """Return the tensors that are stored to, but not in full."""
    missed = []
    for frame in frames:
        stores = [spots for spots in frame.spots if spots.verb != "reads"]
        if not stores:
            continue
        count = np.zeros(frame.shape, dtype=bool)
        for spots in stores:
            count |= frame.cells(spots.active)
        if count.sum() < frame.rows * frame.columns:
            missed.append(frame.label)
    return missed


def _caption_of_programs(
    scene: Scene, shared: bool, missed: list[str], outside: int, frames: Sequence[Frame]
) -> str:
    count = scene.programs
    text = f"{scene.grid()}: {count} program{'s' * (count != 1)}."
    text += " Each colour is one program, and its id is written in it."
    if shared:
        text += (
            " Where several programs touch the same elements, there is a stripe for each colour."
        )
    if outside:
        lanes = "lane is" if outside == 1 else "lanes are"
        text += f" Red: {outside:,} {lanes} out of bounds; these elements are not the tensor's."
    if missed:
        text += f" No program stores the pale elements of {' and '.join(missed)}."
    if any(frame.beyond for frame in frames):
        text += " More lanes are masked off, farther out than is drawn."
    return text


def _colours(count: int, canvases: Sequence[tuple[np.ndarray, list]]) -> list[int]:
    """Return a colour for each program, another one than those of its neighbours have."""
    neighbours: dict[int, set[int]] = defaultdict(set)
    for numbers, sets in canvases:
        for a, b in ((numbers[:, :-1], numbers[:, 1:]), (numbers[:-1], numbers[1:])):
            pairs = np.unique(np.stack((a[a != b], b[a != b])), axis=1)
            for one, other in pairs.T.tolist():
                if len(sets[one]) == len(sets[other]) == 1:
                    first, second = min(sets[one]), min(sets[other])
                    neighbours[first].add(second)
                    neighbours[second].add(first)
    colours: list[int] = []
    for program in range(count):
        taken = {colours[other] for other in neighbours[program] if other < program}
        wanted = [(program + step) % PROGRAMS for step in range(PROGRAMS)]
        colours.append(next((c for c in wanted if c not in taken), wanted[0]))
    return colours


def order(scene: Scene) -> Picture | None:
    """Draw in which order the tiles of a result begin, if that is more than from left to right."""
    if scene.programs < 4:
        return None
    best = None
    for frame in scene.frames("writes", "updates"):
        numbers, sets = frame.by_programs(
            lambda s, f=frame: f.cells(s.active) if s.verb != "reads" else np.zeros(f.shape, bool)
        )
        first = np.array([0] + [min(each) + 1 for each in sets[1:]], dtype=np.int32)
        tiles = first[numbers]
        if best is None or np.unique(tiles).size > np.unique(best[1]).size:
            best = frame, tiles
    if best is None or np.unique(best[1]).size < 4:
        return None
    frame, tiles = best
    view = views_of([(frame, tiles)])[0]
    places = defaultdict(list)
    for box in view.boxes(tiles):
        places[box[0] - 1].append(box)
    corners = {(box[1], box[2]) for found in places.values() for box in found[:1]}
    if len({row for row, _ in corners}) < 2 or len({column for _, column in corners}) < 2:
        return None
    several = any(len(found) > 1 for found in places.values())
    title = f"The order of the tiles of {frame.label}{scene.whose}"
    caption = (
        f"{scene.grid()}. The number is that of the program, in the order in which a GPU starts "
        "them: light first, dark last."
    )
    caption += (
        " A program computes several tiles here."
        if several
        else " The line leads from each tile to the next. Programs that run at the same time share "
        "what they load through the L2 cache, so tiles that follow one another should be near."
    )
    svg = Svg(title, caption, f"{scene.name} {scene.about} order", scene.call)
    arrange(svg, [view])
    svg.rect(*view.elements(), "empty")
    for program, found in sorted(places.items()):
        step = program * len(RAMP) // scene.programs
        spots = [view.place(box) for box in found]
        svg.boxes(spots, "tile edge", RAMP[step], f"program {scene.id_of(program)}")
    if not several and len(places) <= MAX_ORDERED:
        way = [middle(view.place(found[0])) for _, found in sorted(places.items())]
        for kind in ("halo", "step"):
            svg.line(way, kind)
        svg.dot(*way[0], 4, "", "#111")
    for program, found in sorted(places.items()):
        place = largest(view.place(box) for box in found)
        x, y, width, height = place
        if width >= 20 and height >= 26 and not several:
            corner = x + 3 + 3 * len(str(program)), y + 11
            svg.text(*corner, str(program), "m", ON_RAMP[program * len(RAMP) // scene.programs])
        elif several:
            write_in(svg, place, [str(program)], "m")
    svg.rect(*view.elements(), "frame")
    head(svg, view)
    return Picture("order", scene.about, title, caption, svg.render())


def reuse(scene: Scene) -> Picture | None:
    """Draw how often each element is loaded, if some are loaded more than once."""
    frames = scene.frames("reads")
    counts = [frame.loads() for frame in frames]
    most = max((int(count.max()) for count in counts), default=0)
    if most < 2:
        return None
    steps = _steps(most)
    classes = [np.searchsorted(steps, count, side="right").astype(np.int32) for count in counts]
    views = views_of(list(zip(frames, classes, strict=True)))
    of_tensor = defaultdict(list)
    for frame, count in zip(frames, counts, strict=True):
        of_tensor[frame.tensor.name].append(count[count > 0])
    said = [f"{name} {_times(np.concatenate(found))}" for name, found in of_tensor.items()]
    title = f"How often each element is loaded{scene.whose}"
    caption = (
        f"{scene.grid()}. Elements are loaded: {', '.join(said)}. The darker, the more often. "
        "Every load after the first asks the caches, or memory, once more for the same bytes."
    )
    if any(found.min() == found.max() > 1 for found in map(np.concatenate, of_tensor.values())):
        caption += " Larger tiles need fewer loads."
    svg = Svg(title, caption, f"{scene.name} {scene.about} reuse", scene.call)
    arrange(svg, views)
    for view, count in zip(views, counts, strict=True):
        svg.rect(*view.elements(), "empty")
        by_step = defaultdict(list)
        for box in view.boxes(count):
            by_step[int(np.searchsorted(steps, box[0], side="right"))].append(box)
        for step, found in sorted(by_step.items()):
            svg.boxes([view.place(box) for box in found], "heat", RAMP[step - 1])
            fit = largest(view.place(box) for box in found)
            number = next(box[0] for box in found if view.place(box) == fit)
            x, y, width, height = fit
            if height >= 14 and width >= 30:
                svg.text(x + width / 2, y + height / 2 + 4, f"{number}x", "m", ON_RAMP[step - 1])
        svg.rect(*view.elements(), "frame")
        head(svg, view)
    every = np.concatenate([count.ravel() for count in counts])
    step_of = np.searchsorted(steps, every, side="right")
    entries = [
        ("", RAMP[step - 1], _times(every[step_of == step]))
        for step in np.unique(step_of).tolist()
        if step
    ]
    if not every.all():
        entries.append(("empty", "", "not loaded"))
    legend(svg, entries)
    return Picture("reuse", scene.about, title, caption, svg.render())


def _times(counts: np.ndarray) -> str:
    """Return how often in words: once, 3 times, 2 to 5 times."""
    low, high = int(counts.min()), int(counts.max())
    if low == high:
        return "once" if low == 1 else f"{low} times"
    return f"{low} to {high} times"


def _steps(most: int) -> list[int]:
    """Return the least count of each step of the ramp."""
    if most <= len(RAMP):
        return list(range(1, most + 1))
    base = most ** (1 / len(RAMP))
    return sorted({max(at + 1, round(base**at)) for at in range(len(RAMP))})
