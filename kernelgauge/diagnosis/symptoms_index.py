"""Symptoms of a result that is an index into the rows of an input: see symptoms.py."""

from __future__ import annotations

import math

from kernelgauge.diagnosis.wrong_result import Symptom, WrongResult
from kernelgauge.words.fault import note


def wrong_index(result: WrongResult) -> Symptom | None:
    """Detect ties, NaN, masked lanes and a start from 0 that mislead a search in each row."""
    if not (name := result.index_of_row()):
        return None
    value, rows = result.inputs[name], result.wrong.nonzero()[:, 0]
    got, expected = result.got[rows].long(), result.truth[rows].long()
    length = value.shape[1]
    if ((got >= 0) & (got < length)).all():
        chosen, right = value[rows, got], value[rows, expected]
        if (chosen == right).all():
            pattern = "later-of-equal" if (got > expected).all() else "another-of-equal"
            return Symptom(note(pattern, name=name), note("ties-broken-wrongly"))
        if right.isnan().all():
            return Symptom(note("nan-at-index", name=name), note("nan-not-compared"))
    if (got >= length).all():
        past = note("index-past-the-end", name=name, length=length)
        begun = (value[rows] == -math.inf).all()
        return Symptom(past, note("masked-lane-or-start-wins" if begun else "masked-lane-wins"))
    if (got == 0).all() and (value[rows].amax(1) < 0).all():
        return Symptom(note("index-0-of-negative-row", name=name), note("search-from-0"))
    return None
