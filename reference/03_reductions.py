"""References of chapter 03: what each puzzle computes, in plain PyTorch."""

import torch


def _wide(x):
    """x in float32 at least, the precision of all sums."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def row_sum(x):
    return _wide(x).sum(1).to(x.dtype)


def row_argmax(x):
    return x.argmax(1)


def total_sum(x):
    return _wide(x).sum().to(x.dtype)


def variance(x):
    wide = _wide(x)
    centred = wide - wide.mean(1, keepdim=True)
    return ((centred * centred).sum(1) / (x.shape[1] - 1)).to(x.dtype)


def welford(x):
    return _wide(x).mean(1).to(x.dtype), variance(x)


def cumsum(x):
    return _wide(x).cumsum(1).to(x.dtype)


def histogram(x, bins):
    x = x.reshape(-1).long()
    return torch.bincount(x[(x >= 0) & (x < bins)], minlength=bins).to(torch.int32)
