"""Results of the puzzles of chapter 12 with one step done wrong."""

from pathlib import Path

import torch

from course.loader import load_reference
from kernelgauge.core.paths import load
from kernelgauge.diagnosis.mistakes import half_precisions, named
from kernelgauge.words.fault import note

merges = load(Path(__file__).with_name("merges.py"))


def rope(q, k, cos, sin, inverse, blocks):
    S, h = q.shape[2], cos.shape[1]
    c, s = cos[:S], -sin[:S] if inverse else sin[:S]

    def turned(x, first, second):
        """x with these halves, each made from both old ones."""
        a, b = x[..., :h], x[..., h : 2 * h]
        return torch.cat((first(a, b), second(a, b), x[..., 2 * h :]), dim=-1)

    def neighbours(x):
        even, odd = x[..., 0 : 2 * h : 2], x[..., 1 : 2 * h : 2]
        pairs = torch.stack((even * c - odd * s, odd * c + even * s), dim=-1).flatten(-2)
        return torch.cat((pairs, x[..., 2 * h :]), dim=-1)

    def halves_of_neighbours(x):
        even, odd = x[..., 0 : 2 * h : 2], x[..., 1 : 2 * h : 2]
        return torch.cat((first(even, odd), second(even, odd), x[..., 2 * h :]), dim=-1)

    def first(a, b):
        return a * c - b * s

    def second(a, b):
        return b * c + a * s

    def ways():
        cause = "the pairs are neighbours, (2 i, 2 i + 1), instead of (i, i + D/2)"
        yield cause, neighbours
        cause = "the pairs are loaded as neighbours, (2 i, 2 i + 1), instead of as (i, i + D/2)"
        yield cause, halves_of_neighbours
        cause = "the second half of each pair is turned with the first half that was turned already"
        yield cause, lambda x: turned(x, first, lambda a, b: second(first(a, b), b))
        cause = "the sine has the other sign" + (": inverse is not used" if inverse else "")
        yield cause, lambda x: turned(x, lambda a, b: a * c + b * s, lambda a, b: b * c - a * s)
        cause = "both sines have the same sign: one of them is subtracted"
        yield cause, lambda x: turned(x, lambda a, b: a * c + b * s, second)
        yield cause, lambda x: turned(x, first, lambda a, b: b * c - a * s)
        cause = "cos and sin are exchanged"
        yield cause, lambda x: turned(x, lambda a, b: a * s - b * c, lambda a, b: b * s + a * c)
        cause = "the second half of each pair is not turned"
        yield cause, lambda x: turned(x, first, lambda a, b: b)
        for name, cast in half_precisions():
            cause = f"products with cos and sin are rounded to {name}"
            yield (
                cause,
                lambda x, cast=cast: turned(
                    x,
                    lambda a, b: cast(a * c) - cast(b * s),
                    lambda a, b: cast(b * c) + cast(a * s),
                ),
            )

    for cause, turn in ways():
        yield cause, (turn(q), turn(k))
        yield cause, (turn(q), None)
        yield cause, (None, turn(k))


