"""kernelgauge.diagnosis.mistakes: a mistake is named if it was made, and not if another was."""

from __future__ import annotations

import inspect
import math

import pytest
import torch
from torch.nn.functional import pad

from course import loader, paths
from kernelgauge.core.arguments import Arguments
from kernelgauge.diagnosis import mistakes
from kernelgauge.numerics import compare
from kernelgauge.words import reason
from kernelgauge.words.fault import PROVEN
from tests.diagnosing import diagnosed


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def said(function, wrong, *inputs, blocks=()):
    """Return what is said about the first result if `wrong` is computed, "" for nothing.

    function: the reference, as "07_matmul/tiled_matmul"
    wrong: takes the inputs in float64 and returns all results, a tensor or a tuple
    """
    chapter, _, name = function.partition("/")
    reference = loader.load_reference(chapter, name)
    arguments = Arguments(tuple(inspect.signature(reference).parameters), inputs, {})

    def evaluate(given, change=lambda x: x.double()):
        made = reference(**given.map(lambda _, x: change(x)).values)
        return made if isinstance(made, tuple) else (made,)

    truth = evaluate(arguments)
    yardsticks = evaluate(arguments, lambda x: x)
    made = wrong(*(x.double() if isinstance(x, torch.Tensor) else x for x in inputs))
    made = made if isinstance(made, tuple) else (made,)
    got = [x.to(y.dtype) for x, y in zip(made, yardsticks, strict=True)]

    def mismatch(number, result):
        return compare.compare(result, truth[number], yardsticks[number])

    what_if = mistakes.build_what_if(
        reference,
        evaluate,
        arguments,
        got=got,
        truth=truth,
        mismatch=mismatch,
        number=0,
        blocks=blocks,
    )
    names = [f"result {number}" for number in range(len(got))]
    tried = mistakes.candidates(what_if, names, truth, loader.load_mistakes(chapter, name))
    found = mismatch(0, got[0])
    assert found, "nothing is wrong"
    fault = diagnosed(got[0], truth[0], found, mistakes=tried)
    return reason(fault) if fault.cause and fault.cause.known == PROVEN else ""


A, B = randn(40, 300), randn(300, 50, seed=1)
X, WEIGHT, BIAS = randn(60, 48) + 3, randn(48, seed=1), randn(48, seed=2)
Q, K, V = randn(2, 6, 20, 16), randn(2, 2, 70, 16, seed=1), randn(2, 2, 70, 16, seed=2)


def product(wrong, *blocks):
    return said("07_matmul/tiled_matmul", wrong, A, B, blocks=blocks)


def rms_norm(wrong, *eps):
    return said("05_normalization/rms_norm", wrong, X, WEIGHT, *eps)


def mean_over(divisor):
    """Return what is said about a layer norm whose mean is divided by this, with blocks of 64."""

    def wrong(x, weight, bias):
        mean = x.sum(1, keepdim=True) / divisor
        rstd = torch.rsqrt((x - mean).square().mean(1, keepdim=True) + 1e-5)
        return (x - mean) * rstd * weight + bias, mean[:, 0], rstd[:, 0]

    return said("05_normalization/layer_norm", wrong, X, WEIGHT, BIAS, blocks=(64,))


def softmax(wrong, block):
    return said("04_softmax/online_softmax", wrong, X, blocks=(block,))


def padded_softmax(value):
    """Return what is said about a softmax that counts 16 lanes of this value in each row."""
    return softmax(lambda x: pad(x, (0, 16), value=value).softmax(1)[:, :48], 64)


def attention(*, ahead=0, factor=1.0, causal=True, heads=None, scale=None):
    """Return what is said about an attention with another mask, scale or choice of heads."""

    def wrong(q, k, v, scale_given, causal_given):
        group = torch.arange(q.shape[1]) // (q.shape[1] // k.shape[1])
        x = q @ k[:, group if heads is None else heads].mT * q.shape[-1] ** -0.5 * factor
        rows, columns = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
        if causal:
            x = x.masked_fill(columns > rows + ahead, -math.inf)
        return x.softmax(-1) @ v[:, group]

    return said("13_attention/grouped_query_attention", wrong, Q, K, V, scale, True)


def windowed(sees, function, *window):
    """Return what is said about an attention of 96 queries, each of which sees these keys."""
    mask = sees(torch.arange(96)[:, None], torch.arange(96))

    def wrong(q, k, v, *given):
        return (q @ k.mT / 4).masked_fill(~mask, -math.inf).softmax(-1) @ v

    tensors = (randn(1, 2, 96, 16, seed=seed) for seed in range(3))
    return said(f"13_attention/{function}", wrong, *tensors, *window, 0.25, blocks=(16, 32, 64))


