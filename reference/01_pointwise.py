"""References of chapter 01: what each puzzle computes, in plain PyTorch."""

import torch


def vector_copy(x):
    return x.clone()


def square(x):
    return (x * x).contiguous()


def relu(x):
    return torch.relu(x).contiguous()


def vector_add(x, y):
    return (x + y).contiguous()


def fused_multiply_add(x, y, z):
    return (x * y + z).contiguous()


def swish(x):
    return (x * torch.sigmoid(x)).contiguous()


def polynomial(x, coefficients):
    result = torch.full_like(x, coefficients[0])
    power = torch.ones_like(x)
    for coefficient in coefficients[1:]:
        power = power * x
        result = result + coefficient * power
    return result.contiguous()


def complex_multiply(x, y):
    return (x * y).contiguous()
