"""A small writer of SVG: escaped text, names that no other picture has, light and dark."""

from __future__ import annotations

import hashlib
import textwrap
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

WIDTH = 760
MARGIN = 20
LINE = 16
# The mean width of a character of 11 pixels.
CHARACTER = 6.0
CAPTION_CHARACTERS = 122
CALL_CHARACTERS = 108

# Five colours that people with any kind of colour vision tell apart, and on which black is read.
PROGRAMS = 5
_COLOURS = ("#7ab8e8", "#f2b04c", "#5fc2a0", "#f3e36d", "#cfa5dd")
_DARK_COLOURS = ("#5a9fd4", "#dc9a35", "#46ab88", "#d9c84f", "#b88bc9")
# From little to much: light to dark, blue. Its steps are told apart by lightness alone.
RAMP = ("#fff3c4", "#f2cf7a", "#c9b08a", "#8f93a3", "#5c73a8", "#1f4e96")
# What is written on each step.
ON_RAMP = ("#111", "#111", "#111", "#111", "#fff", "#fff")

_LIGHT = {
    "bg": "#fff", "ink": "#1b1f24", "soft": "#57606a", "line": "#8c959f", "empty": "#eef1f4",
    "red": "#c8102e",
} | {f"p{number}": colour for number, colour in enumerate(_COLOURS)}  # fmt: skip
_DARK = {
    "bg": "#0d1117", "ink": "#e6edf3", "soft": "#9aa5b1", "line": "#6e7681", "empty": "#21262d",
    "red": "#ff4d5e",
} | {f"p{number}": colour for number, colour in enumerate(_DARK_COLOURS)}  # fmt: skip
# What is drawn of each kind, by attributes that every viewer knows; colours by their names above.
_LOOKS = {
    "text": {"font-size": "11", "fill": "ink"},
    "h": {"font-size": "15", "font-weight": "600"},
    "c": {"font-family": "ui-monospace,monospace"},
    "n": {"font-size": "12", "font-weight": "600"},
    "s": {"fill": "soft"},
    "on": {"fill": "#111", "text-anchor": "middle"},
    "m": {"text-anchor": "middle"},
    "e": {"text-anchor": "end"},
    "lane": {"font-size": "8"},
    "bg": {"fill": "bg"},
    "empty": {"fill": "empty"},
    "out": {"fill": "red"},
    "astray": {"fill": "red", "opacity": ".45"},
    "faint": {"opacity": ".3"},
    "dot": {"fill": "ink"},
    "edge": {"stroke": "bg", "stroke-width": ".6"},
    "line": {"stroke": "line", "fill": "none"},
    "frame": {"stroke": "ink", "fill": "none", "stroke-width": "1.2"},
    "way": {"stroke": "ink", "stroke-width": "1.4", "opacity": ".75"},
    "halo": {"stroke": "#fff", "stroke-width": "4", "opacity": ".6"},
    "step": {"stroke": "#111", "stroke-width": "1.5"},
    "dashed": {"stroke": "line", "stroke-dasharray": "4 4"},
    "ring": {"stroke": "ink", "stroke-width": "1.2"},
    "hatch": {"stroke": "ink", "stroke-width": "1"},
} | {f"p{number}": {"fill": f"p{number}"} for number in range(PROGRAMS)}
_RULES = "".join(
    f".kata {'' if kind == 'text' else '.'}{kind}{{{name}:{_DARK.get(paint, paint)}}}"
    for kind, look in _LOOKS.items()
    for name, paint in look.items()
    if name in ("fill", "stroke")
)
_STYLE = f"@media (prefers-color-scheme:dark){{{_RULES}}}"


def _look(kind: str, fill: str = "", of: str = "") -> str:
    """Return the attributes of a kind of thing: CSS classes, for a dark screen, and its look.

    fill: a paint in place of that of the kind
    of: what every such element looks like
    """
    look = {name: it for each in (of, *kind.split()) for name, it in _LOOKS.get(each, {}).items()}
    if fill:
        look["fill"] = fill
    shown = "".join(f" {name}={quoteattr(_LIGHT.get(it, it))}" for name, it in look.items())
    return f'class="{kind}"{shown}'


@dataclass
class Picture:
    """One picture, as the index and a page take it.

    kind: "programs", "sectors", "order", "reuse", "errors", "timeline" or "roofline"
    about: what of the call it shows, for its name: a tensor or a kernel; "" for all of it
    """

    kind: str
    about: str
    title: str
    caption: str
    svg: str


