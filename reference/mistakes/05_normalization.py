"""Results of the puzzles of chapter 05 with one step done wrong."""

from pathlib import Path

import torch

from kernelgauge.core.paths import load
from kernelgauge.diagnosis.mistakes import half_precisions, named

merges = load(Path(__file__).with_name("merges.py"))

OUTSIDE = "eps is added to the square root instead of under it"
WHOLE_TILE = "the sum runs over all rows of a tile instead of along each"
TAIL = "the columns after the last whole block are left out of the sums along a row"


def over_tiles(sums, block):
    """Return for each row the sum of `sums` (M, 1) over the rows of its tile of `block` rows."""
    rest = -len(sums) % block
    tiles = torch.nn.functional.pad(sums, (0, 0, 0, rest)).unflatten(0, (-1, block)).sum(1)
    return tiles.repeat_interleave(block, 0)[: len(sums)]


def layer_norm(x, weight, bias, eps, blocks):
    N, mean = x.shape[1], x.mean(1, keepdim=True)
    centred = x - mean
    squares = centred.square().sum(1, keepdim=True)

    def results(rstd, centred=centred, mean=mean):
        return centred * rstd * weight + bias, mean[:, 0], rstd[:, 0]

    def only_y(y):
        return y, None, None

    outside = results(1 / ((squares / N).sqrt() + eps))
    yield OUTSIDE, outside
    yield OUTSIDE, only_y(outside[0])
    rstd = torch.rsqrt(squares / N + eps)
    yield "the bias is added before the weight is applied", only_y((centred * rstd + bias) * weight)
    yield "the mean is not subtracted", only_y(x * rstd * weight + bias)
    yield "the result is not multiplied by rstd", only_y(centred * weight + bias)
    weighted = (1 + weight) * centred * rstd + bias
    yield "the weight is taken to be 1 + weight", only_y(weighted)
    variance = (squares / N)[:, 0]
    for stored in (variance, variance + eps):
        yield "the variance is stored in place of rstd", (None, None, stored)
    yield "the standard deviation is stored in place of rstd", (None, None, (variance + eps).sqrt())
    yield "the variance is divided by N - 1", results(torch.rsqrt(squares / (N - 1) + eps))
    for block in blocks:
        lost = -N % block
        cause = "masked lanes are counted: the 0 in them is far from the mean"
        yield cause, results(torch.rsqrt((squares + lost * mean.square()) / N + eps))
        near = mean * N / (N + lost)
        away = x - near
        rstd = torch.rsqrt(away.square().sum(1, keepdim=True) / N + eps)
        cause = named(
            "a mean over {all} elements, the block size, instead of {N}", all=N + lost, N=N
        )
        yield cause, results(rstd, away, near)
        yield WHOLE_TILE, results(torch.rsqrt(over_tiles(squares, block) / N + eps))
        wrong, total = (it[:, None] for it in merges.without_tail(x, block))
        yield TAIL, results(torch.rsqrt(total / N + eps), x - wrong, wrong)
        between = over_tiles(x.sum(1, keepdim=True), block) / N
        away = x - between
        summed = over_tiles(away.square().sum(1, keepdim=True), block)
        yield WHOLE_TILE, results(torch.rsqrt(summed / N + eps), away, between)
        for cause, wrong, total in merges.wrong_merges(x, block):
            rstd = torch.rsqrt(total[:, None] / N + eps)
            yield cause, results(rstd, x - wrong[:, None], wrong[:, None])


