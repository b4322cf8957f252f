"""What the puzzles of chapter 01 give with one step done wrong."""

import torch

from judge.core.dtypes import dtype_name


def swish(x, blocks):
    yield "the sigmoid alone, not multiplied by x", (torch.sigmoid(x),)


def fused_multiply_add(x, y, z, blocks):
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        product = (x * y).to(dtype).double()
        yield "a product that is rounded before z is added: no fused multiply-add", (product + z,)
    yield "a product that is subtracted, not added", (z - x * y,)


def polynomial(x, coefficients, blocks):
    for dtype in (torch.float16, torch.bfloat16):
        name = dtype_name(dtype)
        result = torch.zeros_like(x)
        for coefficient in reversed(coefficients):
            result = (result * x + coefficient).to(dtype).double()
        yield f"steps in {name}, not in float32", (result,)


def complex_multiply(x, y, blocks):
    for cause, first, second in (
        ("offsets into y that count complex numbers, not floats", x, overlapping(y)),
        ("offsets into x that count complex numbers, not floats", overlapping(x), y),
        ("offsets that count complex numbers, not floats", overlapping(x), overlapping(y)),
    ):
        yield cause, (first * second,)
    yield (
        "the sign of the real part's second product",
        (torch.complex(x.real * y.real + x.imag * y.imag, (x * y).imag),),
    )


def overlapping(x):
    """Element i made of the floats i and i + 1 of the same memory."""
    floats = torch.view_as_real(x.contiguous()).flatten()
    return torch.complex(floats[: x.numel()], floats[1 : x.numel() + 1]).view(x.shape)


def vector_add(x, y, blocks):
    yield "a difference in place of a sum", (x - y,)
