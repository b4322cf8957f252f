"""diagnosis.influence: what a wrong element depends on, and by the reference must or must not."""

from __future__ import annotations

import math
import re

import pytest
import torch
import triton
import triton.language as tl

from kernelgauge import results
from kernelgauge.core import timeouts, work
from kernelgauge.core.dtypes import double, wide
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.diagnosis import influence
from kernelgauge.diagnosis.observations import _to_look_at, diagnose
from kernelgauge.diagnosis.symptoms import VAGUE
from kernelgauge.kernel import Kernel
from kernelgauge.numerics.compare import Rule, compare
from kernelgauge.words import message, parts, say, symptom
from kernelgauge.words.fault import CONSISTENT, PROVEN, SHOWN, Cause, note
from tests.diagnosing import observed


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


pytestmark = pytest.mark.skipif(not settings.interpreted, reason="runs in the interpreter alone")
X, W = randn(6, 100), randn(100, seed=1)


def said(subject, reference, index=None, allowed=1e-5, numbers=None, **tensors):
    """Return what is said of a wrong element of what a function returns, "" for nothing.

    index: the element, by default the one that is furthest off
    """
    numbers = numbers or {}
    got = subject(**tensors, **numbers)
    truth = reference(**{name: wide(x) for name, x in tensors.items()}, **numbers)
    if index is None:
        error = (double(got) - truth).abs()
        index = tuple((error == error.max()).nonzero()[0])

    def referred(values):
        given = tensors | numbers | values
        given = {n: wide(x) if isinstance(x, torch.Tensor) else x for n, x in given.items()}
        return (reference(**given),)

    def called(values):
        return double(subject(**tensors | numbers | values))[index].item()

    element = influence.Element(
        "the result",
        0,
        tuple(map(int, index)),
        got.dtype,
        allowed,
        double(got)[index].item(),
        {name: x for name, x in tensors.items() if x.is_floating_point()},
        numbers,
        referred,
        called,
    )
    found = influence.depends(element)
    return say(found) if found else ""


# What is missed


@pytest.mark.parametrize(
    ("part", "missed"),
    [
        (slice(96), "x[2, 96..99]"),
        (slice(1, None), "x[2, 0]"),
        (slice(37, None), "x[2, 0..36]"),
        (slice(99, None), "x[2, 0..98]"),
    ],
)
def test_a_range_that_is_not_seen(part, missed):
    found = said(lambda x: x[:, part].sum(1), lambda x: x.sum(1), index=(2,), x=X)
    assert found == (
        f"depends: the result at [2] does not change with {missed}, and by the reference it must"
    )


def test_a_range_in_the_middle():
    def subject(x):
        return torch.cat([x[:, :32], x[:, 64:]], 1).sum(1)

    found = said(subject, lambda x: x.sum(1), index=(2,), x=X)
    assert "does not change with x[2, 32..63]," in found


def test_an_input_that_is_ignored():
    found = said(lambda x, w: x.clone(), lambda x, w: x + w, x=X, w=W)
    assert "does not change with w, and by the reference it must" in found


def test_a_number_that_is_ignored():
    def reference(x, eps):
        return x * (x.square().mean(1, keepdim=True) + eps).rsqrt()

    found = said(lambda x, eps: reference(x, 0.0), reference, numbers={"eps": 1e-2}, x=X * 0.1)
    assert "does not change with eps, and by the reference it must" in found


def test_another_row_is_seen():
    def subject(x):
        return x[[1, 2, 3, 4, 5, 0]].sum(1)

    assert said(subject, lambda x: x.sum(1), index=(2,), x=X) == (
        "depends: the result at [2] does not change with x[2], and by the reference it must; "
        "it changes with x[3], and by the reference it must not"
    )


def test_what_is_cut_off_at_0_is_seen_with_other_numbers():
    def subject(x, w):
        return (x @ w).relu()

    found = said(subject, lambda x, w: (x @ w.mT).relu(), x=randn(5, 40), w=randn(40, 40, seed=3))
    assert "does not change with w[" in found
    assert "it changes with w[" in found


def test_16_bits_hide_no_dependence():
    q, k, v = randn(8, 16).half(), randn(64, 16, seed=1).half(), randn(64, 16, seed=2).half()

    def attend(q, k, v):
        return torch.softmax(q @ k.mT / 4, -1) @ v

    def subject(q, k, v):
        return attend(q, k[40:], v[40:])

    found = said(subject, attend, allowed=2e-3, q=q, k=k, v=v)
    assert "does not change with" in found
    assert "k[0..39]" in found
    assert "v[0..39, " in found
    assert "it changes with" not in found


# What is seen


