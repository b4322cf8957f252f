"""The tolerance rule, on operations of the curriculum computed as kernels compute them.

Right implementations sum in float32, in blocks, in another order than PyTorch, and round once at
the end. They must pass for every seed. The wrong ones are what the rule exists to catch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from kernelgauge.numerics import perturbation
from kernelgauge.numerics.compare import compare
from kernelgauge.words import message

SEEDS = range(2)
LOG2E = math.log2(math.e)
F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64


@dataclass
class Operation:
    """An operation, with right and wrong implementations of it.

    inputs: makes float64 inputs from a randn
    right, wrong: implementations by name, which take the inputs in one of the dtypes
    runs: give `compare` the yardsticks of `rounded_runs` too
    """

    inputs: Callable
    reference: Callable
    right: dict
    wrong: dict
    dtypes: tuple = (F16, BF16, F32)
    runs: bool = False
    options: dict = field(default_factory=dict)


def up(x):
    """Convert to the dtype a kernel accumulates in."""
    return x.double() if x.dtype == F64 else x.float()


def tree(x):
    """Sum the last dimension by halves, in the dtype of x."""
    width = 1 << (x.shape[-1] - 1).bit_length()
    x = F.pad(x, (0, width - x.shape[-1]))
    while x.shape[-1] > 1:
        x = x[..., : x.shape[-1] // 2] + x[..., x.shape[-1] // 2 :]
    return x[..., 0]


def lanes(x, block=1024):
    """Sum blocks into a vector of lanes, then the lanes, in the dtype of x."""
    x = F.pad(x, (0, -x.shape[-1] % block)).unflatten(-1, (-1, block))
    return tree(sum(x.unbind(-2)))


def blocks(x, block=128):
    """Sum block by block into one number, in the dtype of x."""
    return sum(tree(part) for part in x.split(block, -1))


def running_sum(x):
    """Return the cumulative sum of the columns, added one by one in the dtype of x."""
    return torch.stack([*itertools.accumulate(x.unbind(-1))], -1)


def online_softmax(x, block=128, rescale=True):
    scaled = up(x) * LOG2E
    top = torch.full(x.shape[:-1], -math.inf)
    total = torch.zeros(x.shape[:-1])
    for part in scaled.split(block, -1):
        new = torch.maximum(top, part.amax(-1))
        shrink = torch.exp2(top - new) if rescale else 1.0
        total = total * shrink + tree(torch.exp2(part - new[..., None]))
        top = new
    return torch.exp2(scaled - top[..., None]) / total[..., None], top / LOG2E + total.log()


def welford(x, width=64):
    """Return mean and sum of squared deviations from one pass, `width` lanes merged at the end."""
    parts = up(x).unflatten(-1, (-1, width))
    mean, squares, count = parts[..., 0, :], torch.zeros_like(parts[..., 0, :]), 1
    for step in range(1, parts.shape[-2]):
        count += 1
        change = parts[..., step, :] - mean
        mean = mean + change / count
        squares = squares + change * (parts[..., step, :] - mean)
    while mean.shape[-1] > 1:
        half = mean.shape[-1] // 2
        change = mean[..., half:] - mean[..., :half]
        squares = squares[..., :half] + squares[..., half:] + change * change * count / 2
        mean, count = mean[..., :half] + change / 2, 2 * count
    return mean[..., 0], squares[..., 0]


def two_passes(x):
    mean = lanes(up(x)) / x.shape[-1]
    return mean, lanes((up(x) - mean[..., None]) ** 2)


def naive_squares(x):
    x, n = up(x), x.shape[-1]
    return x.mean(-1), ((x * x).sum(-1) / n - x.mean(-1) ** 2) * n


def layer_norm(moments, *, outside=False, unbiased=0, scale=1.0):
    def run(x, weight, bias):
        mean, squares = moments(x)
        variance = squares / (x.shape[-1] - unbiased)
        rstd = 1 / (variance.sqrt() + 1e-5) if outside else (variance + 1e-5).rsqrt()
        y = ((up(x) - mean[..., None]) * rstd[..., None] * weight + bias) * scale
        return y.to(x.dtype), mean, rstd

    return run


def layer_norm_reference(x, weight, bias):
    rstd = (x.var(-1, correction=0) + 1e-5).rsqrt()
    return F.layer_norm(x, x.shape[-1:], weight, bias), up(x.mean(-1)), up(rstd)


def matmul(step=32, *, first=0, last=None, accumulate=None, cut=False):
    def run(a, b):
        total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype if accumulate else up(a).dtype)
        if cut:
            a, b = (up(x).view(torch.int32).bitwise_and(~0x1FFF).view(F32) for x in (a, b))
        for k in range(first, last or a.shape[1], step):
            part = up(a[:, k : k + step]) @ up(b[k : k + step])
            total = total + part.to(total.dtype)
        return total.to(a.dtype)

    return run


def cross_entropy(x, target):
    return torch.logsumexp(x, -1) - x.gather(1, target[:, None].long())[:, 0]


def attention_reference(q, k, v):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    return torch.softmax(scores, -1) @ v, up(torch.logsumexp(scores, -1))


def flash(block=32, *, scale=True, rescale=True, skip=None, half=False, prescale=False):
    def run(q, k, v):
        factor = (q.shape[-1] ** -0.5 if scale else 1.0) * LOG2E
        query = (q.float() * factor).to(q.dtype).float() if prescale else q.float()
        top = torch.full(q.shape[:-1], -math.inf)
        total = torch.zeros(q.shape[:-1])
        out = torch.zeros(q.shape, dtype=q.dtype if half else F32)
        for j in range(0, k.shape[-2], block):
            if j == skip:
                continue
            scores = query @ k[..., j : j + block, :].float().mT * (1 if prescale else factor)
            new = torch.maximum(top, scores.amax(-1))
            p = torch.exp2(scores - new[..., None])
            shrink = torch.exp2(top - new) if rescale else torch.ones_like(new)
            total = total * shrink + p.sum(-1)
            part = p.to(q.dtype).float() @ v[..., j : j + block, :].float()
            out = (out * shrink[..., None] + part).to(out.dtype)
            top = new
        return (out.float() / total[..., None]).to(q.dtype), top / LOG2E + total.log()

    return run


def masked(scores):
    """Replace the scores of later keys by -inf."""
    return scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1) > 0, -math.inf)


def backward_reference(q, k, v, dout):
    scale = q.shape[-1] ** -0.5
    p = torch.softmax(masked(q @ k.mT * scale), -1)
    delta = ((p @ v) * dout).sum(-1, keepdim=True)
    ds = p * (dout @ v.mT - delta)
    return ds @ k * scale, ds.mT @ q * scale, p.mT @ dout


def flash_backward(*, delta=True, mask=True, scale=True, skip=None):
    def run(q, k, v, dout):
        dtype, factor = q.dtype, q.shape[-1] ** -0.5
        q, k, v, dout = (x.float() for x in (q, k, v, dout))
        scores = q @ k.mT * factor
        seen = masked(scores)
        exact = seen.softmax(-1)
        p = exact if mask else (scores - seen.logsumexp(-1, keepdim=True)).exp()
        out = (exact @ v).to(dtype).float()
        row = (out * dout).sum(-1, keepdim=True) * (1.0 if delta else 0.0)
        ds = (p * (dout @ v.mT - row)).to(dtype).float()
        dq = torch.zeros_like(q)
        for j in range(0, k.shape[-2], 32):
            if j != skip:
                dq = dq + ds[..., j : j + 32] @ k[..., j : j + 32, :]
        last = factor if scale else 1.0
        dv = p.to(dtype).float().mT @ dout
        return (dq * last).to(dtype), (ds.mT @ q * last).to(dtype), dv.to(dtype)

    return run


def gelu(x, bias):
    x = up(x) + up(bias)
    return x * 0.5 * (1 + torch.erf(x * 0.7071067811865476))


def rounded(function):
    """Round what the function computes in float32 to the input's dtype."""
    return lambda x, *rest: function(x, *rest).to(x.dtype)


