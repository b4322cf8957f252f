"""What the puzzles of chapter 06 give with one step done wrong."""

import numpy as np
import torch
from torch.nn.functional import gelu

from judge.core.dtypes import dtype_name
from judge.subject.loader import load_reference

TANH = "tanh in place of erf in GELU"


def swiglu(gate, up, blocks):
    sigmoid = torch.sigmoid(gate)
    yield "the sigmoid alone, not multiplied by gate", (sigmoid * up,)
    for dtype in (torch.float16, torch.bfloat16):
        name = dtype_name(dtype)
        yield f"a sigmoid rounded to {name}", (gate * sigmoid.to(dtype).double() * up,)
        silu = (gate * sigmoid).to(dtype).double()
        yield f"silu(gate) rounded to {name} before it is multiplied by up", (silu * up,)


def bias_gelu(x, bias, blocks):
    total = x + bias
    yield TANH, (gelu(total, approximate="tanh"),)
    yield "a bias added after GELU, not before", (gelu(x) + bias,)
    yield "erf(x) in place of erf(x / sqrt(2))", (total * (1 + torch.erf(total)) / 2,)
    yield "the factor 1/2 left out", (2 * gelu(total),)
    yield "the sigmoid form of GELU", (total * torch.sigmoid(1.702 * total),)


def dropout(x, p, seed, blocks):
    def random(seed=seed):
        uniform = load_reference("06_fusion", "uniform")
        return torch.from_numpy(uniform(seed, x.numel()) - np.float32(p))

    def kept(keep, factor=1 / (1 - p)):
        return (torch.where(keep.view(x.shape), x * factor, 0.0),)

    above = random()
    yield "numbers equal to p kept", kept(above >= 0)
    yield "what should be dropped kept, and what should be kept dropped", kept(above <= 0)
    other = random() + np.float32(p) < np.float32(1 - p)
    yield "what should be dropped kept, and what should be kept dropped", kept(other)
    yield "a factor 1 / (1 - p) that is applied twice", kept(above > 0, 1 / (1 - p) ** 2)
    yield "a factor 1 / (1 - p) that is left out", kept(above > 0, 1.0)
    yield "a mask guessed from the zeros of the input", kept(x != 0)
    yield "a seed that goes through a float", kept(random(int(float(seed))) > 0)
    for dtype in (torch.bfloat16, torch.float16):
        name = dtype_name(dtype)
        factor = float(torch.tensor(1 / (1 - p)).to(dtype))
        yield f"1 / (1 - p) rounded to {name}", kept(above > 0, factor)
    yield "a seed cut to 32 bits", kept(random(seed & 0xFFFFFFFF) > 0)
    yield "a seed cut to 31 bits", kept(random(seed & 0x7FFFFFFF) > 0)
    for block in blocks:
        within = torch.arange(x.numel()) % block
        yield "the same random numbers in each program", kept(above.flatten()[within] > 0)
    memory = (torch.arange(x.numel()).view(x.shape) * 0).flatten()
    for dim, index in enumerate(torch.meshgrid(*map(torch.arange, x.shape), indexing="ij")):
        memory = memory + index.flatten() * x.stride(dim)
    if memory.max() < x.numel():
        cause = "a mask by the place in memory, and not by the number of the element"
        yield cause, kept(above[memory] > 0)


def dropout_backward(dy, p, seed, blocks):
    yield from dropout(dy, p, seed, blocks)


def asin(x, blocks):
    yield "acos in place of asin", (torch.acos(x),)
    yield "atan in place of asin", (torch.atan(x),)
    for terms in range(1, 8):
        total, factor, power = 0.0, 1.0, x
        for i in range(terms):
            total = total + factor * power / (2 * i + 1)
            factor, power = factor * (2 * i + 1) / (2 * i + 2), power * x * x
        yield "the first terms of the series of asin: near 1 they are not enough", (total,)


def adam_step(param, grad, exp_avg, exp_avg_sq, step, lr, beta1, beta2, eps, weight_decay, blocks):
    m = beta1 * exp_avg + (1 - beta1) * grad
    v = beta2 * exp_avg_sq + (1 - beta2) * grad**2
    right1, right2 = 1 - beta1**step, 1 - beta2**step

    def moved(first=None, second=None, root=None, decay=weight_decay):
        first = m / right1 if first is None else first
        second = v / right2 if second is None else second
        root = torch.sqrt(second) + eps if root is None else root
        return param * (1 - lr * decay) - lr * first / root, None, None

    yield "no correction of the moments' bias", moved(m, v)
    yield "the first moment not corrected for its bias", moved(first=m)
    yield "the second moment not corrected for its bias", moved(second=v)
    late = 1 - beta1 ** (step + 1), 1 - beta2 ** (step + 1)
    yield "a bias correction that is one step late", moved(m / late[0], v / late[1])
    yield "eps under the root, not added to it", moved(root=torch.sqrt(v / right2 + eps))
    yield "the root of the second moment not taken", moved(root=v / right2 + eps)
    for dtype in (torch.float16, torch.bfloat16):
        cause = "a step from moments that were rounded before"
        yield cause, moved(first=m.to(dtype).double() / right1)
        yield cause, moved(second=v.to(dtype).double() / right2)
        yield cause, moved(m.to(dtype).double() / right1, v.to(dtype).double() / right2)
    swapped = beta2 * exp_avg + (1 - beta2) * grad, beta1 * exp_avg_sq + (1 - beta1) * grad**2
    yield "beta1 and beta2 exchanged", (None, *swapped)
    yield (
        "beta1 and beta2 exchanged in the moments",
        (
            moved(swapped[0] / right1, swapped[1] / right2)[0],
            *swapped,
        ),
    )
    wrong = grad + weight_decay * param
    m = beta1 * exp_avg + (1 - beta1) * wrong
    v = beta2 * exp_avg_sq + (1 - beta2) * wrong**2
    yield "weight decay in the gradient, as in Adam, not in AdamW", (moved(decay=0.0)[0], m, v)
    yield "weight decay in the gradient, too", (moved()[0], m, v)
    v = beta2 * exp_avg_sq + (1 - beta2) * grad
    m = beta1 * exp_avg + (1 - beta1) * grad
    yield "the gradient not squared in the second moment", (moved()[0], None, v)
    yield "the second moment not stored", (None, None, exp_avg_sq)
    yield "the first moment not stored", (None, exp_avg, None)
