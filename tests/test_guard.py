"""What a launcher may do, what is reported if it does more, and canaries around its memory."""

from __future__ import annotations

import contextlib
import threading

import numpy as np
import pytest
import torch

from kernelgauge import words
from kernelgauge.core import paths
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.subject.canaries import Arena
from kernelgauge.subject.guard import MAX_SCALARS_READ, Guard


@pytest.fixture
def x():
    return torch.randn(6, 4, device=settings.device)


ALLOWED = {
    "empty": lambda x: torch.empty(3, device=x.device),
    "empty_like": torch.empty_like,
    "empty_strided": lambda x: torch.empty_strided((2, 3), (1, 2), device=x.device),
    "new_empty": lambda x: x.new_empty(3),
    "zeros": lambda x: torch.zeros(3, dtype=torch.int32, device=x.device),
    "full_like": lambda x: torch.full_like(x, -1.0),
    "zero_ of its own": lambda x: x.new_empty(3).zero_(),
    "views": lambda x: x.T.unsqueeze(0)[:, 1:].expand(2, -1, -1).detach().view(2, 3, 6),
    "contiguous of contiguous": lambda x: x.contiguous().view(-1),
    "flatten of contiguous": lambda x: x.flatten(),
    "queries": lambda x: (x.shape, x.stride(), x.is_contiguous(), x.data_ptr(), x.numel(), x.dim()),
    "one scalar": lambda x: x[0, 0].item(),
    "split": lambda x: x.split(2),
    "empty_permuted": lambda x: torch.empty_permuted((2, 3), (1, 0), device=x.device),
    "a range for a profiler": lambda x: torch.profiler.record_function("pass").__enter__(),
}

FORBIDDEN = {
    "add": (lambda x: x + x, "torch's add"),
    "sum": (lambda x: x.sum(), "torch's sum"),
    "clone": (lambda x: x.clone(), "it copies memory"),
    "contiguous": (lambda x: x.T.contiguous(), "it copies memory"),
    "reshape": (lambda x: x.T.reshape(-1), "it copies memory"),
    "to": (lambda x: x.to(torch.float64), "it copies memory"),
    "in place": (lambda x: x.mul_(2), "torch's mul"),
    "zero_ of the input": (lambda x: x.zero_(), "torch's zero"),
    "copy_": (lambda x: torch.empty_like(x).copy_(x), "it copies memory"),
    "random": (lambda x: torch.rand(3), "torch's rand"),
    "out=": (lambda x: torch.add(x, x, out=torch.empty_like(x)), "torch's add"),
    "torch.tensor": (lambda x: torch.tensor([1.0]), "torch.tensor"),
    "from_numpy": (lambda x: torch.from_numpy(np.zeros(3)), "torch.from_numpy"),
    "numpy": (lambda x: x.numpy(), "Tensor.numpy"),
    "tolist": (lambda x: x.tolist(), "Tensor.tolist"),
    "np.asarray": (lambda x: np.asarray(x), "Tensor.__array__"),
    "scalars": (
        lambda x: [x[0, 0].item() for _ in range(MAX_SCALARS_READ + 1)],
        f"item() more than {MAX_SCALARS_READ} times",
    ),
    "thread": (lambda x: threading.Thread(target=x.sum).start(), "a thread"),
    "compiled": (lambda x: torch.nn.functional.softmax(x, dim=-1), "softmax"),
}


@pytest.mark.parametrize("action", ALLOWED)
def test_allowed(x, action):
    guard = Guard("subject")
    with guard.watching():
        ALLOWED[action](x)
    assert guard.violations == []
    guard.check_canaries()


OPERATOR = """
import torch

@torch.library.custom_op("kata_tests::fresh", mutates_args=())
def fresh(x: torch.Tensor) -> torch.Tensor:
    return {returned}
"""


@pytest.mark.parametrize("returned", ["torch.empty_like(x)", "x * 2"])
def test_an_operator_of_the_subject_is_a_part_of_it(x, returned, tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "subjects", tmp_path)
    path = tmp_path / "fresh.py"
    path.write_text(OPERATOR.format(returned=returned))
    fresh, guard = paths.load(path).fresh, Guard("subject")
    with contextlib.suppress(Wrong), guard.watching():
        fresh(x)
    told = [words.message(fault) for fault in guard.violations]
    assert len(guard.arenas) + len(told) == 1
    assert all("torch's mul" in it for it in told)
    assert bool(told) is (returned == "x * 2")


@pytest.mark.parametrize("action", FORBIDDEN)
def test_forbidden_operation_is_named(x, action):
    act, name = FORBIDDEN[action]
    guard = Guard("subject")
    with pytest.raises(Wrong), guard.watching():
        act(x)
    (fault,) = guard.violations
    assert fault.kind == "outside-kernel"
    assert name in words.message(fault)
    assert "outside a kernel" in words.message(fault)


def test_swallowed_violation_is_kept(x):
    guard = Guard("subject")
    with guard.watching(), contextlib.suppress(Exception):
        x + x
    assert len(guard.violations) == 1


