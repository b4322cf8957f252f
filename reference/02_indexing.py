"""References of chapter 02: what each puzzle computes, in plain PyTorch."""

import torch

SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def as_signed(x):
    """View x as signed integers: torch cannot index unsigned ones of 16 bits or more."""
    return x.view(SIGNED.get(x.dtype, x.dtype))


def outer_add(x, y):
    return (x[:, None] + y[None, :]).contiguous()


def strided_copy(x):
    return x.clone(memory_format=torch.contiguous_format)


def transpose(x):
    return x.T.clone(memory_format=torch.contiguous_format)


def embedding(table, indices):
    return as_signed(table)[indices.long()].view(table.dtype).contiguous()


def scale(x, factor):
    return (x * factor).contiguous()


def triu(x, diagonal=0):
    return as_signed(x).triu(diagonal).view(x.dtype).contiguous()
