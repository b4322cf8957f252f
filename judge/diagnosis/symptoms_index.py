"""Symptoms of a result that is an index into the rows of an input: see symptoms.py."""

from __future__ import annotations

from judge.diagnosis.wrong_result import Symptom, WrongResult


def tie(result: WrongResult) -> Symptom | None:
    """Indices of equal values: the wrong one of them was chosen."""
    if not (name := result.index_of_row()):
        return None
    value, rows = result.inputs[name], result.wrong.nonzero()[:, 0]
    got, expected = result.got[rows].long(), result.truth[rows].long()
    inside = (got >= 0) & (got < value.shape[1])
    if not inside.all():
        return None
    chosen, right = value[rows, got], value[rows, expected]
    if (chosen == right).all():
        side = "a later" if (got > expected).all() else "another"
        return Symptom(
            f"{name} holds the same value at both indices, and {side} one was chosen",
            "ties that are not broken in favour of the first index",
        )
    if right.isnan().all():
        return Symptom(
            f"{name} holds NaN at the index that is expected",
            "a comparison with NaN, which is false: NaN is passed over, or what follows takes its "
            "place",
        )
    return None


def past_the_end(result: WrongResult) -> Symptom | None:
    if not (name := result.index_of_row()):
        return None
    length = result.inputs[name].shape[1]
    if not (result.got[result.wrong] >= length).all():
        return None
    return Symptom(
        f"the wrong indices are {length} or more, past the end of the rows of {name}",
        "a masked-off lane that wins the search: give it other=-inf, and -inf must not lose to it",
    )


def never_larger(result: WrongResult) -> Symptom | None:
    if not (name := result.index_of_row()):
        return None
    largest = result.inputs[name].amax(1)
    if (result.got[result.wrong] == 0).all() and (largest[result.wrong] < 0).all():
        return Symptom(
            f"the index is 0 in rows of {name} that are negative throughout",
            "a search that starts from 0, which nothing there exceeds: start from -inf",
        )
    return None
