"""Results of the puzzles of chapter 01 with one step done wrong."""

import torch

from kernelgauge.diagnosis.mistakes import half_precisions


def swish(x, blocks):
    yield "the sigmoid is not multiplied by x", (torch.sigmoid(x),)
    yield "the sign of the exponent is wrong: exp(x) instead of exp(-x)", (x * torch.sigmoid(-x),)
    yield "the sigmoid is that of |x|, also where x is negative", (x * torch.sigmoid(x.abs()),)
    yield "exp2 instead of exp", (x / (1 + torch.exp2(-x)),)
    near_one = 1 / (1 + torch.exp(x.float()))
    cause = (
        "1 - 1 / (1 + exp(x)) subtracts two numbers that are nearly equal where x is far below 0"
    )
    yield cause, (x * (1 - near_one).double(),)


def fused_multiply_add(x, y, z, blocks):
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        product = (x * y).to(dtype).double()
        yield "the product is rounded before z is added: no fused multiply-add", (product + z,)
    yield "the product is subtracted instead of added", (z - x * y,)
    yield "x and y are added and the sum is multiplied by z", ((x + y) * z,)


def polynomial(x, coefficients, blocks):
    for name, cast in half_precisions():
        result = torch.zeros_like(x)
        for coefficient in reversed(coefficients):
            result = cast(result * x + coefficient)
        cause = f"the steps are computed in {name} instead of float32"
        yield cause, (result,)
        result, power = torch.zeros_like(x), torch.ones_like(x)
        for coefficient in coefficients:
            result = cast(result + cast(coefficient * power))
            power = cast(power * x)
        yield cause, (result,)
    rising = sum(c * x**i for i, c in enumerate(coefficients))
    cause = "each coefficient is multiplied by one power of x too many"
    yield cause, (rising * x,)
    lower = sum(c * x ** (i + 1) for i, c in enumerate(coefficients[:-1]))
    cause = "each coefficient is added before the multiplication by x, not after it"
    yield cause, (coefficients[-1] * x ** (len(coefficients) - 1) + lower,)
    *others, last = coefficients
    result = torch.full_like(x, last)
    for coefficient in others:
        result = result * x + coefficient
    yield "after the last coefficient, the others are taken from the first one on", (result,)
    first, *others = coefficients
    cause = "the power of x is not raised from coefficient to coefficient"
    yield cause, (first + sum(others) * x,)


def complex_multiply(x, y, blocks):
    for into, first, second in (
        (" into y", x, overlapping(y)),
        (" into x", overlapping(x), y),
        ("", overlapping(x), overlapping(y)),
    ):
        yield f"offsets{into} count complex numbers instead of floats", (first * second,)
    cause = "one of the products of the imaginary part has the wrong sign"
    crossed = x.real * y.imag - x.imag * y.real
    yield cause, (torch.complex((x * y).real, crossed),)
    yield cause, (torch.complex((x * y).real, -crossed),)
    real, imag = (x * y).real, (x * y).imag
    overwritten = "what the second part is computed from was overwritten by the first"
    yield overwritten, (torch.complex(real, real * y.imag + x.imag * y.real),)
    yield overwritten, (torch.complex(x.real * y.real - imag * y.imag, imag),)
    yield (
        "the second product of the real part has the wrong sign",
        (torch.complex(x.real * y.real + x.imag * y.imag, (x * y).imag),),
    )


def overlapping(x):
    """Return x with element i made of the floats i and i + 1 of its memory."""
    floats = torch.view_as_real(x.contiguous()).flatten()
    return torch.complex(floats[: x.numel()], floats[1 : x.numel() + 1]).view(x.shape)


def square(x, blocks):
    yield "x is doubled instead of squared", (2 * x,)


def relu(x, blocks):
    yield "the smaller of x and 0 is stored instead of the larger", (x.clamp(max=0),)
    yield "the sign is dropped: that is the absolute value", (x.abs(),)


def vector_add(x, y, blocks):
    yield "a difference in place of a sum", (x - y,)
    yield "x is added to itself, and y is not used", (2 * x,)
    yield "y is added to itself, and x is not used", (2 * y,)
