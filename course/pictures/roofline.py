"""The roofline of a race: how near kernels come to what the GPU's memory and cores allow.

Where the work is known in operations, it is the usual picture: operations a second over operations
a byte, both by powers of ten, under the slope of the copy bandwidth and the level of the matmul
rate. Where only bytes are counted, what is left of it are bars under the copy bandwidth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from course.pictures.layout import legend
from course.pictures.svg import MARGIN, WIDTH, Picture, Svg
from kernelgauge.core.dtypes import dtype_name
from kernelgauge.speed.roofline import Limits, Operations
from kernelgauge.words.compiling import format_si

LEFT, RIGHT, HEIGHT = 84, 40, 320
BAR, STEP = 22, 40


@dataclass(frozen=True)
class Timed:
    """What a race measured.

    gpu: its name
    call: what was called
    bandwidth: bytes a second that a copy moves
    rate: operations a second of a matmul, 0 where the work is counted in bytes alone
    dtype: of these operations
    bytes_moved, operations: the least work of a call; operations are 0 where they are not known
    times: milliseconds by name: "yours", "eager PyTorch", "ours"
    """

    gpu: str
    call: str
    bandwidth: float
    rate: float
    dtype: str
    bytes_moved: float
    operations: float
    times: dict[str, float]

    @classmethod
    def of(
        cls,
        limits: Limits,
        call: str,
        bytes_moved: float,
        operations: Operations | None,
        times: dict[str, float],
    ) -> Timed:
        """Return what a race measured on a GPU with these limits."""
        amount, dtype = operations or (0.0, "")
        dtype = dtype_name(dtype)
        rate = limits.matmul.get(dtype, 0.0)
        return cls(limits.name, call, limits.copy, rate, dtype, bytes_moved, amount, times)


def roofline(name: str, timed: Timed) -> Picture:
    """Draw how near each of the kernels comes to the limits of the GPU."""
    with_operations = timed.operations > 0 and timed.rate > 0
    title = f"How near the limits of this GPU: {timed.gpu}"
    best = _limit(timed)
    shares = ", ".join(f"{who} {100 * best / (ms / 1e3):.0f} %" for who, ms in timed.times.items())
    caption = f"Of the limit: {shares}. "
    if with_operations:
        caption += (
            "The roof is what was measured on this GPU: the slope is copy bandwidth, the level "
            f"{timed.dtype} matmul. At the roof a kernel cannot be faster. All kernels do the same "
            "work, and belong on the dashed line; they stand side by side to be told apart."
        )
    else:
        caption += (
            "Memory is the limit here: a bar that reaches the line moves the least number of bytes "
            "as fast as a copy does. A bar is short if bytes are moved twice, or slowly."
        )
    svg = Svg(title, caption, f"{name} roofline", timed.call)
    (_log_log if with_operations else _bars)(svg, timed)
    return Picture("roofline", "", title, caption, svg.render())


def _limit(timed: Timed) -> float:
    """Return the least seconds that a call takes."""
    cores = timed.operations / timed.rate if timed.rate else 0.0
    return max(timed.bytes_moved / timed.bandwidth, cores)


def _bars(svg: Svg, timed: Timed) -> None:
    top = svg.bottom + 24
    begin, end = MARGIN + 110, WIDTH - RIGHT - 120
    most = max([timed.bandwidth, *(timed.bytes_moved / ms * 1e3 for ms in timed.times.values())])
    scale = (end - begin) / most
    for number, (who, ms) in enumerate(timed.times.items()):
        y = top + number * STEP
        speed = timed.bytes_moved / ms * 1e3
        svg.text(begin - 10, y + 15, who, "e")
        svg.rect(begin, y, speed * scale, BAR, f"p{number % 5}")
        svg.text(end + 10, y + 15, f"{format_si(speed, 'B/s')}, {ms:.3g} ms", "s")
    bottom = top + len(timed.times) * STEP
    x = begin + timed.bandwidth * scale
    svg.line([(x, top - 14), (x, bottom)], "way")
    svg.text(x, bottom + 14, f"a copy: {format_si(timed.bandwidth, 'B/s')}", "m")


def _log_log(svg: Svg, timed: Timed) -> None:
    intensity = timed.operations / timed.bytes_moved
    ridge = timed.rate / timed.bandwidth
    low_x = math.floor(math.log10(min(intensity, ridge)) - 0.7)
    high_x = math.ceil(math.log10(max(intensity, ridge)) + 0.7)
    speeds = {who: timed.operations / ms * 1e3 for who, ms in timed.times.items()}
    high_y = math.ceil(math.log10(timed.rate) + 0.1)
    low_y = math.floor(
        min(math.log10(10**low_x * timed.bandwidth), *map(math.log10, speeds.values()))
    )
    top, bottom = svg.bottom + 16, svg.bottom + 16 + HEIGHT
    right = WIDTH - RIGHT

    def at(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - low_x) / (high_x - low_x)
        up = (math.log10(y) - low_y) / (high_y - low_y)
        return LEFT + across * (right - LEFT), bottom - up * HEIGHT

    for power in range(low_x, high_x + 1):
        x = at(10.0**power, 10.0**low_y)[0]
        svg.line([(x, top), (x, bottom)], "line faint")
        svg.text(x, bottom + 15, f"{10.0**power:g}", "s m")
    for power in range(low_y, high_y + 1):
        y = at(10.0**low_x, 10.0**power)[1]
        svg.line([(LEFT, y), (right, y)], "line faint")
        svg.text(LEFT - 6, y + 4, format_si(10.0**power, "FLOP/s"), "s e")
    svg.text((LEFT + right) / 2, bottom + 32, "operations for each byte that must be moved", "m")
    start = max(10.0**low_x, 10.0**low_y / timed.bandwidth)
    svg.line(
        [
            at(start, start * timed.bandwidth),
            at(ridge, timed.rate),
            at(10.0**high_x, timed.rate),
        ],
        "way",
    )
    slope = at(ridge / 6, ridge / 6 * timed.bandwidth)
    svg.text(slope[0] - 10, slope[1] - 8, f"copy: {format_si(timed.bandwidth, 'B/s')}", "e")
    level = at(10.0**high_x, timed.rate)
    words = f"{timed.dtype} matmul: {format_si(timed.rate, 'FLOP/s')}"
    svg.text(level[0] - 4, level[1] - 8, words, "e")
    roof = min(timed.rate, intensity * timed.bandwidth)
    svg.line([at(intensity, 10.0**low_y), at(intensity, roof)], "dashed")
    entries = []
    for number, (who, speed) in enumerate(speeds.items()):
        x, y = at(intensity, speed)
        svg.dot(x + 12 * (number - (len(speeds) - 1) / 2), y, 5, f"p{number % 5} ring")
        entries.append(
            (
                f"p{number % 5}",
                "",
                f"{who}: {format_si(speed, 'FLOP/s')}, {timed.times[who]:.3g} ms",
            )
        )
    svg.bottom = bottom + 36
    legend(svg, entries)
