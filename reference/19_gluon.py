"""References of chapter 19."""

import math

import torch


def barrier_ring(x):
    return x * 2


def gluon_copy(x):
    return x.clone()


def gluon_softmax(x):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    exponentials = torch.exp(wide - wide.amax(1, keepdim=True))
    return (exponentials / exponentials.sum(1, keepdim=True)).to(x.dtype).contiguous()


def gluon_matmul(a, b):
    return a @ b


def gluon_ws_matmul(a, b):
    return a @ b


def sigmoid_attention(q, k, v):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    return torch.sigmoid(scores - math.log(k.shape[-2])) @ v


def gluon_attention(q, k, v, scale=None, causal=False):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    x = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        rows, columns = (torch.arange(size, device=x.device) for size in x.shape[-2:])
        x = x.masked_fill(rows[:, None] < columns[None, :], float("-inf"))
    return torch.softmax(x, dim=-1) @ v
