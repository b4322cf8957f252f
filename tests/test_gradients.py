"""Backward passes: right ones pass, and for wrong ones the message names the gradient."""

from __future__ import annotations

import pytest
import torch

from course import inputs, paths
from course.challenge import Challenge
from kernelgauge.core import paths as core_paths
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong

REFERENCE = """
def scaled(x, y, scale=None):
    return x * x * y * (1 if scale is None else scale)
"""

SUBJECT = """
import torch, triton
import triton.language as tl

@triton.jit
def forward_kernel(x_ptr, y_ptr, out_ptr, scale, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=0.0)
    y = tl.load(y_ptr + offs, mask=offs < N, other=0.0)
    tl.store(out_ptr + offs, x * x * y * scale, mask=offs < N)

@triton.jit
def backward_kernel(
    x_ptr, y_ptr, dout_ptr, dx_ptr, dy_ptr, stride_d, scale, N, BLOCK: tl.constexpr
):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=0.0)
    y = tl.load(y_ptr + offs, mask=offs < N, other=0.0)
    dout = tl.load(dout_ptr + offs * stride_d, mask=offs < N, other=0.0) * scale
    tl.store(dx_ptr + offs, 2 * x * y * dout, mask=offs < N)
    tl.store(dy_ptr + offs, x * x * dout, mask=offs < N)

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, scale):
        out = torch.empty_like(x)
        forward_kernel[(triton.cdiv(x.numel(), 64),)](x, y, out, scale, x.numel(), BLOCK=64)
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx, dout):
        x, y = ctx.saved_tensors
        dx, dy = torch.empty_like(x), torch.empty_like(y)
        backward_kernel[(triton.cdiv(x.numel(), 64),)](
            x, y, dout, dx, dy, dout.stride(0), ctx.scale, x.numel(), BLOCK=64
        )
        return dx, dy, None

def scaled(x, y, scale=None):
    return Scaled.apply(x, y, 1.0 if scale is None else scale)
"""


@pytest.fixture
def grade(tmp_path, monkeypatch):
    """Make the puzzle `scaled`, with a text of its solution replaced."""

    def make(old: str = "", new: str = "") -> Challenge:
        assert not old or SUBJECT.count(old) == 1
        source = SUBJECT.replace(old, new) if old else SUBJECT
        (tmp_path / "reference").mkdir(exist_ok=True)
        (tmp_path / "reference" / "99_made.py").write_text(REFERENCE)
        (tmp_path / "99_made").mkdir(exist_ok=True)
        (tmp_path / "99_made" / "scaled.py").write_text(source)
        monkeypatch.setattr(paths, "REFERENCE", tmp_path / "reference")
        monkeypatch.setattr(settings, "subjects", tmp_path)
        monkeypatch.setattr(core_paths, "_modules", {})
        return Challenge("scaled", tmp_path / "99_made" / "test_scaled.py", gradients=True)

    inputs.seed("gradients")
    return make


def randn(count: int) -> list[torch.Tensor]:
    return [inputs.randn(200) for _ in range(count)]


def test_right_backward_pass(grade):
    *xy, dout = randn(3)
    grade().check(*xy, dout=dout)
    grade().check(*xy, scale=0.5, dout=dout)
    grade().check(*xy, dout=inputs.randn(1).expand(200))


def test_without_dout_the_result_alone_is_graded(grade):
    grade("2 * x * y", "3 * x * y").check(*randn(2))
    with pytest.raises(Wrong, match="wrong"):
        grade("x * x * y * scale", "x * y * scale").check(*randn(2))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2 * x * y * dout", "x * y * dout", "dx is wrong"),
        ("tl.store(dy_ptr + offs, x * x", "tl.store(dy_ptr + offs, x", "dy is wrong"),
        ("x * x * y * scale", "x * y * scale", "out is wrong"),
        ("return dx, dy, None", "return dx, None, None", "no gradient for y"),
        ("return dx, dy, None", "return dx, dx.mul(x), None", "torch's mul outside a kernel"),
        (
            "return Scaled.apply(x, y,",
            "return Scaled.apply(x.detach(), y.detach(),",
            "without a grad_fn",
        ),
        ("offs * stride_d", "offs", "between the elements|wrong in"),
    ],
    ids=["dx", "dy", "out", "no_dy", "torch", "detached", "dout_taken_as_contiguous"],
)
def test_wrong_backward_pass_is_named(grade, old, new, message):
    with pytest.raises(Wrong, match=message):
        grade(old, new).check(*randn(2), dout=inputs.randn(400)[::2])


def test_budget_of_what_is_kept_for_the_backward_pass(grade):
    *xy, dout = randn(3)
    grade().saved_for_backward(*xy, dout=dout, at_most=0)
    keeps = grade(
        "ctx.scale = scale",
        "ctx.scale, ctx.more = scale, [torch.zeros(200, device=x.device)]",
    )
    keeps.saved_for_backward(*xy, dout=dout, at_most=800)
    with pytest.raises(Wrong, match=r"keeps 800 bytes .* the budget is 799: float32 \(200,\)"):
        keeps.saved_for_backward(*xy, dout=dout, at_most=799)


@pytest.mark.skipif(not settings.interpreted, reason="traffic is counted in the interpreter")
def test_traffic_counts_both_passes(grade):
    *xy, dout = randn(3)
    grade().traffic(*xy, dout=dout).check(reads={"x": 2, "y": 2, "dout": 1}, launches=2)