def test_rows_that_run_into_one_another():
    def reference(x):
        padded = torch.nn.functional.pad(x, (2, 2))
        return padded[:, :-4] + padded[:, 4:]

    def subject(x):
        padded = torch.nn.functional.pad(x.flatten(), (2, 2))
        return (padded[:-4] + padded[4:]).view(x.shape)

    assert said(subject, reference, index=(3, 1), x=X) == (
        "depends: the result at [3, 1] changes with x[2, 99], and by the reference it must not"
    )


def test_no_saturated_element_must_be_left_alone():
    """What the reference depends on only where other numbers allow it may be seen."""

    def reference(x):
        return x.amax(1)

    # Of a sum, each element counts, of a maximum only the largest.
    found = said(lambda x: x.sum(1), reference, index=(2,), x=X)
    assert "must not" not in found


def test_what_no_result_of_the_reference_uses_may_be_seen():
    """A kernel may take what was computed before from where it is given."""
    total = X.sum(1)

    def subject(x, total):
        return x[:, 0] + 2 * total

    assert said(subject, lambda x, total: x[:, 0] + x.sum(1), x=X, total=total) == ""


def test_weights_of_zero_are_no_reason():
    scores = torch.cat([randn(4, 50), randn(4, 50, seed=1) - 2e3], 1)

    def subject(x):
        return torch.softmax(x[:, :50], 1)[:, 0] * 1.5

    assert not said(subject, lambda x: torch.softmax(x, 1)[:, 0], x=scores, allowed=1.0)


# Where nothing is said


def test_nothing_is_said_of_another_formula():
    assert not said(lambda x, w: 2 * x * w, lambda x, w: x * w, x=X, w=W)


def test_nothing_is_said_where_ordinary_numbers_come_out_right():
    def reference(x):
        return x.where(x.abs() < 1e4, 0.0)

    x = X.clone()
    x[1, 1] = 1e5
    assert not said(lambda x: x.clone(), reference, index=(1, 1), x=x)


def test_nothing_is_said_of_nan():
    x = X.clone()
    x[1, 1] = math.nan
    assert not said(lambda x: x.sum(1), lambda x: x[:, 2:].sum(1), index=(1,), x=x)


def test_ties_are_no_dependence():
    x = torch.randint(0, 3, (6, 100), generator=torch.Generator().manual_seed(0)).float()

    def last_of_equal(x):
        return 99 - x.flip(1).argmax(1)

    assert not said(last_of_equal, lambda x: x.argmax(1), allowed=0.0, x=x)


def test_an_index_shows_what_was_not_searched():
    found = said(lambda x: x[:, :64].argmax(1), lambda x: x.argmax(1), (2,), allowed=0.0, x=X)
    assert not found or "x[2, 64..99]" in found


def test_nothing_is_said_of_a_subject_that_raises_or_forgets():
    calls = []

    def raises(x):
        calls.append(1)
        if len(calls) > 3:
            raise Wrong(compare(torch.zeros(1), torch.ones(1).double(), torch.ones(1)).fault())
        return x[:, 1:].sum(1)

    def forgets(x):
        calls.append(1)
        return x.sum(1) + len(calls)

    assert not said(raises, lambda x: x.sum(1), index=(2,), x=X)
    assert not said(forgets, lambda x: x.sum(1), index=(2,), x=X)


def test_calls_are_limited(monkeypatch):
    calls = []

    def subject(x, w):
        calls.append(1)
        return 2 * x * w

    said(subject, lambda x, w: x * w, x=X, w=W)
    assert len(calls) <= 1 + influence.MAX_CALLS
    monkeypatch.setattr(influence, "MAX_CALLS", 2)
    calls.clear()
    said(subject, lambda x, w: x * w, x=X, w=W)
    assert len(calls) == 3


# Kernels


@triton.jit
def short_rows_kernel(x_ptr, y_ptr, N, shift, BLOCK: tl.constexpr):
    row, offs = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + shift + offs, mask=offs < N - 2 * shift, other=0.0)
    tl.store(y_ptr + row, tl.sum(x))


def short_rows(x):
    y = torch.empty(x.shape[0])
    short_rows_kernel[(x.shape[0],)](x, y, x.shape[1], 2, BLOCK=128)
    return y


def sums(x):
    return x.sum(1)