def carried_maximum(x):
    """Return a running total along rows that takes the largest one of 16 columns to the next."""
    carry, parts = 0.0, []
    for part in x.split(16, 1):
        parts.append(carry + part.cumsum(1))
        carry = parts[-1].amax(1, keepdim=True)
    return torch.cat(parts, 1)


def normed(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + eps) * weight


def outside_the_root(x, weight, eps):
    return x / (x.square().mean(1, keepdim=True).sqrt() + eps) * weight


def unrescaled(x, block, factor=0.0):
    """Return a softmax by blocks whose sum is multiplied by exp(factor * (old - new maximum))."""
    largest, total = x[:, :1] * 0 - math.inf, 0.0
    for part in x.split(block, 1):
        new = torch.maximum(largest, part.amax(1, keepdim=True))
        correction = torch.exp(factor * (largest - new)) if factor else 1.0
        total = total * correction + torch.exp(part - new).sum(1, keepdim=True)
        largest = new
    return torch.exp(x - largest) / total


def stepped(a, b, step, dtype):
    total = 0.0
    for k in range(0, a.shape[1], step):
        total = (total + a[:, k : k + step] @ b[k : k + step]).to(dtype).double()
    return total


# Words that must be said, and the mistake.
SAID = {
    "a loop, a mask or the grid ends too early (with only the first 64 of the 300": lambda: product(
        lambda a, b: a[:, :64] @ b[:64], 16, 64
    ),
    "a loop, a mask or the grid ends too early (with only the first 256 of the 300": lambda: (
        product(lambda a, b: a[:, :256] @ b[:256], 64)
    ),
    "each step overwrites the accumulator": lambda: product(lambda a, b: a[:, 256:] @ b[256:], 64),
    "a sum is accumulated in float16": lambda: said(
        "07_matmul/tiled_matmul",
        lambda a, b: stepped(a, b, 64, torch.float16),
        A.half(),
        B.half(),
        blocks=(64,),
    ),
    "a is cast to bfloat16 on the way": lambda: product(lambda a, b: a.bfloat16().double() @ b),
    "a is read as if it were contiguous": lambda: said(
        "07_matmul/tiled_matmul", lambda a, b: a.T.reshape(a.shape) @ b, A.T.contiguous().T, B
    ),
    "an offset into a leaves out dimension 0": lambda: product(
        lambda a, b: a[:1].expand(a.shape) @ b
    ),
    "gate and up are swapped": lambda: said(
        "06_fusion/swiglu",
        lambda gate, up: gate * torch.nn.functional.silu(up),
        A,
        randn(40, 300, seed=1),
    ),
    "weight is left out": lambda: rms_norm(lambda x, w: normed(x, 1.0, 1e-6)),
    "eps is not used": lambda: rms_norm(lambda x, w, eps: normed(x, w, 1e-6), 0.5),
    "eps is added to the square root instead of under it": lambda: rms_norm(outside_the_root, 0.5),
    "a mean over 64 elements, the block size, instead of 48": lambda: mean_over(64),
    "masked lanes of x count as 0": lambda: padded_softmax(0.0),
    "the sum is not rescaled": lambda: softmax(lambda x: unrescaled(x, 16), 16),
    "one key after the query": lambda: attention(ahead=1),
    "causal is not used": lambda: attention(causal=False),
    "the sine has the other sign": lambda: said(
        "12_transformer/rope",
        lambda q, k, c, s: loader.load_reference("12_transformer", "rope")(q, k, c, -s),
        *(Q, K[:, :, :20], randn(20, 8, seed=3), randn(20, 8, seed=4)),
    ),
    "causal = True, but causal is False here": lambda: said(
        "13_attention/grouped_query_attention",
        lambda *given: loader.load_reference("13_attention", "grouped_query_attention")(
            *given, True
        ),
        *(Q, K, V, 0.25),
    ),
    "the scale is applied on top of D ** -0.5": lambda: attention(factor=3.0, scale=3.0),
    "the wrong head of keys": lambda: attention(heads=torch.arange(6) % 2),
    "erf is computed of x without the bias": lambda: said(
        "06_fusion/bias_gelu",
        lambda x, bias: (x + bias) * (1 + torch.erf(x / 2**0.5)) / 2,
        X - 3,
        BIAS,
    ),
    "the carry is the largest running total of the block": lambda: said(
        "03_reductions/cumsum", carried_maximum, X - 3, blocks=(16,)
    ),
    "tiles on the diagonal are not masked": lambda: windowed(
        lambda rows, columns: (columns <= rows) | ((columns < 64) & (rows > 15)),
        "causal_attention",
    ),
    "the loop begins where the last query of a tile needs it": lambda: windowed(
        lambda rows, columns: (
            (columns <= rows)
            & (columns > rows - 40)
            & (columns >= (rows // 32 * 32 - 8) // 16 * 16)
        ),
        "sliding_window_attention",
        40,
    ),
    "result 0 and result 1 are swapped": lambda: said(
        "03_reductions/welford", lambda x: (x.var(1), x.mean(1)), X, blocks=(64,)
    ),
}

# A mistake close to one of those above, and words that must not be said.
NOT_SAID = {
    "a part that ends with no block": (
        lambda: product(lambda a, b: a[:, :100] @ b[:100], 16, 64),
        "loop",
    ),
    "one term left out": (lambda: product(lambda a, b: a[:, 1:] @ b[1:], 16, 64), "loop"),
    "a step counted twice": (
        lambda: product(lambda a, b: a @ b + a[:, :64] @ b[:64], 64),
        "loop",
    ),
    "noise as large as that of a cast": (
        lambda: product(lambda a, b: (a * (1 + 2.0**-9 * randn(*a.shape, seed=5))) @ b),
        "cast",
    ),
    "each row used for the next": (lambda: product(lambda a, b: a.roll(1, 0) @ b), "dimension"),
    "the weight applied twice": (
        lambda: rms_norm(lambda x, w: normed(x, w * w, 1e-6)),
        "left out",
    ),
    "twice eps": (lambda: rms_norm(lambda x, w, eps: normed(x, w, 2 * eps), 0.5), "eps"),
    "a mean over one too few": (lambda: mean_over(47), "block size"),
    "masked lanes that hold something else": (lambda: padded_softmax(2.0), "lanes"),
    "rescaled by the square root": (
        lambda: softmax(lambda x: unrescaled(x, 16, factor=0.5), 16),
        "not rescaled",
    ),
    "two keys too many": (lambda: attention(ahead=2), "one key"),
    "heads in reverse": (lambda: attention(heads=1 - torch.arange(6) // 3), "modulo"),
    "twice the scale": (lambda: attention(factor=2.0), "scale"),
    "noise": (lambda: product(lambda a, b: randn(40, 50, seed=7).double(), 16, 64), "a"),
    "zeros": (lambda: product(lambda a, b: 0 * (a @ b), 16, 64), "a"),
}


@pytest.mark.parametrize("words", SAID)
def test_a_mistake_is_named(words):
    assert words in SAID[words]()


@pytest.mark.parametrize(("make", "words"), NOT_SAID.values(), ids=NOT_SAID)
def test_a_mistake_is_not_taken_for_another(make, words):
    assert words not in make()


def test_a_mistake_must_explain_the_other_results():
    # dbias is right: if dy had been left out, it would not be.
    x, dy = X, randn(60, 48, seed=3)
    mean, rstd = x.mean(1), torch.rsqrt(x.var(1, correction=0) + 1e-5)

    def wrong(dy, x, weight, mean, rstd):
        nothing = torch.zeros_like(x) + 1e-3 * x
        return nothing, (dy * ((x - mean[:, None]) * rstd[:, None])).sum(0), dy.sum(0)

    given = dy, x, WEIGHT, mean, rstd
    assert said("05_normalization/layer_norm_backward", wrong, *given, blocks=(64,)) == ""


def test_a_sum_is_added_up_again_over_a_tile_alone():
    def sums(block):
        return said("03_reductions/row_sum", lambda x: x.sum(1) * block, X, blocks=(block,))

    assert "added up once more, over 64 elements" in sums(64)
    # No tile has such a length.
    assert sums(48) == ""


def test_large_inputs_are_left_alone():
    x = torch.zeros(mistakes.MAX_DIAGNOSED_ELEMENTS + 1)
    assert said("01_pointwise/vector_add", lambda x, y: x - y + 1, x, x) == ""


OWN = sorted((paths.ROOT / "reference" / "mistakes").glob("[0-9]*.py"))


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_the_mistakes_of_a_puzzle_take_what_its_reference_takes(path):
    taken = {
        name: list(inspect.signature(made).parameters)
        for name, made in vars(paths.load(path)).items()
        if inspect.isfunction(made) and "blocks" in inspect.signature(made).parameters
        if not name.startswith("_")
    }
    assert taken
    for name, parameters in taken.items():
        reference = inspect.signature(loader.load_reference(path.stem, name)).parameters
        parameters = [x for x in parameters if x not in ("blocks", "dout") or x in reference]
        assert parameters == list(reference), name