def exactly(function):
    """Round what the function computes in float64, so that it is wrong only for its formula."""
    return lambda x, *rest: function(x.double(), *(r.double() for r in rest)).to(x.dtype)


def in_half_precision(function):
    """Call the function on half precision only, and return zeros for other dtypes."""
    return lambda x, *rest: function(x, *rest) * (x.dtype in (F16, BF16))


def row_of_zeros(function):
    """Replace the last row of what the function computes by zeros."""
    return lambda *inputs: torch.cat([function(*inputs)[:-1], 0 * function(*inputs)[-1:]])


sums = {
    "lanes": rounded(lambda x: lanes(up(x))),
    "blocks": rounded(lambda x: blocks(up(x), 1024)),
    "reversed": rounded(lambda x: lanes(up(x).flip(-1), 128)),
}
moments = {"welford": welford, "two passes": two_passes}
layer_norms = {name: layer_norm(function) for name, function in moments.items()}
variances = {
    name: rounded(lambda x, f=function: f(x)[1] / (x.shape[-1] - 1))
    for name, function in moments.items()
}
biased = {"biased": exactly(lambda x: x.var(-1, correction=0))}
softmaxes = {
    "online": rounded(lambda x: online_softmax(x)[0]),
    "blocks of 32": rounded(lambda x: online_softmax(x, 32)[0]),
}