def geglu(gate, up, blocks, dout=None):
    c = (2 / torch.pi) ** 0.5
    cube = 0.044715 * gate**3
    t = torch.tanh(c * (gate + cube))
    gelu = gate / 2 * (1 + t)
    bend = gate / 2 * (1 - t * t) * c

    def slope(factor):
        return (1 + t) / 2 + bend * factor

    right = slope(1 + 3 * 0.044715 * gate**2)

    def results(y=None, dgate=None, dup=None):
        return (y, dgate, dup)[: 1 if dout is None else 3]

    exact = gate / 2 * (1 + torch.erf(gate / 2**0.5))
    yield "GELU is computed with erf instead of tanh", results(exact * up)
    yield (
        "GELU is taken of up instead of gate",
        results(torch.nn.functional.gelu(up, approximate="tanh") * gate),
    )
    yield "GELU lacks its factor 1 / 2", results(2 * gelu * up)
    cause = "the factor sqrt(2 / pi) is left out"
    yield cause, results(gate / 2 * (1 + torch.tanh(gate + cube)) * up)
    yield "the cubic term is left out", results(gate / 2 * (1 + torch.tanh(c * gate)) * up)
    cause = "sigmoid(z) instead of sigmoid(2 z): it is (1 + tanh(z / 2)) / 2"
    yield cause, results(gate * torch.sigmoid(c * (gate + cube)) * up)
    yield "up is added instead of multiplied", results(gelu + up)
    if dout is None:
        return
    yield (
        "the gradients of gate and up are exchanged",
        results(None, dout * gelu, dout * up * right),
    )
    for cause, wrong in (
        ("gelu'(gate) lacks its second term, which comes from tanh", slope(0)),
        ("the factor 3 of the cubic term's derivative is left out", slope(1 + 0.044715 * gate**2)),
        ("the derivative of the cubic term is left out", slope(1)),
        ("gelu'(gate) is gelu(gate)", gelu),
        (
            "1 - s * s, the derivative of tanh, is taken of a sigmoid, which has 2 s (1 - s)",
            (1 + t) / 2 + gate / 2 * (1 - ((1 + t) / 2) ** 2) * c * (1 + 3 * 0.044715 * gate**2),
        ),
    ):
        yield cause, results(None, dout * up * wrong, None)
    yield "up is left out of the gradient of gate", results(None, dout * right, None)
    yield "dy is left out of the gradient of gate", results(None, up * right, None)
    yield "the gradient of up is dy * gate, without gelu", results(None, None, dout * gate)


def group_norm(x, groups, weight, bias, eps, blocks):
    B, C, L = x.shape
    width = C // groups
    N = width * L
    wide = x.reshape(B, groups, N)
    mean = wide.mean(2)
    centred = wide - mean[..., None]
    squares = centred.square().sum(2)
    right = torch.rsqrt(squares / N + eps)

    def results(rstd=right, weight=weight, bias=bias, means=mean):
        y = ((wide - means[..., None]) * rstd[..., None]).reshape(B, C, L)
        y = y * weight[:, None] + bias[:, None]
        return y, means, rstd

    def only_y(y):
        return y, None, None

    y = (centred * right[..., None]).reshape(B, C, L)
    cause = "the bias is added before the weight is applied"
    yield cause, only_y((y + bias[:, None]) * weight[:, None])
    groups_of = torch.arange(C, device=x.device) // width
    places = torch.arange(C, device=x.device) % width
    for what, index in (("group", groups_of), ("place inside its group", places)):
        cause = f"the weight is that of the channel's {what}, not of the channel"
        yield cause, results(weight=weight[index], bias=bias[index])
        yield cause, results(weight=weight[index])
    yield "the variance is divided by N - 1", results(torch.rsqrt(squares / (N - 1) + eps))
    cause = "eps is added to the square root instead of under it"
    yield cause, results(1 / ((squares / N).sqrt() + eps))
    mean_square = wide.square().mean(2)
    cause = "the mean is not subtracted under the square root"
    yield cause, results(torch.rsqrt(mean_square + eps))
    for variance in (squares / N, squares / N + eps):
        yield "the variance is stored in place of rstd", (None, None, variance)
    yield "the standard deviation is stored in place of rstd", (None, None, 1 / right)
    for block in blocks:
        lost = -N % block
        if lost:
            near, total = merges.without_tail(wide, block)
            cause = (
                "what lies after a group's last whole block is left out of its mean and variance"
            )
            yield cause, results(torch.rsqrt(total / N + eps), means=near)
            cause = "masked lanes are counted in the variance: the 0 in them is far from the mean"
            yield cause, results(torch.rsqrt((squares + lost * mean.square()) / N + eps))
            near = mean * N / (N + lost)
            cause = named(
                "the mean is over {all} elements, whole blocks, instead of {N}", all=N + lost, N=N
            )
            rstd = torch.rsqrt((wide - near[..., None]).square().mean(2) + eps)
            yield cause, results(rstd, means=near)
        if block < N:
            parts = wide.split(block, 2)
            own = sum((part - part.mean(2, keepdim=True)).square().sum(2) for part in parts)
            cause = "blocks are merged without the distance between their means"
            yield cause, results(torch.rsqrt(own / N + eps))
            means = torch.stack([part.mean(2) for part in parts]).mean(0)
            yield "the means of blocks are averaged without their sizes", (None, means, None)
        for cause, means, total in merges.wrong_merges(wide, block):
            yield cause, results(torch.rsqrt(total / N + eps), means=means)


