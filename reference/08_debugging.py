"""References of chapter 08: what each puzzle computes, in plain PyTorch."""

import torch


def _wide(x):
    """x in float32 at least, the precision of all sums."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def softmax_entropy(x):
    wide = _wide(x)
    exponentials = torch.exp(wide - wide.amax(1, keepdim=True))
    p = exponentials / exponentials.sum(1, keepdim=True)
    return -torch.special.xlogy(p, p).sum(1).to(x.dtype)


def ragged_mean(x, lengths):
    inside = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    total = torch.where(inside, _wide(x), 0.0).sum(1)
    return (total / lengths).to(x.dtype)


def last_tokens(x, lengths):
    return x[torch.arange(len(x), device=x.device), lengths.long() - 1]


def l1_norms(x):
    return _wide(x).abs().sum(1).to(x.dtype)


def running_sum(x):
    return _wide(x).cumsum(0).to(x.dtype)


def momentum_step(param, grad, velocity, lr, momentum):
    moved = momentum * _wide(velocity) + _wide(grad)
    param.copy_(_wide(param) - lr * moved)
    velocity.copy_(moved)


def token_mean(x):
    return (_wide(x).sum(1) / x.shape[1]).to(x.dtype)


def log_softmax(x):
    wide = _wide(x)
    shifted = wide - wide.amax(1, keepdim=True)
    return (shifted - torch.log(torch.exp(shifted).sum(1, keepdim=True))).to(x.dtype).contiguous()
