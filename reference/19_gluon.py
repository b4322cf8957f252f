"""References of chapter 19."""

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