def test_patches_are_undone(x):
    before = (torch.Tensor.numpy, torch.Tensor.tolist, threading.Thread.start)
    with Guard("subject").watching():
        pass
    assert before == (torch.Tensor.numpy, torch.Tensor.tolist, threading.Thread.start)
    x.tolist()


def allocated(*shape: int, dtype: torch.dtype) -> tuple[Guard, torch.Tensor]:
    """Return fresh memory as a launcher gets it, and the guard that knows it."""
    guard = Guard("subject")
    with guard.watching():
        return guard, torch.empty(shape, dtype=dtype, device=settings.device)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_fresh_memory_reads_as_nan(dtype):
    assert allocated(5, dtype=dtype)[1].isnan().all()


def test_filled_allocations_hold_what_torch_says():
    with Guard("subject").watching():
        zeros = torch.zeros(3, 2, dtype=torch.float16, device=settings.device)
        full = torch.full((3,), 7, dtype=torch.int64, device=settings.device)
    assert zeros.eq(0).all()
    assert full.eq(7).all()
    assert zeros.stride() == (2, 1)


@pytest.mark.parametrize("place", [-1, 10, 4000, -4000])
def test_store_outside_a_tensor_is_seen(place):
    arena = Arena.like(torch.zeros(10, dtype=torch.int8, device=settings.device), "y")
    arena.check()
    beside = arena.tensor.as_strided((1,), (1,), arena.tensor.storage_offset() + place)
    beside.fill_(3)
    side = "before its beginning" if place < 0 else "past its end"
    with pytest.raises(Wrong, match=f"memory outside y was overwritten: 1 bytes {side}"):
        arena.check()


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(7, 5),
        lambda: torch.randn(7, 5).T,
        lambda: torch.randn(14, 10)[::2, ::5],
        lambda: torch.randn(1, 5).expand(7, 5),
        lambda: torch.randn(36)[1:].view(7, 5),
        lambda: torch.randn(()),
        lambda: torch.randn(0, 5),
    ],
)
def test_arena_keeps_geometry_and_contents(make):
    source = make().to(settings.device)
    arena = Arena.like(source, "x")
    arena.fill(source)
    assert torch.equal(arena.tensor, source)
    assert arena.tensor.stride() == source.stride()
    assert (arena.tensor.data_ptr() - source.data_ptr()) % 64 == 0 or not source.numel()
    arena.check(arena.buffer.clone())


@pytest.mark.parametrize(
    ("step", "place"), [(1, 2), (2, 1)], ids=["element", "gap_between_elements"]
)
def test_changed_input_is_seen(step, place):
    x = torch.randn(8, device=settings.device)[::step]
    arena = Arena.like(x, "x")
    arena.fill(x)
    changed = arena.tensor.as_strided((1,), (1,), arena.tensor.storage_offset() + place)
    assert changed.isnan().all() == (place % step != 0)
    before = arena.buffer.clone()
    changed.fill_(0)
    with pytest.raises(Wrong, match="the input x was changed"):
        arena.check(before)


def test_what_the_launcher_filled_is_known(x):
    guard = Guard("subject")
    with guard.watching():
        filled = [torch.zeros_like(x), x.new_empty(6).fill_(3), x.new_empty(2, 3).view(-1).zero_()]
        part = x.new_empty(6)
        part[:3].zero_()
    assert all(guard.has_filled(tensor) for tensor in filled)
    assert not guard.has_filled(part)
    assert not guard.has_filled(x)
    assert guard.stored(filled[0]).all()


HALF, SINGLE, WHOLE = torch.float16, torch.float32, torch.int64


@pytest.mark.parametrize("dtype", [HALF, torch.bfloat16, SINGLE, torch.complex64, WHOLE])
def test_elements_that_nothing_was_stored_to_are_known(dtype):
    guard, y = allocated(6, 4, dtype=dtype)
    missing = torch.zeros(6, 4, dtype=torch.bool)
    missing[2, 1:3] = missing[5, 3] = missing[0, 0] = True
    y[~missing.to(y.device)] = 7
    assert (guard.stored(y) == ~missing.numpy()).all()
    assert (guard.stored(y[1:]) == ~missing[1:].numpy()).all()
    assert (guard.stored(y.T) == ~missing.T.numpy()).all()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (HALF, float("nan")),
        (HALF, -float("nan")),
        (torch.bfloat16, -float("nan")),
        (SINGLE, -float("nan")),
        (WHOLE, -1),
        (torch.int32, -63),
        (torch.int16, -1),
        (torch.bool, True),
        (torch.complex128, float("nan")),
    ],
)
def test_stored_values_are_never_taken_for_fresh_memory(dtype, value):
    # The first byte of the pattern changes every time. int32 -63 is one of those patterns.
    for _ in range(70):
        guard, y = allocated(8, dtype=dtype)
        y[:] = torch.full((8,), value, dtype=dtype)
        assert guard.stored(y).all()
