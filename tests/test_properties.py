"""Rules that hold whatever the numbers are: hypothesis looks for numbers that break them."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
import torch

from course import inputs
from kernelgauge.memory import addresses
from kernelgauge.memory.addresses import AddressSpace, Region, Storage
from kernelgauge.numerics.compare import compare
from kernelgauge.words.fault import CONSISTENT, PROVEN, Call, Cause, Fault, Note, Place, revived

pytest.importorskip("hypothesis", reason="hypothesis is a tool of the judge's authors")

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

# The same examples on every machine and in every run, and nothing kept of them.
always = settings(derandomize=True, database=None, deadline=None, max_examples=60)

FLOATS = st.sampled_from([torch.float16, torch.bfloat16, torch.float32])
SHAPES = arrays.array_shapes(max_dims=2, max_side=40)


def doubles(shapes, **limits):
    return arrays.arrays(np.float64, shapes, elements=st.floats(**limits)).map(torch.from_numpy)


# --- tolerance ---

# Sizes at which nothing is subnormal or beyond the range, also times 2**8.
ORDINARY = doubles(SHAPES, min_value=2**-4, max_value=2**4)
ERRORS = st.sampled_from([0.0, 2**-24, 2**-12, 2**-9, 2**-7, 0.5])


@st.composite
def compared(draw):
    """A result that is off in some elements, a truth, and a yardstick that is off in some rows."""
    truth, dtype, careful = draw(ORDINARY), draw(FLOATS), draw(st.booleans())

    def off_by(*shape):
        return torch.from_numpy(draw(arrays.arrays(np.float64, shape, elements=ERRORS)))

    truth = truth * off_by(*truth.shape).sub(2**-10).sign()
    rows = off_by(len(truth), *[1] * (truth.dim() - 1))
    got, yardstick = truth * (1 + off_by(*truth.shape)), truth * (1 + rows * (not careful))
    return got.to(dtype), truth, yardstick.to(dtype)


def wrong(got, truth, yardstick):
    mismatch = compare(got, truth, yardstick)
    return torch.zeros(truth.shape, dtype=torch.bool) if mismatch is None else mismatch.mask


@always
@given(truth=doubles(SHAPES, width=64), dtype=FLOATS)
def test_a_result_that_is_rounded_once_is_right(truth, dtype):
    """Whatever it holds: infinity, NaN, subnormal numbers, and what the dtype cannot hold."""
    assert compare(truth.to(dtype), truth, truth.to(dtype)) is None


@always
@given(found=compared(), power=st.integers(-8, 8))
def test_a_verdict_does_not_depend_on_the_unit(found, power):
    assume(found[0].dtype != torch.float16 or abs(power) < 4)
    scaled = (it * 2.0**power for it in found)
    assert torch.equal(wrong(*scaled), wrong(*found))


@always
@given(found=compared(), chance=st.randoms())
def test_a_verdict_does_not_depend_on_the_order_of_rows(found, chance):
    order = list(range(len(found[0])))
    chance.shuffle(order)
    assert torch.equal(wrong(*(it[order] for it in found)), wrong(*found)[order])


@always
@given(truth=ORDINARY, dtype=FLOATS, at=st.integers(0, 2**20))
def test_one_element_that_is_far_off_is_the_one_that_is_wrong(truth, dtype, at):
    got = truth.to(dtype)
    got.view(-1)[at % got.numel()] *= -1
    (place,) = wrong(got, truth, truth.to(dtype)).view(-1).nonzero()
    assert place == at % got.numel()


# --- addresses ---


@st.composite
def regions(draw):
    """A view with any strides that torch allows: permuted, with gaps, overlapping, stride 0."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=3))
    strides = [draw(st.sampled_from([0, 1, 2, 3, 5, 7, 15, 45])) for _ in sizes]
    dtype = draw(st.sampled_from([torch.int8, torch.float16, torch.float32, torch.float64]))
    view = torch.zeros(600, dtype=dtype).as_strided(sizes, strides, draw(st.integers(0, 3)))
    return Region("x", view, Storage(view))


def offset_of(index, strides):
    return sum(i * stride for i, stride in zip(index, strides, strict=True) if i is not None)


