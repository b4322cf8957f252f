"""Results of the puzzles of chapter 01 with one step done wrong."""

import torch

from judge.diagnosis.mistakes import half_precisions


def swish(x, blocks):
    yield "the sigmoid is not multiplied by x", (torch.sigmoid(x),)


def fused_multiply_add(x, y, z, blocks):
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        product = (x * y).to(dtype).double()
        yield "the product is rounded before z is added: no fused multiply-add", (product + z,)
    yield "the product is subtracted instead of added", (z - x * y,)


def polynomial(x, coefficients, blocks):
    for name, cast in half_precisions():
        result = torch.zeros_like(x)
        for coefficient in reversed(coefficients):
            result = cast(result * x + coefficient)
        yield f"the steps are computed in {name} instead of float32", (result,)


def complex_multiply(x, y, blocks):
    for into, first, second in (
        (" into y", x, overlapping(y)),
        (" into x", overlapping(x), y),
        ("", overlapping(x), overlapping(y)),
    ):
        yield f"offsets{into} count complex numbers instead of floats", (first * second,)
    yield (
        "the second product of the real part has the wrong sign",
        (torch.complex(x.real * y.real + x.imag * y.imag, (x * y).imag),),
    )


def overlapping(x):
    """Return x with element i made of the floats i and i + 1 of its memory."""
    floats = torch.view_as_real(x.contiguous()).flatten()
    return torch.complex(floats[: x.numel()], floats[1 : x.numel() + 1]).view(x.shape)


def vector_add(x, y, blocks):
    yield "a difference in place of a sum", (x - y,)
