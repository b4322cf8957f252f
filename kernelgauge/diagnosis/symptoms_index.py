"""Symptoms of a result that is an index into the rows of an input: see symptoms.py."""

from __future__ import annotations

from kernelgauge.diagnosis.wrong_result import Symptom, WrongResult


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
            side = "a later" if (got > expected).all() else "another"
            return Symptom(
                f"{name} holds the same value at both indices, and {side} one was chosen",
                "ties are not broken in favour of the first index",
            )
        if right.isnan().all():
            return Symptom(
                f"{name} holds NaN at the expected index",
                "comparisons with NaN are false: NaN is skipped, or a later value replaces it",
            )
    if (got >= length).all():
        return Symptom(
            f"the wrong indices are {length} or more, past the end of the rows of {name}",
            "a masked lane wins the search: load with other=-inf, and let a real -inf win over it",
        )
    if (got == 0).all() and (value[rows].amax(1) < 0).all():
        return Symptom(
            f"the index is 0 in rows of {name} whose values are all negative",
            "the search starts from 0, which no negative value exceeds: start from -inf",
        )
    return None