OPERATIONS = {
    "swish": Operation(
        lambda randn: [4 * randn(4097)],
        lambda x: x * torch.sigmoid(x),
        {"exp2": rounded(lambda x: up(x) / (1 + torch.exp2(up(x) * -LOG2E)))},
        {"1.01": exactly(lambda x: x * x.sigmoid() * 1.01), "zeros": torch.zeros_like},
        dtypes=(F16, BF16, F32, F64),
    ),
    "gelu": Operation(
        lambda randn: [randn(33, 100) - 2, randn(100) / 2],
        lambda x, bias: F.gelu(x + bias),
        {"float32": rounded(gelu), "two roundings": lambda x, b: F.gelu(x + b)},
        {"tanh": exactly(lambda x, b: F.gelu(x + b, approximate="tanh"))},
        dtypes=(F16, F32),
    ),
    "row_sum": Operation(
        lambda randn: [randn(33, 1000)],
        lambda x: x.sum(-1),
        sums,
        {
            "last element dropped": exactly(lambda x: x[:, :-1].sum(-1)),
            "half precision": in_half_precision(lambda x: lanes(x, 256)),
            "half, blocks": in_half_precision(blocks),
            "row of zeros": row_of_zeros(lambda x: x.sum(-1)),
            "1.01": exactly(lambda x: x.sum(-1) * 1.01),
        },
        dtypes=(F16, BF16, F32, F64),
    ),
    "long row_sum": Operation(
        lambda randn: [randn(3, 100_000)],
        lambda x: x.sum(-1),
        sums,
        {"last block dropped": exactly(lambda x: x[:, :-672].sum(-1))},
    ),
    "total_sum": Operation(
        lambda randn: [randn(300, 300)],
        lambda x: x.sum(),
        {"two stages": rounded(lambda x: tree(lanes(up(x))))},
        {"half dropped": exactly(lambda x: x[150:].sum())},
    ),
    "cumsum": Operation(
        lambda randn: [randn(5, 1024)],
        lambda x: x.cumsum(-1),
        {"one by one": rounded(lambda x: running_sum(up(x)))},
        {"half precision": in_half_precision(running_sum)},
    ),
    "softmax": Operation(
        lambda randn: [randn(33, 1000)],
        lambda x: torch.softmax(x, -1),
        softmaxes,
        {
            "1.01": exactly(lambda x: x.softmax(-1) * 1.01),
            "row of zeros": row_of_zeros(lambda x: x.softmax(-1)),
            "zeros": torch.zeros_like,
        },
    ),
    "large softmax": Operation(
        lambda randn: [100 * randn(33, 500)],
        lambda x: torch.softmax(x, -1),
        softmaxes,
        {"no maximum": rounded(lambda x: up(x).exp() / up(x).exp().sum(-1, keepdim=True))},
    ),
    "variance": Operation(
        lambda randn: [randn(64, 960)],
        lambda x: x.var(-1),
        variances,
        biased,
        dtypes=(F16, F32, F64),
    ),
    "short variance": Operation(
        lambda randn: [randn(64, 64)],
        lambda x: x.var(-1),
        variances,
        biased,
        dtypes=(BF16,),
    ),
    "variance far from 0": Operation(
        lambda randn: [randn(16, 960) + 1e4],
        lambda x: x.var(-1),
        variances,
        {"naive": lambda x: naive_squares(x.float())[1].to(x.dtype) / (x.shape[-1] - 1)},
        dtypes=(F32, F64),
    ),
    "layer_norm": Operation(
        lambda randn: [
            randn(16, 192) * torch.logspace(-3, 1, 16)[:, None],
            1 + randn(192) / 2,
            randn(192),
        ],
        layer_norm_reference,
        layer_norms,
        {
            "eps outside": layer_norm(two_passes, outside=True),
            "unbiased": layer_norm(two_passes, unbiased=1),
            "1.01": layer_norm(two_passes, scale=1.01),
        },
    ),
    "layer_norm far from 0": Operation(
        lambda randn: [randn(16, 192) + 1e4, 1 + randn(192) / 2, randn(192)],
        layer_norm_reference,
        layer_norms,
        {"naive": layer_norm(naive_squares)},
        dtypes=(F32,),
    ),
    "matmul": Operation(
        lambda randn: [randn(33, 256), randn(256, 48)],
        lambda a, b: a @ b,
        {"blocks of 32": matmul(), "one by one": matmul(1), "one step": matmul(256)},
        {
            "half precision": in_half_precision(matmul(accumulate=True)),
            "first step only": matmul(last=32),
            "one step missing": matmul(first=32),
            "row of zeros": row_of_zeros(matmul()),
            "1.01": exactly(lambda a, b: a @ b * 1.01),
        },
        dtypes=(F16, BF16, F32, F64),
    ),
    "deep matmul": Operation(
        lambda randn: [randn(8, 4096), randn(4096, 24)],
        lambda a, b: a @ b,
        {"blocks of 32": matmul(), "blocks of 4": matmul(4)},
        {"last term missing": exactly(lambda a, b: a[:, :-1] @ b[:-1])},
        dtypes=(F16, BF16, F32, F64),
    ),
    "tf32 matmul": Operation(
        lambda randn: [randn(33, 256), randn(256, 48)],
        lambda a, b: a @ b,
        {"tf32": matmul(cut=True), "float32": matmul()},
        {"one step missing": matmul(first=32, cut=True)},
        options={"input_precision": "tf32"},
        dtypes=(F32,),
    ),
    "cross_entropy": Operation(
        lambda randn: [3 * randn(33, 1000), torch.arange(33) * 29],
        cross_entropy,
        {"online": rounded(lambda x, t: online_softmax(x)[1] - up(x).gather(1, t[:, None])[:, 0])},
        {
            "no rescale": rounded(
                lambda x, t: online_softmax(x, rescale=False)[1] - up(x).gather(1, t[:, None])[:, 0]
            ),
            "a block missing": exactly(lambda x, t: cross_entropy(x[:, 128:], t.clamp(max=871))),
        },
    ),
    "attention": Operation(
        lambda randn: [randn(1, 2, 128, 64) for _ in range(3)],
        attention_reference,
        {"blocks of 32": flash(), "blocks of 16": flash(16), "scaled before": flash(prescale=True)},
        {
            "no scale": flash(scale=False),
            "no rescale": flash(rescale=False),
            "a block missing": flash(skip=32),
        },
        runs=True,
        dtypes=(F16, BF16),
    ),
    "attention over 256 keys far from 0": Operation(
        lambda randn: [randn(1, 1, 64, 64), randn(1, 1, 256, 64), 1 + randn(1, 1, 256, 64)],
        attention_reference,
        {"blocks of 32": flash()},
        {"half precision": flash(half=True)},
        runs=True,
        dtypes=(F16, BF16),
    ),
    "attention_backward": Operation(
        lambda randn: [2 * randn(1, 2, 128, 32), *(randn(1, 2, 128, 32) for _ in range(3))],
        backward_reference,
        {"float32": flash_backward()},
        {
            "no delta": flash_backward(delta=False),
            "no mask": flash_backward(mask=False),
            "no scale": flash_backward(scale=False),
            "a block missing": flash_backward(skip=32),
        },
        runs=True,
        dtypes=(F16, BF16),
    ),
}


