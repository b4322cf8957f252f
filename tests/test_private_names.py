"""The page of private names lacks none, and says what is so."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from course import private_names
from kernelgauge.interpreter import patches

pytestmark = pytest.mark.proof

# Modules that a dotted name leads through.
PATHS = {"_C", "_ops", "_pytest", "_python_dispatch", "_pytree"}


def is_named(name):
    return any(fnmatchcase(name, pattern) for pattern in private_names.named())


def test_each_private_name_has_a_row():
    missing = {
        name: module
        for name, module in private_names.private().items()
        if name not in PATHS and not is_named(name)
    }
    assert not missing, f"what are they used for? say so in {private_names.TABLE}"


def test_each_patch_has_a_row():
    replaced = [f"{owner.__name__}.{name}" for owner, name, _ in patches.PATCHES]
    assert not [it for it in replaced if not is_named(it.rpartition(".")[2])]


def test_the_page_is_made_of_the_table():
    again = "run `python -m course.private_names`"
    assert private_names.PAGE.read_text() == private_names.page(), again


def test_each_name_is_used_by_someone():
    lines = private_names.PAGE.read_text().splitlines()
    rows = [line.split(" | ") for line in lines if "| " in line]
    assert not [row[0] for row in rows if not row[1].strip()]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import torch\ntorch._int_mm(a, b)", {"_int_mm"}),
        ("from torch.utils._pytree import tree_leaves", {"_pytree"}),
        ("Cache.for_config(config, _ispytest=True)", {"_ispytest"}),
        ("def _own(): pass\n_own()\nself._kept = 1\nother._kept", set()),
    ],
)
def test_what_counts_as_private(source, names, tmp_path, monkeypatch):
    (tmp_path / "kernelgauge").mkdir()
    (tmp_path / "kernelgauge" / "module.py").write_text(source)
    monkeypatch.setattr(private_names, "ROOT", tmp_path)
    monkeypatch.setattr(private_names, "_modules", private_names._modules.__wrapped__)
    assert private_names.private().keys() == names