@triton.jit
def add_to_first_kernel(y_ptr, x_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(x_ptr + offs // 3, mask=mask, other=0.0)
    tl.store(y_ptr + offs, tl.load(y_ptr + offs, mask=mask, other=0.0) + x, mask=mask)


def add_to(y, x):
    add_to_first_kernel[(triton.cdiv(x.numel(), 32),)](y, x, x.numel(), BLOCK=32)


def added_to(y, x):
    y += x


def wrong_of(kernel, *inputs):
    with pytest.raises(Wrong) as raised:
        kernel.check(*inputs)
    return raised.value.fault


def depends(fault):
    return [text for what, text in parts(fault) if what == "depends"]


def test_a_kernel_is_called_again():
    kernel = Kernel(short_rows, reference=sums, strict=True)
    fault = wrong_of(kernel, X)
    (line,) = depends(fault)
    row = fault.numbers["index"][0]
    assert f"the result at [{row}] does not change with x[{row}, 0..1]," in line
    assert depends(symptom(fault)) == []
    # Neither the inputs nor what is said depend on the calls before.
    assert message(wrong_of(kernel, X)) == message(fault)


def hangs(x):
    while x[0, 0] != X[0, 0]:
        pass
    return short_rows(x)


def test_a_call_that_never_ends_is_given_up(monkeypatch):
    monkeypatch.setattr(results, "MAX_SECONDS_TO_DEPEND", 0.3)
    monkeypatch.setattr(timeouts, "seconds_left", lambda: math.inf)
    kernel = Kernel(hangs, reference=sums)
    kernel.run.defers = True
    with pytest.raises(Wrong) as raised:
        kernel.check(X)
    (fault,) = diagnose([raised.value.observation])
    assert fault.kind == "wrong-result"
    assert not depends(fault)


def prints_rows(x):
    print("called")
    return short_rows(x)


def test_what_the_calls_print_is_not_shown(capsys, monkeypatch):
    monkeypatch.setattr(influence, "MAX_CALLS", 0)
    kernel = Kernel(prints_rows, reference=sums, strict=True)
    wrong_of(kernel, X)
    without = capsys.readouterr().out
    monkeypatch.setattr(influence, "MAX_CALLS", 64)
    assert depends(wrong_of(kernel, X))
    assert capsys.readouterr().out == without


@pytest.mark.parametrize("how", ["closely", "breakpoint", "sealed"])
def test_no_call_is_made_where_it_would_disturb(how, monkeypatch):
    kernel = Kernel(short_rows, reference=sums, strict=True)
    if how == "closely":
        kernel.run.closely = False
    elif how == "sealed":
        monkeypatch.setattr(settings, "sealed", True)
    else:
        monkeypatch.setattr(results, "STOPS", re.compile("short_rows"))
    assert not depends(wrong_of(kernel, X))


def test_strides_stay_as_they_are():
    kernel = Kernel(short_rows, reference=sums, strict=True)
    (line,) = depends(wrong_of(kernel, randn(100, 6).T))
    assert "it changes with x[" in line


def test_a_kernel_that_works_in_place():
    kernel = Kernel(add_to, reference=added_to, in_place=("y",), strict=True)
    y, x = randn(64), randn(64, seed=1)
    fault = wrong_of(kernel, y, x)
    (index,) = fault.numbers["index"]
    assert depends(fault) == [
        f"depends: y at [{index}] does not change with x[{index}], and by the reference it must; "
        f"it changes with x[{index // 3}], and by the reference it must not"
    ]


def test_nothing_is_counted_as_work_of_the_case(monkeypatch):
    kernel = Kernel(short_rows, reference=sums, strict=True)
    with work.at_most(1e6) as meter:
        wrong_of(kernel, X)
    before = meter.spent
    monkeypatch.setattr(influence, "MAX_CALLS", 0)
    with work.at_most(1e6) as meter:
        wrong_of(kernel, X)
    assert meter.spent == before


def test_what_is_sorted_may_be_relied_on():
    assert influence.is_sorted(torch.arange(5.0).half())
    assert influence.is_sorted(-torch.arange(5.0))
    assert not any(map(influence.is_sorted, (X, torch.ones(5), torch.ones(()), torch.zeros(0, 3))))
    assert not influence.is_sorted(torch.ones(4, dtype=torch.complex64))


# Which case is looked at


def case(found, cause=None):
    got, truth = torch.zeros(8), torch.arange(8.0, dtype=torch.float64) + 1
    seen = observed(got, truth, Rule(truth, truth).mismatch(got), known=cause)
    seen.depends = lambda: found
    return seen


A_PART = note("part-of-input", tensor="x", ends=[[3, 3]])
FOUND = note("depends", result="y", index=[1], missed=[A_PART], seen=[])


def test_it_is_said_of_the_first_case_alone():
    first, second = diagnose([case(FOUND), case(FOUND)])
    assert [bool(depends(it)) for it in (first, second)] == [True, False]


@pytest.mark.parametrize(
    ("name", "known", "is_looked_at"),
    [
        ("terms-wrong", CONSISTENT, True),
        ("sign-lost", CONSISTENT, False),
        ("terms-wrong", SHOWN, False),
        ("terms-wrong", PROVEN, False),
    ],
)
def test_a_cause_that_is_known_is_enough(name, known, is_looked_at):
    one, other = case(FOUND), case(FOUND)
    cause = Cause(note(name), known, 2, 2)
    causes = {id(one): cause, id(other): cause}
    assert (_to_look_at([one, other], causes, VAGUE) is one) == is_looked_at
