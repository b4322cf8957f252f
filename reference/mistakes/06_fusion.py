"""Results of the puzzles of chapter 06 with one step done wrong."""

import numpy as np
import torch
from torch.nn.functional import gelu

from course.loader import load_reference
from kernelgauge.diagnosis.mistakes import half_precisions
from kernelgauge.words.fault import note

# Of at most so many programs the random numbers are drawn with a seed of their own.
MAX_SEEDS = 64


def swiglu(gate, up, blocks):
    sigmoid = torch.sigmoid(gate)
    yield "the sigmoid is not multiplied by gate", (sigmoid * up,)
    cause = "the sign of the exponent is wrong: exp(gate) instead of exp(-gate)"
    yield cause, (gate * torch.sigmoid(-gate) * up,)
    product = gate * up
    yield "silu is taken of the product of gate and up", (product * torch.sigmoid(product),)
    yield "silu(gate) and up are added instead of multiplied", (gate * sigmoid + up,)
    for name, cast in half_precisions():
        yield f"the sigmoid is rounded to {name}", (gate * cast(sigmoid) * up,)
        cause = f"silu(gate) is rounded to {name} before it is multiplied by up"
        yield cause, (cast(gate * sigmoid) * up,)


def bias_gelu(x, bias, blocks):
    total = x + bias
    yield "GELU is computed with tanh instead of erf", (gelu(total, approximate="tanh"),)
    yield "the bias is added after GELU instead of before", (gelu(x) + bias,)
    yield "erf(x) instead of erf(x / sqrt(2))", (total * (1 + torch.erf(total)) / 2,)
    cause = "erf is computed of x without the bias"
    yield cause, (total * (1 + torch.erf(x / 2**0.5)) / 2,)
    yield "the factor 1/2 is left out", (2 * gelu(total),)
    yield "SiLU is computed instead of GELU", (total * torch.sigmoid(total),)
    yield "GELU is computed with a sigmoid", (total * torch.sigmoid(1.702 * total),)