@always
@given(region=regions(), mapped=st.booleans(), size=st.sampled_from([1, 2, 4, 8]))
def test_an_access_is_within_a_tensor_if_each_of_its_bytes_is(region, mapped, size):
    assume(mapped or region.dense or region._nested)
    own = {
        offset_of(index, region.strides) * region.itemsize + byte
        for index in np.ndindex(region.shape)
        for byte in range(region.itemsize)
    }
    offsets = np.arange(-40, region.extent + 40)
    expected = [
        (at + region.real) % size == 0 and all(byte in own for byte in range(at, at + size))
        for at in offsets
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(addresses, "MAX_MAPPED_ELEMENTS", 2**24 if mapped else 0)
        assert region.holds(offsets, size).tolist() == expected


@always
@given(region=regions())
def test_coordinates_give_the_address_back(region):
    assume(region._nested)
    for index in np.ndindex(region.shape):
        element = offset_of(index, region.strides)
        found = [i if i is None else int(i[0]) for i in region.coordinates(np.array([element]))]
        assert offset_of(found, region.strides) == element
        if 1 not in region.shape and len(set(region.strides)) == len(region.shape):
            assert found == [i if s else None for i, s in zip(index, region.strides, strict=True)]


@always
@given(region=regions(), beyond=st.integers(0, 100))
def test_what_is_outside_a_tensor_has_no_coordinates_in_it(region, beyond):
    """By a whole row: an element in the gap behind a row is told as of that row."""
    assume(region._nested and any(region.strides))
    rows = zip(region.shape, region.strides, strict=True)
    past = max(size * stride for size, stride in rows) + beyond
    for element in (past, -1 - beyond):
        found = region.coordinates(np.array([element]))
        assert any(
            index is not None and not 0 <= index[0] < size
            for index, size in zip(found, region.shape, strict=True)
        )


@always
@given(
    placed=st.lists(regions(), min_size=1, max_size=5),
    far=st.lists(st.integers(-(2**42), 2**42), min_size=1, max_size=5),
)
def test_an_address_belongs_to_the_tensor_it_was_derived_from(placed, far):
    """However far a kernel moved it: so an access out of bounds is told of its tensor."""
    space = AddressSpace([])
    for region in placed:
        space.place(region)
    moved = [(region, region.virtual + by) for region in placed for by in far]
    parts = space.split(np.array([address for _, address in moved], dtype=np.uint64))
    assert sorted(lane for _, lanes in parts for lane in lanes) == list(range(len(moved)))
    assert all(moved[lane][0] is region for region, lanes in parts for lane in lanes)


# --- layouts ---

HELD = doubles(arrays.array_shapes(max_dims=3, max_side=5), allow_nan=False)


@always
@given(x=HELD, data=st.data())
def test_a_strided_tensor_holds_what_was_given_with_gaps(x, data):
    steps = [data.draw(st.integers(1, 4)) for _ in x.shape]
    made = inputs.strided(x, *steps)
    extent = [size * step for size, step in zip(x.shape, steps, strict=True)]
    assert torch.equal(made, x)
    assert list(made.stride()) == [
        step * math.prod(extent[dim + 1 :]) for dim, step in enumerate(steps)
    ]


@always
@given(x=HELD, elements=st.integers(0, 9))
def test_an_offset_tensor_holds_what_was_given_so_far_into_its_memory(x, elements):
    made = inputs.offset(x, elements)
    assert torch.equal(made, x)
    assert made.is_contiguous()
    assert made.storage_offset() == elements


@always
@given(x=doubles(st.integers(2, 9), allow_nan=False), last=st.integers(1, 10**5))
def test_elements_far_apart_are_those_that_were_given(x, last):
    made = inputs.far_apart(x, last)
    assert torch.equal(made.cpu(), x)
    assert (len(x) - 1) * made.stride(0) >= last


@always
@given(x=doubles(st.integers(1, 9), allow_nan=False), data=st.data())
def test_a_tensor_along_one_dimension_is_the_same_over_the_others(x, data):
    others = data.draw(st.lists(st.integers(1, 4), max_size=2))
    dim = data.draw(st.integers(0, len(others)))
    made = inputs.along(x, dim, *others[:dim], len(x), *others[dim:])
    assert made.shape == (*others[:dim], len(x), *others[dim:])
    for line in made.movedim(dim, -1).reshape(-1, len(x)):
        assert torch.equal(line, x)


# --- faults as data ---

WORDS = st.text(max_size=9)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.builds(Note, WORDS, st.dictionaries(st.sampled_from("abc"), inner, max_size=2))
    ),
    max_leaves=6,
)
NUMBERS = st.dictionaries(st.sampled_from(["wrong", "total", "index", "got"]), VALUES, max_size=3)
NOTES = st.builds(Note, WORDS, NUMBERS)
PLACES = st.builds(Place, WORDS, st.integers(0), st.integers(0), WORDS)
COUNTS = st.lists(st.integers(0), min_size=1, max_size=3).map(tuple)
FAULTS = st.builds(
    Fault,
    WORDS,
    st.lists(NOTES, max_size=3).map(tuple),
    place=st.none() | PLACES | st.builds(Place, WORDS, callers=st.tuples(PLACES, PLACES)),
    call=st.none() | st.builds(Call, WORDS, WORDS, WORDS),
    program=st.none() | COUNTS,
    grid=st.none() | COUNTS,
    tensor=WORDS,
    numbers=NUMBERS,
    cause=st.none()
    | st.builds(Cause, NOTES, st.sampled_from([PROVEN, CONSISTENT]), given=st.none() | NOTES),
    remedy=st.none() | NOTES,
    instead=st.none() | st.builds(Fault, WORDS, remedy=NOTES),
)


def parts(fault):
    """All that it consists of; what JSON has no numbers for is text."""
    text = json.dumps(asdict(fault), default=str)
    return json.loads(text, parse_constant=lambda constant: str(float(constant)))


@always
@given(fault=FAULTS)
def test_a_fault_is_the_same_after_json(fault):
    again = revived(json.loads(json.dumps(fault.plain(), allow_nan=False)))
    assert isinstance(again, Fault)
    assert parts(again) == parts(fault)
