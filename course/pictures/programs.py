"""Which program touches which elements of each tensor, with what is masked off or out of bounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from course.pictures.frames import Frame
from course.pictures.layout import (
    View,
    arrange,
    has_room,
    head,
    largest,
    legend,
    views_of,
    write_in,
)
from course.pictures.scene import Scene
from course.pictures.svg import PROGRAMS, Picture, Svg


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
    labelled = _is_labelled(scene, views, active)
    missed = _missed(views, active, masked)
    caption = _caption_of_programs(scene, labelled, shared, missed, outside, frames)
    title = f"Which program touches which elements{scene.whose}"
    svg = Svg(title, caption, f"{scene.name} {scene.about} programs", scene.call)
    arrange(svg, views)
    for view, on, off, out in zip(views, active, masked, red, strict=True):
        seen |= _draw_programs(svg, scene, view, on, off, out, colours)
    entries = [("p0", "", f"one program{', its id in it' * labelled}")]
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
    if (_untouched(view, numbers) & view.shown(idle == 0)).any():
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


def _untouched(view: View, numbers: np.ndarray) -> np.ndarray:
    """Return which of the cells that are shown are elements that no program touches."""
    top, _, left, _ = view.frame.room
    inside = np.zeros(view.frame.shape, dtype=bool)
    inside[top : top + view.frame.rows, left : left + view.frame.columns] = True
    return view.shown(inside & (numbers == 0))


def _is_labelled(scene: Scene, views: Sequence[View], active: Sequence[tuple]) -> bool:
    """Whether there is room for the id of every program that alone touches some elements."""
    for view, (numbers, sets) in zip(views, active, strict=True):
        places = defaultdict(list)
        for box in view.boxes(numbers):
            places[box[0]].append(view.place(box))
        for number, found in places.items():
            ids = [scene.id_of(program) for program in sets[number]]
            if len(ids) == 1 and not has_room(largest(found), ids[0]):
                return False
    return True


def _missed(views: Sequence[View], active: Sequence, masked: Sequence) -> dict[str, list[str]]:
    """Return the tensors that are stored to, but not in full, by what their elements look like."""
    missed: dict[str, list[str]] = {"grey": [], "hatched": []}
    for view, (numbers, _), (idle, _) in zip(views, active, masked, strict=True):
        if all(spots.verb == "reads" for spots in view.frame.spots):
            continue
        untouched = _untouched(view, numbers)
        for look, off in (("grey", idle == 0), ("hatched", idle > 0)):
            if (untouched & view.shown(off)).any():
                missed[look].append(view.frame.label)
    return missed


def _caption_of_programs(
    scene: Scene,
    labelled: bool,
    shared: bool,
    missed: dict[str, list[str]],
    outside: int,
    frames: Sequence[Frame],
) -> str:
    count = scene.programs
    text = f"{scene.grid()}: {count} program{'s' * (count != 1)}."
    if count > 1:
        if count <= PROGRAMS:
            text += " Each colour is one program"
            text += ", and its id is written in it" * labelled
        else:
            text += " Neighbouring programs differ in colour"
            text += "; their ids are written in them" * labelled
        text += "."
    if shared:
        text += (
            " Where several programs touch the same elements, there is a stripe for each colour."
        )
    if outside:
        lanes = "lane is" if outside == 1 else "lanes are"
        text += f" Red: {outside:,} {lanes} out of bounds; these elements are not the tensor's."
    for look, labels in missed.items():
        if labels:
            text += f" No program stores the {look} elements of {' and '.join(labels)}."
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