def layer_norm_linear(x, norm_weight, norm_bias, weight, bias, eps, blocks):
    K, mean = x.shape[1], x.mean(1, keepdim=True)
    centred = x - mean
    squares = centred.square().sum(1, keepdim=True)
    right = torch.rsqrt(squares / K + eps)

    def layer(rstd=right, centred=centred, shift=norm_bias):
        return ((centred * rstd * norm_weight + shift) @ weight.mT + bias,)

    yield "the mean is not subtracted", layer(centred=x)
    yield "rstd multiplies norm_bias, too", layer(shift=norm_bias * right)
    yield "the rows are not multiplied by rstd", layer(rstd=torch.ones_like(right))
    yield note("left-out", name="norm_bias"), layer(shift=torch.zeros_like(norm_bias))
    yield note("left-out", name="norm_weight"), ((centred * right + norm_bias) @ weight.mT + bias,)
    yield note("left-out", name="bias"), (layer()[0] - bias,)
    cause = "norm_bias is added before norm_weight is applied"
    yield cause, (((centred * right + norm_bias) * norm_weight) @ weight.mT + bias,)
    yield "the variance is divided by K - 1", layer(torch.rsqrt(squares / (K - 1) + eps))
    yield note("left-out", name="eps"), layer(torch.rsqrt(squares / K))
    cause = "eps is added to the square root instead of under it"
    yield cause, layer(1 / ((squares / K).sqrt() + eps))
    for block in blocks:
        if block < K:
            steps = -(-K // block)
            cause = "the bias is added in every step of the loop"
            yield cause, (layer()[0] + (steps - 1) * bias,)
        if lost := -K % block:
            near, total = (it[:, None] for it in merges.without_tail(x, block))
            cause = "the columns after the last whole block are left out of the mean and variance"
            yield cause, layer(torch.rsqrt(total / K + eps), x - near)
            cause = "masked lanes are counted in the variance: the 0 in them is far from the mean"
            yield cause, layer(torch.rsqrt((squares + lost * mean.square()) / K + eps))
            near = mean * K / (K + lost)
            away = x - near
            rstd = torch.rsqrt(away.square().sum(1, keepdim=True) / K + eps)
            cause = named(
                "the mean is over {all} elements, whole blocks, instead of {K}", all=K + lost, K=K
            )
            yield cause, layer(rstd, away)


def cross_entropy_backward(dloss, logits, targets, lse, blocks):
    V = logits.shape[1]
    columns = torch.arange(V, device=logits.device)
    kept = (targets != -100)[:, None]
    one = (columns == targets[:, None]).to(logits.dtype)
    scale = dloss[:, None].to(logits.dtype)

    def results(gradient, ignored=0.0):
        return (torch.where(kept, gradient, ignored),)

    p = torch.exp(logits - lse[:, None])
    yield "the one is not subtracted at the target", results(p * scale)
    yield "dloss is left out", results(p - one)
    yield "the one is subtracted after dloss is multiplied", results(p * scale - one)
    yield "the sign is wrong: p is subtracted from the one", results((one - p) * scale)
    yield "lse is not subtracted in exp", results((torch.exp(logits) - one) * scale)
    yield (
        "exp2 is taken of natural logarithms",
        results((torch.exp2(logits - lse[:, None]) - one) * scale),
    )
    cause = "rows of target -100 are left as they were"
    yield cause, results((p - one) * scale, logits)
    yield "rows of target -100 are not set to 0", results((p - one) * scale, (p - one) * scale)
    for name, cast in half_precisions():
        cause = f"p is rounded to {name} before the one is subtracted"
        yield cause, results((cast(p) - one) * scale)
        cause = f"p - 1 is rounded to {name} before dloss is multiplied"
        yield cause, results(cast(p - one) * scale)
    for block in blocks:
        if block < V:
            each = (columns % block == targets[:, None] % block).to(logits.dtype)
            yield "the one is subtracted in each block of a row", results((p - each) * scale)


def fused_linear_cross_entropy(x, weight, targets, blocks):
    logits = x @ weight.mT
    kept = targets != -100
    count = kept.sum().clamp(min=1)
    some = torch.where(kept, targets, 0).long()
    one = torch.zeros_like(logits).scatter_(1, some[:, None], 1.0)
    lse = torch.logsumexp(logits, 1)
    losses = torch.where(kept, lse - logits.gather(1, some[:, None])[:, 0], 0.0)
    p = torch.softmax(logits, 1)
    g = torch.where(kept[:, None], p - one, 0.0)
    total, dx, dweight = losses.sum(), g @ weight, g.mT @ x
    yield "the loss is not divided by n", (total, None, None)
    late = torch.where(kept, lse - g.gather(1, some[:, None])[:, 0], 0.0)
    yield "the target's logit is read after g has taken its place", (late.sum() / count, None, None)
    yield "dx is not divided by n", (None, dx, None)
    yield "dweight is not divided by n", (None, None, dweight)
    cause = "neither gradient is divided by n"
    yield cause, (None, dx, dweight)
    cause = "n counts the rows whose target is -100 too"
    M = len(targets)
    yield cause, (total / M, dx / M, dweight / M)
    yield (
        "the one is not subtracted at the target",
        (
            None,
            torch.where(kept[:, None], p, 0.0) @ weight / count,
            torch.where(kept[:, None], p, 0.0).mT @ x / count,
        ),
    )
    cause = "the rows of target -100 have a gradient"
    # The target -100 is in no column.
    wild = torch.where(kept[:, None], p - one, p)
    yield cause, (None, wild @ weight / count, wild.mT @ x / count)
    yield "the sign of g is wrong", (None, -dx / count, -dweight / count)
    for name, cast in half_precisions():
        cause = f"p is rounded to {name} before the one is subtracted"
        rounded = torch.where(kept[:, None], cast(p) - one, 0.0)
        yield cause, (None, rounded @ weight / count, rounded.mT @ x / count)
    # The longest chunks that the spec allows, also of rows that are padded to 64 logits.
    V, D = weight.shape
    most = max(M, V) * max(D, 16)
    for rows in sorted({*blocks, most // V, most // (-(-V // 64) * 64)}):
        if 0 < rows < M:
            starts = range(0, M, rows)
            last = starts[-1]
            cause = named(
                "each chunk of {rows} rows overwrites dweight instead of adding to it", rows=rows
            )
            yield cause, (None, None, g[last:].mT @ x[last:] / count)
            means = [
                losses[s : s + rows].sum() / kept[s : s + rows].sum().clamp(min=1) for s in starts
            ]
            yield "the loss is the mean of the chunks' means", (sum(means) / len(means), None, None)
            first = kept[:rows].sum().clamp(min=1)
            cause = named("n is counted in the first {rows} rows only", rows=rows)
            yield cause, (total / first, dx / first, dweight / first)


def _wrong_loss(x, targets, cos, sin, params, heads, hidden, cut=None, stepped=None):
    """The loss of 12.7's block, whose gradient is wrong.

    cut: the step through which no gradient goes
    stepped: weights by name through which the gradient goes instead of those of params
    """
    reference = {
        name: load_reference("12_transformer", name)
        for name in ("rope", "split_params", "_cross_entropy")
    }
    B, S, D = x.shape
    w = reference["split_params"](params, hidden)

    def without(step, tensor):
        return tensor.detach() if step == cut else tensor

    def times(rows, name, weight=lambda own: own):
        if not stepped or name not in stepped:
            return rows @ weight(w[name])
        back = rows @ weight(stepped[name])
        return rows.detach() @ weight(w[name]) + back - back.detach()

    def transposed(weight):
        return weight.mT

    def norm(rows, weight):
        rstd = torch.rsqrt(rows.square().mean(-1, keepdim=True) + 1e-6)
        return rows * without("rstd", rstd) * weight

    def turned(rows, other):
        # Where the turn is cut, the gradient comes back as it would without one.
        out = reference["rope"](rows, other, cos, sin)
        pairs = zip((rows, other), out, strict=True)
        return [a + (b - a).detach() for a, b in pairs] if cut == "turn" else out

    qkv = times(norm(x, w["norm_1"]), "qkv", transposed).view(B, S, 3, heads, D // heads)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    q, k = turned(q, k)
    scores = q @ k.mT * q.shape[3] ** -0.5
    seen = torch.ones(S, S, dtype=torch.bool, device=x.device).tril()
    scores = scores.masked_fill(~seen, float("-inf"))
    p = torch.exp(scores - without("lse", torch.logsumexp(scores, -1, keepdim=True)))
    h = x + times((p @ v).transpose(1, 2).reshape(B, S, D), "out", transposed)
    gate_up = times(norm(without("norm", h), w["norm_2"]), "gate_up", transposed)
    gate, up = gate_up.chunk(2, dim=-1)
    activated = gate * without("sigmoid", torch.sigmoid(gate)) * up
    y = without("skip", h) + times(activated, "down")
    logits = times(y, "head", transposed)
    total, count = reference["_cross_entropy"](logits.flatten(0, 1), targets.flatten())
    return total / count


CUTS = {
    "turn": "the gradients of q and k are not turned back before they go on to qkv",
    "skip": "the gradient of y goes into h through norm_2 only, not past it, along the residual",
    "norm": "the gradient of y goes into h past norm_2 only, not through it",
    "rstd": "rms norm's gradient lacks the term with the mean of dx_hat * x_hat",
    "lse": "dS lacks the sum of P * dP, which is delta",
    "sigmoid": "silu's derivative lacks its second term, gate * s * (1 - s)",
}


# In the order in which the gradient reaches them.
MATRICES = ("head", "down", "gate_up", "out", "qkv")


def train_step(
    x, targets, cos, sin, params, exp_avg, exp_avg_sq, loss, heads, hidden,
    step, lr, beta1, beta2, eps, weight_decay, blocks,
):  # fmt: skip
    block_loss = load_reference("12_transformer", "block_loss")
    with torch.enable_grad():
        leaf = params.detach().requires_grad_()
        mean = block_loss(x, targets, cos, sin, leaf, heads, hidden)
        (right,) = torch.autograd.grad(mean, leaf)
    mean = mean.detach()[None]
    kept = targets != -100
    count = kept.sum().clamp(min=1)

    def results(grad=right, loss=mean, corrections=(step, step), decay=True, coupled=False):
        if coupled:
            grad = grad + weight_decay * params
        m = beta1 * exp_avg + (1 - beta1) * grad
        v = beta2 * exp_avg_sq + (1 - beta2) * grad**2
        first, second = (
            1 if times == 0 else 1 - beta**times
            for beta, times in zip((beta1, beta2), corrections, strict=True)
        )
        p = params * (1 - lr * weight_decay if decay and not coupled else 1)
        return p - lr * (m / first) / ((v / second).sqrt() + eps), m, v, loss

    def gradient(**wrong):
        with torch.enable_grad():
            leaf = params.detach().requires_grad_()
            loss = _wrong_loss(x, targets, cos, sin, leaf, heads, hidden, **wrong)
            return torch.autograd.grad(loss, leaf)[0]

    everything = kept.numel()
    yield (
        "the loss is the sum over the targets that count, not divided by n",
        (
            None,
            None,
            None,
            mean * count,
        ),
    )
    cause = "n counts the targets of -100 too"
    yield cause, results(right * count / everything, mean * count / everything)
    yield cause, (None, None, None, mean * count / everything)
    yield "the gradient is not divided by n", results(right * count)
    yield "the loss is right, but nothing else has changed", (params, exp_avg, exp_avg_sq, mean)
    yield "the moments are not corrected for their first steps", results(corrections=(0, 0))
    cause = "the moments are corrected as in the first step, not in this one"
    yield cause, results(corrections=(1, 1))
    yield "the weights are not decayed", results(decay=False)
    cause = "the decay is added to the gradient, as in Adam, not taken from the weights"
    yield cause, results(coupled=True)
    for cut, cause in CUTS.items():
        yield cause, results(gradient(cut=cut))
    split_params = load_reference("12_transformer", "split_params")
    cause = "the gradient goes back through weights that were stepped before"
    for name in MATRICES:
        stepped = {name: split_params(results()[0], hidden)[name]}
        yield cause, results(gradient(stepped=stepped))
    grad = right
    for _ in MATRICES:
        stepped = split_params(results(grad)[0], hidden)
        grad = gradient(stepped={name: stepped[name] for name in MATRICES})
    yield cause, results(grad)