def rms_norm(x, weight, eps, blocks):
    square = x.square().mean(1, keepdim=True)
    yield OUTSIDE, (x / (square.sqrt() + eps) * weight,)
    centred = x - x.mean(1, keepdim=True)
    rstd = _rstd(centred, eps)
    yield "the mean is subtracted, as in layer norm", (centred * rstd * weight,)
    yield "the mean is subtracted under the square root", (x * rstd * weight,)
    yield "the square root is not taken", (x / (square + eps) * weight,)
    rstd = torch.rsqrt(x.square().sum(1, keepdim=True) + eps)
    yield "the sum of the squares is not divided by N", (x * rstd * weight,)
    rstd = _rstd(x, eps)
    yield "the weight is taken to be 1 + weight", (x * rstd * (1 + weight),)
    weighted = x * weight
    cause = "the weight is applied before the mean square is taken"
    yield cause, (weighted * _rstd(weighted, eps),)
    yield cause, (x * _rstd(weighted, eps) * weight,)
    yield f"{cause}, and once more after it", (weighted * _rstd(weighted, eps) * weight,)
    for block in blocks:
        square = over_tiles(x.square().sum(1, keepdim=True), block) / x.shape[1]
        yield WHOLE_TILE, (x * torch.rsqrt(square + eps) * weight,)
        whole = x[:, : x.shape[1] // block * block]
        square = whole.square().sum(1, keepdim=True) / x.shape[1]
        yield TAIL, (x * torch.rsqrt(square + eps) * weight,)


def _rstd(x, eps):
    return torch.rsqrt(x.square().mean(1, keepdim=True) + eps)


def residual_rms_norm(x, residual, weight, eps, blocks):
    total = x + residual
    for cause, (y,) in rms_norm(total, weight, eps, blocks):
        yield cause, (y, None)
    for name, part in (("x", x), ("residual", residual)):
        cause = f"the root mean square of {name} alone is used, not of the sum"
        yield cause, (total * _rstd(part, eps) * weight, None)
        yield f"{name} alone is scaled, not the sum", (part * _rstd(total, eps) * weight, None)
    for name, cast in half_precisions():
        y = cast(total) * _rstd(cast(total), eps) * weight
        yield f"the sum is rounded to {name}", (y, cast(total))


def layer_norm_backward(dy, x, weight, mean, rstd, blocks):
    x_hat, dx_hat = (x - mean[:, None]) * rstd[:, None], dy * weight
    along_ones = dx_hat.mean(1, keepdim=True)
    along_x_hat = x_hat * (dx_hat * x_hat).mean(1, keepdim=True)
    N = x.shape[1]
    for cause, dx in (
        (
            "the weight is left out of the mean of the gradient",
            dx_hat - dy.mean(1, keepdim=True) - along_x_hat,
        ),
        (
            "the weight is left out of the part along x_hat",
            dx_hat - along_ones - x_hat * (dy * x_hat).mean(1, keepdim=True),
        ),
        ("the weight is left out of dy * weight", dy - along_ones - along_x_hat),
        ("the sums along the row are not divided by N", dx_hat - N * (along_ones + along_x_hat)),
        ("rstd is applied twice to dx", (dx_hat - along_ones - along_x_hat) * rstd[:, None]),
        ("the mean of the gradient is not subtracted", dx_hat - along_x_hat),
        ("the part along x_hat is not subtracted", dx_hat - along_ones),
        ("neither mean is subtracted", dx_hat),
        ("the part along x_hat is added instead of subtracted", dx_hat - along_ones + along_x_hat),
    ):
        yield cause, (dx * rstd[:, None], None, None)
    yield "rstd is left out of dx", (dx_hat - along_ones - along_x_hat, None, None)
    cause = "x is used instead of x_hat in the gradient of the weight"
    yield cause, (None, (dy * x).sum(0), None)
    centred = (dy * (x - mean[:, None])).sum(0)
    yield "rstd is left out of the gradient of the weight", (None, centred, None)
    in_own = (dx_hat * x_hat).sum(0)
    yield "the weight is a factor in its own gradient", (None, in_own, None)
    yield "the weight is a factor in the gradient of the bias", (None, None, dx_hat.sum(0))
    for block in blocks:
        if rest := -N % block:
            means = (along_ones + along_x_hat) * N / (N + rest)
            cause = named(
                "the means along the row are over {all} elements, the block size, not {N}",
                all=N + rest,
                N=N,
            )
            yield cause, ((dx_hat - means) * rstd[:, None], None, None)
    for group in blocks:
        if 1 < group < len(dy):
            last = sorted({*range(group - 1, len(dy), group), len(dy) - 1})
            columns = (dy * x_hat)[last].sum(0), dy[last].sum(0)
            cause = "each row overwrites the column sums of its group instead of adding to them"
            yield cause, (None, *columns)
        lost = -len(dy) % group
        yield "rows past the last one count as 1", (None, None, dy.sum(0) + lost)
