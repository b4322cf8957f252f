"""References of chapter 12: what each puzzle computes, in plain PyTorch."""

import torch
from torch.nn import functional

IGNORED = -100


def _wide(x):
    """Return x in float32 or wider: sums are never made in less."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _turn(x, cos, sin):
    """Turn the pairs (i, i + h) of x (B, H, S, D) by the angles of cos and sin, (T, h)."""
    S, h = x.shape[2], cos.shape[1]
    cos, sin = cos[:S], sin[:S]
    first, second = _wide(x[..., :h]), _wide(x[..., h : 2 * h])
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return torch.cat((turned.to(x.dtype), x[..., 2 * h :]), dim=-1)


def rope(q, k, cos, sin, inverse=False):
    cos, sin = _wide(cos), _wide(sin)
    if inverse:
        sin = -sin
    return _turn(q, cos, sin), _turn(k, cos, sin)


def geglu(gate, up):
    return (functional.gelu(gate, approximate="tanh") * up).contiguous()


def group_norm(x, groups, weight, bias, eps=1e-5):
    B, C, L = x.shape
    wide = _wide(x).reshape(B, groups, C // groups * L)
    mean = wide.mean(2)
    centred = wide - mean[..., None]
    rstd = torch.rsqrt((centred * centred).mean(2) + eps)
    y = (centred * rstd[..., None]).reshape(B, C, L) * weight[:, None] + bias[:, None]
    return y.to(x.dtype), mean, rstd


def layer_norm_linear(x, norm_weight, norm_bias, weight, bias, eps=1e-5):
    centred = _wide(x) - _wide(x).mean(1, keepdim=True)
    rstd = torch.rsqrt((centred * centred).mean(1, keepdim=True) + eps)
    normed = centred * rstd * norm_weight + norm_bias
    return normed.to(x.dtype) @ weight.mT + bias


def cross_entropy_backward(dloss, logits, targets, lse):
    p = torch.exp(_wide(logits) - lse[:, None])
    columns = torch.arange(logits.shape[1], device=logits.device)
    gradient = (p - (columns == targets[:, None]).to(p.dtype)) * dloss[:, None]
    logits.copy_(torch.where((targets != IGNORED)[:, None], gradient, 0.0))


def _cross_entropy(logits, targets):
    """Return the sum of the losses, and how many targets count, at least 1."""
    kept = targets != IGNORED
    some = torch.where(kept, targets, 0).long()
    losses = torch.logsumexp(logits, 1) - logits.gather(1, some[:, None])[:, 0]
    return torch.where(kept, losses, 0.0).sum(), kept.sum().clamp(min=1)


def fused_linear_cross_entropy(x, weight, targets):
    logits = _wide(x @ weight.mT)
    total, count = _cross_entropy(logits, targets)
    columns = torch.arange(weight.shape[0], device=x.device)
    g = torch.softmax(logits, 1) - (columns == targets[:, None]).to(logits.dtype)
    g = torch.where((targets != IGNORED)[:, None], g, 0.0).to(x.dtype)
    return total / count, (g @ weight) / count, (g.mT @ x) / count


def split_params(params, hidden):
    """The seven weights by name, as views of params (R, D)."""
    R, D = params.shape
    rows = {
        "norm_1": 1,
        "qkv": 3 * D,
        "out": D,
        "norm_2": 1,
        "gate_up": 2 * hidden,
        "down": hidden,
    }
    rows["head"] = R - sum(rows.values())
    return dict(zip(rows, params.split(list(rows.values())), strict=True))


def _rms_norm(x, weight):
    wide = _wide(x)
    rstd = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6)
    return (wide * rstd * weight).to(x.dtype)


def _attention(q, k, v):
    S = q.shape[2]
    scores = q @ k.mT * q.shape[3] ** -0.5
    seen = torch.ones(S, S, dtype=torch.bool, device=q.device).tril()
    return torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1) @ v


def block_loss(x, targets, cos, sin, params, heads, hidden):
    """The mean cross entropy behind one transformer block and its head."""
    B, S, D = x.shape
    w = split_params(params, hidden)
    qkv = (_rms_norm(x, w["norm_1"]) @ w["qkv"].mT).view(B, S, 3, heads, D // heads)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    q, k = rope(q, k, cos, sin)
    h = x + _attention(q, k, v).transpose(1, 2).reshape(B, S, D) @ w["out"].mT
    gate, up = (_rms_norm(h, w["norm_2"]) @ w["gate_up"].mT).chunk(2, dim=-1)
    y = h + (functional.silu(gate) * up) @ w["down"]
    total, count = _cross_entropy(_wide((y @ w["head"].mT).flatten(0, 1)), targets.flatten())
    return total / count


def train_step(
    x,
    targets,
    cos,
    sin,
    params,
    exp_avg,
    exp_avg_sq,
    loss,
    heads,
    hidden,
    step,
    lr,
    beta1,
    beta2,
    eps,
    weight_decay,
):
    with torch.enable_grad():
        leaf = params.detach().requires_grad_()
        mean = block_loss(x, targets, cos, sin, leaf, heads, hidden)
        (grad,) = torch.autograd.grad(mean, leaf)
    grad = _wide(grad)
    m = beta1 * exp_avg + (1 - beta1) * grad
    v = beta2 * exp_avg_sq + (1 - beta2) * grad**2
    p = _wide(params) * (1 - lr * weight_decay)
    p = p - lr * (m / (1 - beta1**step)) / (torch.sqrt(v / (1 - beta2**step)) + eps)
    params.copy_(p)
    exp_avg.copy_(m)
    exp_avg_sq.copy_(v)
    loss.copy_(mean.detach())
