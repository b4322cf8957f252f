"""Gluon kernels in the interpreter: right in every order, and each synchronisation that is missed.

A wrong kernel is a right one with one edit, of a line that its source has.
"""

from __future__ import annotations

import importlib.util
import linecache
import sys
from pathlib import Path

import pytest
import torch

from kernelgauge.memory.watch import Watch
from tests.launching import interpreted_only

pytestmark = interpreted_only

KERNELS = Path(__file__).parent / "gluon_kernels.py"
ORDERS = 200


def load(source: str, path: Path):
    path.write_text(source)
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def run(module, name: str, seed: int) -> None:
    """Run one kernel of the file, and compare its result."""
    with Watch(order="shuffled", seed=seed):
        result, expected = getattr(module, name)()
    torch.testing.assert_close(result, expected, rtol=1e-2, atol=1e-2)


NAMES = ("ring", "copied", "prefetched", "product", "divided")


@pytest.mark.parametrize("name", NAMES)
def test_a_right_kernel_is_right_in_every_order(name, tmp_path):
    module = load(KERNELS.read_text(), tmp_path / "right_gluon.py")
    for seed in range(ORDERS):
        run(module, name, seed)
