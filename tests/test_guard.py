"""What a launcher may do, and what it is caught at."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from judge.core.settings import settings
from judge.core.verdict import Wrong
from judge.subject.canaries import Arena
from judge.subject.guard import MAX_SCALARS_READ, Guard


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
    "compiled": (lambda x: torch.nn.functional.softmax(x, dim=-1), "softmax"),
}


@pytest.mark.parametrize("action", ALLOWED)
def test_allowed(x, action):
    guard = Guard("subject")
    with guard.watching():
        ALLOWED[action](x)
    assert guard.violations == []
    guard.check_canaries()


@pytest.mark.parametrize("action", FORBIDDEN)
def test_forbidden_is_named(x, action):
    act, name = FORBIDDEN[action]
    guard = Guard("subject")
    with pytest.raises(Wrong), guard.watching():
        act(x)
    assert name in guard.violations[0]
    assert "outside a kernel" in guard.violations[0]


def test_swallowed_violation_is_kept(x):
    guard = Guard("subject")
    with guard.watching():
        try:
            x + x
        except Exception:
            pass
    assert len(guard.violations) == 1


def test_thread_is_forbidden(x):
    guard = Guard("subject")
    thread = threading.Thread(target=lambda: x.sum())
    with pytest.raises(Wrong), guard.watching():
        thread.start()
    assert "a thread" in guard.violations[0]


def test_everything_is_as_before_afterwards(x):
    before = (torch.Tensor.numpy, torch.Tensor.tolist, threading.Thread.start)
    with Guard("subject").watching():
        pass
    assert before == (torch.Tensor.numpy, torch.Tensor.tolist, threading.Thread.start)
    x.tolist()


def test_fresh_memory_reads_as_nan():
    with Guard("subject").watching():
        fresh = [
            torch.empty(5, dtype=dtype, device=settings.device)
            for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
        ]
    assert all(tensor.isnan().all() for tensor in fresh)


def test_allocations_hold_what_torch_says():
    with Guard("subject").watching():
        zeros = torch.zeros(3, 2, dtype=torch.float16, device=settings.device)
        full = torch.full((3,), 7, dtype=torch.int64, device=settings.device)
    assert zeros.eq(0).all()
    assert full.eq(7).all()
    assert zeros.stride() == (2, 1)


@pytest.mark.parametrize("place", [-1, 10, 4000, -4000])
def test_a_byte_beside_a_tensor_is_seen(place):
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


def test_changed_input_is_seen():
    x = torch.randn(5, device=settings.device)
    arena = Arena.like(x, "x")
    arena.fill(x)
    before = arena.buffer.clone()
    arena.tensor[2] += 1
    with pytest.raises(Wrong, match="the input x was changed"):
        arena.check(before)


def test_gaps_of_a_strided_input_are_poisoned_and_watched():
    x = torch.randn(8, device=settings.device)[::2]
    arena = Arena.like(x, "x")
    arena.fill(x)
    gap = arena.tensor.as_strided((1,), (1,), arena.tensor.storage_offset() + 1)
    assert gap.isnan().all()
    before = arena.buffer.clone()
    gap.fill_(0)
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


HALF, SINGLE, WHOLE = torch.float16, torch.float32, torch.int64


@pytest.mark.parametrize("dtype", [HALF, torch.bfloat16, SINGLE, torch.complex64, WHOLE])
def test_elements_that_nobody_stored_are_known(dtype):
    guard = Guard("subject")
    with guard.watching():
        y = torch.empty(6, 4, dtype=dtype, device=settings.device)
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
def test_what_was_stored_is_never_taken_for_fresh(dtype, value):
    # The first byte of the pattern is another every time: int32 -63 is made of one of them.
    for _ in range(70):
        guard = Guard("subject")
        with guard.watching():
            y = torch.empty(8, dtype=dtype, device=settings.device)
        y[:] = torch.full((8,), value, dtype=dtype)
        assert guard.stored(y).all()


def test_what_the_launcher_filled_counts_as_stored(x):
    guard = Guard("subject")
    with guard.watching():
        y = torch.zeros_like(x)
    assert guard.stored(y).all()
