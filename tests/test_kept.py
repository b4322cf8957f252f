"""What is kept while the same cases are graded again and again."""

from __future__ import annotations

import pytest
import torch

from course.proof.kept import Kept
from kernelgauge.core.arguments import Arguments

X = torch.arange(6.0).reshape(2, 3)


def arguments(x: torch.Tensor, y: torch.Tensor = X, scale: float = 1.0) -> Arguments:
    return Arguments(("x", "y", "scale"), (x, y), {"scale": scale})


@pytest.fixture
def counted():
    """A function that counts its calls."""
    calls = iter(range(100))
    return lambda: next(calls)


def test_the_same_contents_are_computed_once(counted):
    kept = Kept()
    with kept.about("a puzzle"):
        assert kept.get("truth", arguments(X), counted) == 0
        assert kept.get("truth", arguments(X.clone(), X.clone()), counted) == 1
        assert kept.get("truth", arguments(X), counted) == 0


@pytest.mark.parametrize(
    "other",
    [
        arguments(X + 1),
        arguments(-X),
        arguments(X.double()),
        arguments(X.reshape(3, 2)),
        arguments(X.T.contiguous().T),
        arguments(X, X, 2.0),
    ],
    ids=["numbers", "signs", "dtype", "shape", "strides", "options"],
)
def test_other_contents_are_computed_anew(counted, other):
    kept = Kept()
    with kept.about("a puzzle"):
        kept.get("truth", arguments(X), counted)
        assert kept.get("truth", other, counted) == 1
        assert kept.get("own", arguments(X), counted) == 2


def test_results_of_another_subject_are_forgotten(counted):
    kept = Kept()
    for number, subject in enumerate(("one", "other", "one")):
        with kept.about(subject):
            assert kept.get("truth", arguments(X), counted) == number
    with kept.about("one"):
        assert kept.get("truth", arguments(X), counted) == 2


def test_nothing_is_kept_outside(counted):
    kept = Kept()
    for number in range(2):
        assert kept.get("truth", arguments(X), counted) == number


def test_shapes_without_contents_are_not_kept(counted):
    kept = Kept()
    with kept.about("a puzzle"):
        for number in range(2):
            assert kept.get("truth", arguments(X.to("meta")), counted) == number
