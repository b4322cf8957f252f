"""What the puzzles of chapter 05 give with one step done wrong."""

import torch

from judge.core.dtypes import dtype_name

OUTSIDE = "eps added to the root, not under it"


def layer_norm(x, weight, bias, eps, blocks):
    N, mean = x.shape[1], x.mean(1, keepdim=True)
    centred = x - mean
    squares = centred.square().sum(1, keepdim=True)

    def given(rstd, centred=centred, mean=mean):
        return centred * rstd * weight + bias, mean[:, 0], rstd[:, 0]

    def only_y(y):
        return y, None, None

    root = (squares / N).sqrt()
    yield OUTSIDE, given(1 / (root + eps))
    yield OUTSIDE, only_y(given(1 / (root + eps))[0])
    rstd = torch.rsqrt(squares / N + eps)
    yield "the bias added before the weight", only_y((centred * rstd + bias) * weight)
    yield "the mean not subtracted", only_y(x * rstd * weight + bias)
    yield "rstd not multiplied by", only_y(centred * weight + bias)
    yield "the variance divided by N - 1", given(torch.rsqrt(squares / (N - 1) + eps))
    for block in blocks:
        lost = -N % block
        cause = "masked-off lanes that are counted: the 0 in them is far from the mean"
        yield cause, given(torch.rsqrt((squares + lost * mean.square()) / N + eps))
        near = mean * N / (N + lost)
        away = x - near
        rstd = torch.rsqrt(away.square().sum(1, keepdim=True) / N + eps)
        cause = f"a mean over {N + lost} elements, the size of the block, in place of {N}"
        yield cause, given(rstd, away, near)


def rms_norm(x, weight, eps, blocks):
    square = x.square().mean(1, keepdim=True)
    yield OUTSIDE, (x / (square.sqrt() + eps) * weight,)
    centred = x - x.mean(1, keepdim=True)
    rstd = torch.rsqrt(centred.square().mean(1, keepdim=True) + eps)
    yield "the mean subtracted, as in layer norm", (centred * rstd * weight,)
    yield "the mean subtracted under the root", (x * rstd * weight,)
    yield "the root not taken", (x / (square + eps) * weight,)
    yield (
        "the sum of the squares not divided by N",
        (x * torch.rsqrt(x.square().sum(1, keepdim=True) + eps) * weight,),
    )


def residual_rms_norm(x, residual, weight, eps, blocks):
    total = x + residual
    for cause, (y,) in rms_norm(total, weight, eps, blocks):
        yield cause, (y, None)
    for name, part in (("x", x), ("residual", residual)):
        rstd = torch.rsqrt(part.square().mean(1, keepdim=True) + eps)
        yield f"the root of {name} alone, not of the sum", (total * rstd * weight, None)
        rstd = torch.rsqrt(total.square().mean(1, keepdim=True) + eps)
        yield f"{name} alone scaled, not the sum", (part * rstd * weight, None)
    for dtype in (torch.bfloat16, torch.float16):
        name = dtype_name(dtype)
        rounded = total.to(dtype).double()
        rstd = torch.rsqrt(rounded.square().mean(1, keepdim=True) + eps)
        yield f"a sum rounded to {name}", (rounded * rstd * weight, rounded)


def layer_norm_backward(dy, x, weight, mean, rstd, blocks):
    x_hat, dx_hat = (x - mean[:, None]) * rstd[:, None], dy * weight
    along_ones = dx_hat.mean(1, keepdim=True)
    along_x_hat = x_hat * (dx_hat * x_hat).mean(1, keepdim=True)
    for cause, dx in (
        ("the mean of the gradient not subtracted", dx_hat - along_x_hat),
        ("the part along x_hat not subtracted", dx_hat - along_ones),
        ("both means not subtracted", dx_hat),
        ("the part along x_hat added, not subtracted", dx_hat - along_ones + along_x_hat),
    ):
        yield cause, (dx * rstd[:, None], None, None)
    yield "rstd left out of dx", (dx_hat - along_ones - along_x_hat, None, None)
    yield "x in place of x_hat in the gradient of the weight", (None, (dy * x).sum(0), None)
    centred = (dy * (x - mean[:, None])).sum(0)
    yield "rstd left out of the gradient of the weight", (None, centred, None)
    for group in blocks:
        lost = -len(dy) % group
        yield "rows past the last one that count as 1", (None, None, dy.sum(0) + lost)
