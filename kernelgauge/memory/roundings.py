"""Runs in which numbers are rounded to 16 bits otherwise than to nearest even, line by line."""

from __future__ import annotations

from types import TracebackType

import numpy as np

from kernelgauge.interpreter import arithmetic
from kernelgauge.memory.call_sites import CallSite, user_frame

# The bits of the fraction, and the smallest exponent of a normal number.
FRACTIONS = {"fp16": 10, "bf16": 7}
LEAST = {"fp16": -14, "bf16": -126}
# The calls that a line is named by, where it has several.
CALLS = "store", "to", "dot", "sum"


class Roundings:
    """Roundings up or down at random, the nearer the likelier: `with Roundings(seed) as roundings`.

    Their mean is the number itself, so what is lost by rounding to nearest is not lost on average.

    seed: of what is drawn; None for no other roundings, to see where there are any
    only: the line whose numbers are rounded so; None for all
    seen: the lines that rounded numbers which have more than 16 bits, and to which format
    """

    def __init__(self, seed: int | None = None, only: CallSite | None = None) -> None:
        self._random = None if seed is None else np.random.default_rng(seed)
        self._only = only
        self.seen: dict[CallSite, str] = {}

    def __enter__(self) -> Roundings:
        arithmetic.otherwise = self._round
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        arithmetic.otherwise = None

    def _round(self, values: np.ndarray, name: str) -> np.ndarray:
        with np.errstate(all="ignore"):
            _, exponents = np.frexp(values)
            steps = np.ldexp(1.0, np.maximum(exponents - 1, LEAST[name]) - FRACTIONS[name])
            inexact = np.isfinite(values) & (np.fmod(values, steps) != 0)
        if not inexact.any() or (frame := user_frame(None)) is None:
            return values
        code = frame.f_code
        site = CallSite(code.co_filename, frame.f_lineno, code.co_name)
        self.seen[site] = name
        if self._random is None or self._only not in (None, site):
            return values
        drawn = values + (self._random.random(values.shape) - 0.5) * steps
        return np.where(inexact, drawn, values).astype(values.dtype)
