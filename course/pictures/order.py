"""The order in which the tiles of a result begin: a swizzle shows."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from course.pictures.layout import Place, arrange, head, middle, views_of
from course.pictures.scene import Scene
from course.pictures.svg import ON_RAMP, RAMP, Picture, Svg, wide_enough

# A line through more tiles is a tangle.
MAX_ORDERED = 400


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
    numbered = [
        (program, spot)
        for program, found in sorted(places.items())
        for spot in found
        if _is_numbered(program, view.place(spot))
    ]
    caption = (
        f"{scene.grid()}. The colour says when a GPU starts the program of a tile: light first, "
        "dark last."
    )
    if numbered:
        caption += " The number is that of the program."
    if several:
        caption += " A program computes several tiles here."
    else:
        is_led = len(places) <= MAX_ORDERED
        caption += " The line leads from each tile to the next." * is_led + (
            " Programs that run at the same time share what they load through the L2 cache, so "
            "tiles that follow one another should be near."
        )
    svg = Svg(title, caption, f"{scene.name} {scene.about} order", scene.call)
    arrange(svg, [view])
    svg.rect(*view.elements(), "empty")
    for program, found in sorted(places.items()):
        spots = [view.place(box) for box in found]
        owner = f"program {scene.id_of(program)}"
        svg.boxes(spots, "tile edge", RAMP[_shade(scene, program)], owner)
    if not several and len(places) <= MAX_ORDERED:
        way = [middle(view.place(found[0])) for _, found in sorted(places.items())]
        for kind in ("halo", "step"):
            svg.line(way, kind)
        svg.dot(*way[0], 4, "", "#111")
    for program, spot in numbered:
        x, y, _, _ = view.place(spot)
        colour = ON_RAMP[_shade(scene, program)]
        svg.text(x + 3 + 3 * len(str(program)), y + 11, str(program), "m", colour)
    svg.rect(*view.elements(), "frame")
    head(svg, view)
    return Picture("order", scene.about, title, caption, svg.render())


def _is_numbered(program: int, place: Place) -> bool:
    """Whether there is room for a program's number."""
    return wide_enough(str(program), place[2]) and place[3] >= 14


def _shade(scene: Scene, program: int) -> int:
    """Return the step of the ramp for a program, by when it starts."""
    return program * len(RAMP) // scene.programs
