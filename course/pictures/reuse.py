"""How often each element is loaded, as a heat map."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from course.pictures.frames import Frame
from course.pictures.layout import arrange, head, largest, legend, views_of
from course.pictures.scene import Scene
from course.pictures.svg import ON_RAMP, RAMP, Picture, Svg


def reuse(scene: Scene) -> Picture | None:
    """Draw how often each element is loaded, if some are loaded more than once."""
    frames = scene.frames("reads")
    counts = [frame.loads() for frame in frames]
    most = max((int(count.max()) for count in counts), default=0)
    if most < 2:
        return None
    views = views_of(list(zip(frames, counts, strict=True)))
    of_tensor = defaultdict(list)
    for frame, count in zip(frames, counts, strict=True):
        of_tensor[frame.tensor.name].append(count[count > 0])
    said = [f"{name} {_times(np.concatenate(found))}" for name, found in of_tensor.items()]
    every = np.concatenate([count.ravel() for count in counts])
    of_shade = defaultdict(list)
    for number in np.unique(every[every > 0]).tolist():
        of_shade[_shade(number, most)].append(number)
    title = f"How often each element is loaded{scene.whose}"
    caption = (
        f"{scene.grid()}. Elements are loaded: {', '.join(said)}."
        f"{' The darker, the more often.' * (len(of_shade) > 1)} "
        "Every load after the first asks the caches, or memory, once more for the same bytes."
    )
    if any(_is_shared(frame, count) for frame, count in zip(frames, counts, strict=True)):
        caption += " Larger tiles need fewer loads."
    svg = Svg(title, caption, f"{scene.name} {scene.about} reuse", scene.call)
    arrange(svg, views)
    for view, count in zip(views, counts, strict=True):
        svg.rect(*view.elements(), "empty")
        by_count = defaultdict(list)
        for box in view.boxes(count):
            by_count[box[0]].append(view.place(box))
        for number, places in sorted(by_count.items()):
            shade = _shade(number, most)
            svg.boxes(places, "heat", RAMP[shade], _times(np.array([number])))
            x, y, width, height = largest(places)
            if height >= 14 and width >= 30:
                svg.text(x + width / 2, y + height / 2 + 4, f"{number}x", "m", ON_RAMP[shade])
        svg.rect(*view.elements(), "frame")
        head(svg, view)
    entries = [("", RAMP[shade], _times(np.array(found))) for shade, found in of_shade.items()]
    if not every.all():
        entries.append(("empty", "", "not loaded"))
    legend(svg, entries)
    return Picture("reuse", scene.about, title, caption, svg.render())


def _is_shared(frame: Frame, count: np.ndarray) -> bool:
    """Whether every element is loaded alike, by several programs once each."""
    numbers, sets = frame.by_programs(
        lambda s: frame.cells(s.active) if s.verb == "reads" else np.zeros(frame.shape, dtype=bool)
    )
    programs = np.array([len(each) for each in sets])[numbers]
    loaded = count[count > 0]
    return bool(loaded.size and loaded.min() == loaded.max() > 1 and (programs == count).all())


def _times(counts: np.ndarray) -> str:
    """Return how often in words: once, 3 times, 2 to 5 times."""
    low, high = int(counts.min()), int(counts.max())
    if low == high:
        return "once" if low == 1 else f"{low} times"
    return f"{low} to {high} times"


def _shade(number: int, most: int) -> int:
    """Return the step of the ramp for so many loads: by their logarithm, the first for one."""
    last = len(RAMP) - 1
    return round(last * math.log(number) / math.log(max(most, len(RAMP))))