def tensors(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


def judge_of(operation, dtype, seed):
    """Return a function that lists what is wrong with a subject, on inputs made from the seed."""
    generator = torch.Generator().manual_seed(seed)
    wide = operation.inputs(lambda *shape: torch.randn(shape, generator=generator, dtype=F64))
    inputs = [x.to(dtype) if x.is_floating_point() else x for x in wide]
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    truths = tensors(operation.reference(*wide))
    yardsticks = [[x] for x in tensors(operation.reference(*inputs))]
    if operation.runs:
        more = perturbation.rounded_runs(operation.reference, inputs, dtype)
        yardsticks = [own + runs for own, runs in zip(yardsticks, more, strict=True)]
    sizes = perturbation.term_size(operation.reference, inputs)

    def faults(subject):
        found = []
        results = zip(tensors(subject(*inputs)), truths, yardsticks, sizes, strict=True)
        for got, truth, yardstick, size in results:
            if mismatch := compare(got, truth, yardstick, magnitude=size, **operation.options):
                found.append(message(mismatch.fault()))
        return found

    return faults


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """On small tensors, two threads wait for each other ten times as long as they compute."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, id=f"{name}-{str(dtype).removeprefix('torch.')}")
        for name, operation in OPERATIONS.items()
        for dtype in operation.dtypes
    ],
)
def test_right_passes_and_wrong_fails(name, dtype):
    operation = OPERATIONS[name]
    for seed in SEEDS:
        faults = judge_of(operation, dtype, seed)
        for label, subject in operation.right.items():
            assert not faults(subject), f"{label}, seed {seed}"
        for label, subject in operation.wrong.items():
            assert faults(subject), f"{label} passes, seed {seed}"
