"""References for chapter 05: what each puzzle computes, in plain PyTorch."""

import torch


def _wide(x):
    """Return x in float32 or wider: sums are never made in less."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def layer_norm(x, weight, bias, eps=1e-5):
    wide = _wide(x)
    mean = wide.mean(1)
    centred = wide - mean[:, None]
    rstd = torch.rsqrt((centred * centred).mean(1) + eps)
    y = centred * rstd[:, None] * weight + bias
    return y.to(x.dtype), mean, rstd


def rms_norm(x, weight, eps=1e-6):
    wide = _wide(x)
    rstd = torch.rsqrt((wide * wide).mean(1, keepdim=True) + eps)
    return (wide * rstd * weight).to(x.dtype)


def residual_rms_norm(x, residual, weight, eps=1e-6):
    total = (x + residual).contiguous()
    return rms_norm(total, weight, eps), total


def layer_norm_backward(dy, x, weight, mean, rstd):
    dy, rstd = _wide(dy), rstd[:, None]
    x_hat = (x - mean[:, None]) * rstd
    dx_hat = dy * weight
    along_ones = dx_hat.mean(1, keepdim=True)
    along_x_hat = (dx_hat * x_hat).mean(1, keepdim=True)
    dx = (dx_hat - along_ones - x_hat * along_x_hat) * rstd
    dweight, dbias = (dy * x_hat).sum(0), dy.sum(0)
    return dx.to(x.dtype), dweight.to(x.dtype), dbias.to(x.dtype)