@dataclass
class Svg:
    """A picture while it is drawn. The height grows with what is drawn.

    title: a few words, the heading
    caption: sentences below it, which say what to see
    key: tells it from all other pictures in a page
    call: whose picture it is
    """

    title: str
    caption: str
    key: str
    call: str
    width: float = WIDTH
    bottom: float = 0.0
    _parts: list[str] = field(default_factory=list)
    _patterns: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = "kata-" + hashlib.sha1(self.key.encode()).hexdigest()[:10]
        self.text(MARGIN, 26, self.title, "h")
        y = 26.0 + LINE
        self.text(MARGIN, y, textwrap.shorten(self.call, CALL_CHARACTERS, placeholder=" ..."), "c")
        for line in textwrap.wrap(self.caption, CAPTION_CHARACTERS):
            y += LINE
            self.text(MARGIN, y, line, "s")
        self.bottom = y + 14

    def rect(
        self, x: float, y: float, width: float, height: float, kind: str, fill: str = ""
    ) -> None:
        """Draw a rectangle. kind: CSS classes; fill: a paint in place of theirs"""
        self._parts.append(
            f'<rect {_look(kind, fill)} x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" '
            f'height="{_n(height)}"/>'
        )
        self.bottom = max(self.bottom, y + height)

    def boxes(
        self,
        boxes: list[tuple[float, float, float, float]],
        kind: str,
        fill: str = "",
        title: str = "",
    ) -> None:
        """Draw many rectangles alike as one path: x, y, width, height each.

        title: what a browser shows of them under the pointer
        """
        if not boxes:
            return
        path = "".join(f"M{_n(x)} {_n(y)}h{_n(w)}v{_n(h)}h{_n(-w)}z" for x, y, w, h in boxes)
        inner = f"<title>{escape(title)}</title>" if title else ""
        self._parts.append(f'<path {_look(kind, fill)} d="{path}">{inner}</path>')
        self.bottom = max(self.bottom, max(y + h for _, y, _, h in boxes))

    def line(self, points: list[tuple[float, float]], kind: str = "line") -> None:
        """Draw a line through these points."""
        path = "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        self._parts.append(f'<path {_look(kind, "none")} d="{path}"/>')

    def dot(self, x: float, y: float, radius: float, kind: str = "dot", fill: str = "") -> None:
        """Draw a filled circle."""
        self._parts.append(
            f'<circle {_look(kind, fill)} cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"/>'
        )

    def text(self, x: float, y: float, text: str, kind: str = "", fill: str = "") -> None:
        """Write a line of text. y: of its baseline"""
        paint = f' style="fill:{fill}"' if fill else ""
        self._parts.append(
            f'<text {_look(kind, of="text")} x="{_n(x)}" y="{_n(y)}"{paint}>{escape(text)}</text>'
        )
        self.bottom = max(self.bottom, y + 4)

    def hatched(self) -> str:
        """Return the paint of masked lanes."""
        return self._pattern(
            "hatch",
            'width="6" height="6" patternTransform="rotate(45)"',
            f'<path {_look("hatch")} d="M0 0V6"/>',
        )

    def striped(self, colours: tuple[int, ...]) -> str:
        """Return the paint of what several programs touch: a stripe of each one's colour."""
        wide = 7
        stripes = "".join(
            f'<rect {_look(f"p{colour}")} x="{wide * at}" width="{wide}" height="8"/>'
            for at, colour in enumerate(colours)
        )
        size = f'width="{wide * len(colours)}" height="8"'
        return self._pattern("s" + "".join(map(str, colours)), size, stripes)

    def _pattern(self, name: str, size: str, inner: str) -> str:
        self._patterns[name] = (
            f'<pattern id="{self.name}-{name}" patternUnits="userSpaceOnUse" {size}>{inner}'
            "</pattern>"
        )
        return f"url(#{self.name}-{name})"

    def render(self) -> str:
        """Return the whole picture."""
        height = _n(self.bottom + 14)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="kata" id="{self.name}" role="img" '
            f'viewBox="0 0 {_n(self.width)} {height}" width="{_n(self.width)}" height="{height}" '
            f'font-family="system-ui,sans-serif" '
            f'aria-labelledby="{self.name}-t {self.name}-d">'
            f'<title id="{self.name}-t">{escape(self.title)}</title>'
            f'<desc id="{self.name}-d">{escape(self.caption)}</desc>'
            f"<style>{_STYLE}</style><defs>{''.join(self._patterns.values())}</defs>"
            f'<rect {_look("bg")} width="100%" height="100%"/>{"".join(self._parts)}</svg>\n'
        )


def wide_enough(text: str, width: float) -> bool:
    """Whether a label fits into so many pixels."""
    return len(text) * CHARACTER + 4 <= width


def _n(number: float) -> str:
    """Format a coordinate, with no more digits than a screen shows."""
    return f"{number:.2f}".rstrip("0").rstrip(".") if number % 1 else f"{number:.0f}"
