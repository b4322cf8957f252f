"""Which bytes are elements of a view, and their coordinates, against plain models."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from kernelgauge.memory import addresses
from kernelgauge.memory.addresses import Region, Storage
from tests.launching import interpreted_only

pytestmark = interpreted_only


def random_region(chance: random.Random) -> Region:
    """A view with any strides that torch allows: permuted, with gaps, overlapping, stride 0."""
    shape = [chance.choice([1, 2, 3, 5]) for _ in range(chance.randint(1, 3))]
    strides = [chance.choice([0, 1, 2, 3, 5, 7, 15]) for _ in shape]
    dtype = chance.choice([torch.int8, torch.float16, torch.float32, torch.float64])
    offset = chance.randint(0, 3)
    view = torch.zeros(300, dtype=dtype).as_strided(shape, strides, offset)
    return Region("x", view, Storage(view))


def own_bytes(region: Region) -> set[int]:
    """Byte offsets, from the first element, of all its elements."""
    size = region.itemsize
    starts = {0}
    for length, stride in zip(region.shape, region.strides, strict=True):
        starts = {start + i * stride * size for start in starts for i in range(length)}
    return {start + byte for start in starts for byte in range(size)}


@pytest.mark.parametrize("mapped", [addresses.MAX_MAPPED_ELEMENTS, 0], ids=["map", "arithmetic"])
def test_elements_of_any_view(monkeypatch, mapped):
    monkeypatch.setattr(addresses, "MAX_MAPPED_ELEMENTS", mapped)
    chance = random.Random(0)
    exact = 0
    for _ in range(300):
        region = random_region(chance)
        own = own_bytes(region)
        if not mapped and not region.dense and not region._nested:
            continue
        exact += 1
        for size in (1, 2, 4, 8):
            offsets = np.arange(-40, region.extent + 40)
            expected = [
                (offset + region.real) % size == 0
                and all(byte in own for byte in range(offset, offset + size))
                for offset in offsets
            ]
            assert region.holds(offsets, size).tolist() == expected
    assert exact > 50


def test_coordinates_of_any_view_without_overlap():
    chance = random.Random(1)
    for _ in range(1000):
        region = random_region(chance)
        shape, strides = region.shape, region.strides
        if not region._nested:
            continue
        index = [chance.randrange(size) for size in shape]
        element = sum(i * s for i, s in zip(index, strides, strict=True))
        found = [i if i is None else int(i[0]) for i in region.coordinates(np.array([element]))]
        assert element == sum(i * s for i, s in zip(found, strides, strict=True) if i is not None)
        if 1 not in shape and len(set(strides)) == len(shape):
            assert found == [i if s else None for i, s in zip(index, strides, strict=True)]