def dropout(x, p, seed, blocks):
    def above(seed=seed):
        uniform = load_reference("06_fusion", "uniform")
        return uniform(seed, x.numel()) - np.float32(p)

    def kept(keep, factor=1 / (1 - p)):
        return (torch.where(keep.view(x.shape), x * factor, 0.0),)

    random = above()
    yield "numbers equal to p are kept", kept(random >= 0)
    cause = "what should be dropped is kept, and what should be kept is dropped"
    yield cause, kept(random <= 0)
    yield cause, kept(random + np.float32(p) < np.float32(1 - p))
    yield "the factor 1 / (1 - p) is applied twice", kept(random > 0, 1 / (1 - p) ** 2)
    yield "the factor 1 / (1 - p) is left out", kept(random > 0, 1.0)
    yield "kept elements are multiplied by 1 - p instead of divided", kept(random > 0, 1 - p)
    if p:
        yield "kept elements are scaled by 1 / p instead of 1 / (1 - p)", kept(random > 0, 1 / p)
    yield "the mask is guessed from the zeros of the input", kept(x != 0)
    normal = _normal(seed, x.numel()) - p
    yield (
        "the numbers are normal, as tl.randn draws them, not uniform as tl.rand does",
        kept(normal > 0),
    )
    words = load_reference("06_fusion", "philox")(seed, -(-x.numel() // 4))
    fours = torch.stack(words, 1).flatten()[: x.numel()]
    uniform = load_reference("06_fusion", "in_unit_interval")(fours)
    cause = "each counter gives four elements their numbers, as tl.rand4x draws them"
    yield cause, kept(uniform > np.float32(p))
    yield "the seed passes through a float", kept(above(int(float(seed))) > 0)
    for name, cast in half_precisions():
        factor = float(cast(torch.tensor(1 / (1 - p))))
        yield f"1 / (1 - p) is rounded to {name}", kept(random > 0, factor)
    yield "the seed is truncated to 32 bits", kept(above(seed & 0xFFFFFFFF) > 0)
    yield "the seed is truncated to 31 bits", kept(above(seed & 0x7FFFFFFF) > 0)
    for block in blocks:
        within = torch.arange(x.numel()) % block
        yield "every program draws the same random numbers", kept(random.flatten()[within] > 0)
        programs = -(-x.numel() // block)
        if 1 < programs <= MAX_SEEDS:
            own = torch.stack([above(seed + program).flatten() for program in range(programs)])
            index = torch.arange(x.numel())
            yield "the seed depends on the program", kept(own[index // block, index] > 0)
            cause = "the seed depends on the program, and the offsets count within its block"
            yield cause, kept(own[index // block, index % block] > 0)
    memory = (torch.arange(x.numel()).view(x.shape) * 0).flatten()
    for dim, index in enumerate(torch.meshgrid(*map(torch.arange, x.shape), indexing="ij")):
        memory = memory + index.flatten() * x.stride(dim)
    if memory.max() < x.numel():
        cause = "the mask follows an element's place in memory instead of its number"
        yield cause, kept(random[memory] > 0)


def _normal(seed, count):
    """Return tl.randn(seed, offset) for offsets 0 to count - 1."""
    words = load_reference("06_fusion", "philox")(seed, count)
    first, second = map(load_reference("06_fusion", "in_unit_interval"), words[:2])
    return torch.sqrt(-2 * torch.log(first.clamp(min=1e-7))) * torch.cos(2 * torch.pi * second)


def dropout_backward(dy, p, seed, blocks):
    yield from dropout(dy, p, seed, blocks)


def asin(x, blocks):
    yield "acos instead of asin", (torch.acos(x),)
    yield "atan instead of asin", (torch.atan(x),)
    for terms in range(1, 8):
        total, factor, power = 0.0, 1.0, x
        for i in range(terms):
            total = total + factor * power / (2 * i + 1)
            factor, power = factor * (2 * i + 1) / (2 * i + 2), power * x * x
        yield "the first terms of the series of asin are not enough near 1", (total,)


def adam_step(param, grad, exp_avg, exp_avg_sq, step, lr, beta1, beta2, eps, weight_decay, blocks):
    def moments(grad, beta1=beta1, beta2=beta2):
        return (
            beta1 * exp_avg + (1 - beta1) * grad,
            beta2 * exp_avg_sq + (1 - beta2) * grad**2,
        )

    def moved(first=None, second=None, root=None, decay=weight_decay):
        first = m / right1 if first is None else first
        second = v / right2 if second is None else second
        root = torch.sqrt(second) + eps if root is None else root
        return param * (1 - lr * decay) - lr * first / root

    def only_param(*moments, root=None):
        return moved(*moments, root=root), None, None

    m, v = moments(grad)
    right1, right2 = 1 - beta1**step, 1 - beta2**step
    yield "the moments are not corrected for their bias", only_param(m, v)
    yield "the first moment is not corrected for its bias", only_param(m)
    yield "the second moment is not corrected for its bias", only_param(None, v)
    yield "the second moment is corrected with beta1 instead of beta2", only_param(None, v / right1)
    yield "the first moment is corrected with beta2 instead of beta1", only_param(m / right2)
    late = 1 - beta1 ** (step + 1), 1 - beta2 ** (step + 1)
    yield "the bias correction uses step + 1", only_param(m / late[0], v / late[1])
    cause = "eps is added under the square root instead of to it"
    yield cause, only_param(root=torch.sqrt(v / right2 + eps))
    yield cause, only_param(root=torch.sqrt((v + eps) / right2))
    if lr:
        cause = "weight decay is not multiplied by lr"
        yield cause, (moved(decay=weight_decay / lr), None, None)
    cause = "weight decay is applied to param after the update instead of before it"
    yield cause, (moved(decay=0.0) * (1 - lr * weight_decay), None, None)
    cause = "the bias of the second moment is corrected outside of the square root"
    yield cause, only_param(root=torch.sqrt(v) / right2 + eps)
    yield cause, only_param(root=(torch.sqrt(v) + eps) / right2)
    yield "the square root of the second moment is not taken", only_param(root=v / right2 + eps)
    for _, cast in half_precisions():
        cause = "the step is computed from moments that are already rounded"
        first, second = cast(m) / right1, cast(v) / right2
        yield cause, only_param(first)
        yield cause, only_param(None, second)
        yield cause, only_param(first, second)
    yield "param moves by the old first moment", only_param(exp_avg / right1)
    swapped = moments(grad, beta2, beta1)
    yield note("swapped", first="beta1", second="beta2"), (None, *swapped)
    param_of_swapped = moved(swapped[0] / right1, swapped[1] / right2)
    yield "beta1 and beta2 are swapped in the moments", (param_of_swapped, *swapped)
    m, v = moments(grad + weight_decay * param)
    cause = "weight decay is added to the gradient, as in Adam, instead of to param, as in AdamW"
    yield cause, (moved(decay=0.0), m, v)
    yield "weight decay is added to the gradient, too", (moved(), m, v)
    m, v = moments(grad)[0], beta2 * exp_avg_sq + (1 - beta2) * grad
    yield "the gradient is not squared in the second moment", (moved(), None, v)
    m, v = moments(grad)
    cause = "the {} moment is stored after its bias correction"
    yield cause.format("second"), (None, None, v / right2)
    yield cause.format("first"), (None, m / right1, None)
    yield "both moments are stored after their bias correction", (None, m / right1, v / right2)
    yield "the second moment is not stored", (None, None, exp_avg_sq)
    yield "the first moment is not stored", (None, exp_avg, None)
