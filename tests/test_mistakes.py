"""judge.diagnosis.mistakes: a mistake is named where it was made, and not where another was."""

from __future__ import annotations

import functools
import inspect
import math

import pytest
import torch

from judge.core import paths
from judge.core.arguments import Arguments
from judge.diagnosis import mistakes
from judge.diagnosis.symptoms import mistake
from judge.diagnosis.wrong_result import WrongResult
from judge.numerics import compare
from judge.subject import loader


def randn(*shape, seed=0, dtype=torch.float32):
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return drawn.to(dtype)


def said(function, wrong, *inputs, blocks=(), number=0, **options):
    """What is said where the reference's results are these in place of its own; "" for nothing.

    function: "07_matmul/tiled_matmul"; wrong: from the inputs in float64, a tensor or a tuple
    """
    chapter, _, name = function.partition("/")
    reference = loader.load_reference(chapter, name)
    parameters = inspect.signature(reference).parameters.values()
    arguments = Arguments(tuple(x.name for x in parameters), inputs, options)

    def evaluate(given, change=lambda x: x.double()):
        made = reference(**given.map(lambda _, x: change(x)).values)
        return made if isinstance(made, tuple) else (made,)

    truth = evaluate(arguments)
    yardsticks = evaluate(arguments, lambda x: x)
    made = wrong(*(x.double() if isinstance(x, torch.Tensor) else x for x in inputs))
    made = made if isinstance(made, tuple) else (made,)
    got = [x.to(y.dtype) for x, y in zip(made, yardsticks, strict=True)]

    def mismatch(other, result):
        return compare.compare(result, truth[other], yardsticks[other])

    question = mistakes.build_what_if(
        reference,
        evaluate,
        arguments,
        got=got,
        truth=truth,
        mismatch=mismatch,
        number=number,
        blocks=blocks,
    )
    names = [f"result {other}" for other in range(len(got))]
    tried = mistakes.candidates(question, names, truth, loader.load_mistakes(chapter, name))
    found = mismatch(number, got[number])
    assert found, "nothing is wrong"
    symptom = mistake(WrongResult.of(got[number], truth[number], found, mistakes=tried))
    return symptom.cause if symptom else ""


A, B = randn(40, 300), randn(300, 50, seed=1)
X, WEIGHT, BIAS = randn(60, 48) + 3, randn(48, seed=1), randn(48, seed=2)
Q, K, V = randn(2, 6, 20, 16), randn(2, 2, 70, 16, seed=1), randn(2, 2, 70, 16, seed=2)

matmul = functools.partial(said, "07_matmul/tiled_matmul")
layer_norm = functools.partial(said, "05_normalization/layer_norm")
rms_norm = functools.partial(said, "05_normalization/rms_norm")
softmax = functools.partial(said, "04_softmax/online_softmax")
attention = functools.partial(said, "13_attention/grouped_query_attention")
swiglu = functools.partial(said, "06_fusion/swiglu")


def silu(x):
    return x * torch.sigmoid(x)


def normed(x, weight, eps, divisor=None):
    square = x.square().sum(1, keepdim=True) / (divisor or x.shape[1])
    return x * torch.rsqrt(square + eps) * weight


def attended(q, k, v, *, ahead=0, factor=1.0, causal=True, heads=None):
    group = q.shape[1] // k.shape[1]
    heads = torch.arange(q.shape[1]) // group if heads is None else heads
    x = q @ k[:, heads].mT * q.shape[-1] ** -0.5 * factor
    rows, columns = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
    if causal:
        x = x.masked_fill(columns > rows + ahead, -math.inf)
    return x.softmax(-1) @ v[:, torch.arange(q.shape[1]) // group]


def unrescaled(x, block, factor=0.0):
    """A softmax by blocks whose sum is multiplied by exp(factor * (old - new maximum))."""
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


# What is done wrong, and the words that must be said; then near faults, where they must not.
SAID = {
    "one step of a loop": (
        lambda: matmul(lambda a, b: a[:, :64] @ b[:64], A, B, blocks=(16, 64)),
        "a loop or a mask that ends too early (with the first 64 of the 300",
    ),
    "the last step is left out": (
        lambda: matmul(lambda a, b: a[:, :256] @ b[:256], A, B, blocks=(64,)),
        "a loop or a mask that ends too early (with the first 256 of the 300",
    ),
    "each step replaces the sum": (
        lambda: matmul(lambda a, b: a[:, 256:] @ b[256:], A, B, blocks=(64,)),
        "an accumulator that each step replaces",
    ),
    "a sum kept in float16": (
        lambda: matmul(
            lambda a, b: stepped(a, b, 64, torch.float16), A.half(), B.half(), blocks=(64,)
        ),
        "a sum accumulated in float16",
    ),
    "a factor cast to bfloat16": (
        lambda: matmul(lambda a, b: a.bfloat16().double() @ b, A, B),
        "a cast to bfloat16 on the way",
    ),
    "read without its strides": (
        lambda: matmul(lambda a, b: a.T.reshape(a.shape) @ b, A.T.contiguous().T, B),
        "a read as if it were contiguous",
    ),
    "an axis left out of an offset": (
        lambda: matmul(lambda a, b: a[:1].expand(a.shape) @ b, A, B),
        "an offset into a that leaves out dimension 0",
    ),
    "two inputs exchanged": (
        lambda: swiglu(lambda gate, up: gate * silu(up), A, randn(40, 300, seed=1)),
        "gate and up exchanged",
    ),
    "no weight": (
        lambda: rms_norm(lambda x, w: normed(x, 1.0, 1e-6), X, WEIGHT),
        "weight left out",
    ),
    "eps not used": (
        lambda: rms_norm(lambda x, w, eps: normed(x, w, 1e-6), X, WEIGHT, 0.5),
        "eps not used",
    ),
    "eps outside of the root": (
        lambda: rms_norm(
            lambda x, w, eps: x / (x.square().mean(1, keepdim=True).sqrt() + eps) * w,
            X,
            WEIGHT,
            0.5,
        ),
        "eps added to the root, not under it",
    ),
    "a mean over the padded row": (
        lambda: layer_norm(
            lambda x, w, b: _layer_norm(x, w, b, mean=x.sum(1, keepdim=True) / 64),
            X,
            WEIGHT,
            BIAS,
            blocks=(64,),
        ),
        "a mean over 64 elements, the size of the block, in place of 48",
    ),
    "masked-off lanes are 0": (
        lambda: softmax(
            lambda x: torch.nn.functional.pad(x, (0, 16)).softmax(1)[:, :48], X, blocks=(64,)
        ),
        "masked-off lanes of x that count as 0",
    ),
    "no rescaling": (
        lambda: softmax(lambda x: unrescaled(x, 16), X, blocks=(16,)),
        "a sum not rescaled",
    ),
    "one key too many": (
        lambda: attention(lambda *x: attended(*x[:3], ahead=1), Q, K, V, None, True),
        "one key after the query",
    ),
    "no mask": (
        lambda: attention(lambda *x: attended(*x[:3], causal=False), Q, K, V, None, True),
        "causal not used",
    ),
    "the wrong heads": (
        lambda: attention(
            lambda *x: attended(*x[:3], heads=torch.arange(6) % 2), Q, K, V, None, True
        ),
        "the wrong head of keys",
    ),
    "results exchanged": (
        lambda: said("03_reductions/welford", lambda x: (x.var(1), x.mean(1)), X, blocks=(64,)),
        "result 0 and result 1 exchanged",
    ),
}

NEAR = {
    "a part that no block ends": (
        lambda: matmul(lambda a, b: a[:, :100] @ b[:100], A, B, blocks=(16, 64)),
        "loop",
    ),
    "one term left out": (
        lambda: matmul(lambda a, b: a[:, 1:] @ b[1:], A, B, blocks=(16, 64)),
        "loop",
    ),
    "a step counted twice": (
        lambda: matmul(lambda a, b: a @ b + a[:, :64] @ b[:64], A, B, blocks=(64,)),
        "loop",
    ),
    "noise where a cast would show": (
        lambda: matmul(lambda a, b: (a * (1 + 2.0**-9 * randn(*a.shape, seed=5))) @ b, A, B),
        "cast",
    ),
    "one row in place of the next": (
        lambda: matmul(lambda a, b: a.roll(1, 0) @ b, A, B),
        "dimension",
    ),
    "the weight twice": (
        lambda: rms_norm(lambda x, w: normed(x, w * w, 1e-6), X, WEIGHT),
        "left out",
    ),
    "twice eps": (
        lambda: rms_norm(lambda x, w, eps: normed(x, w, 2 * eps), X, WEIGHT, 0.5),
        "eps",
    ),
    "a mean over one too few": (
        lambda: layer_norm(
            lambda x, w, b: _layer_norm(x, w, b, mean=x.sum(1, keepdim=True) / 47),
            X,
            WEIGHT,
            BIAS,
            blocks=(64,),
        ),
        "size of the block",
    ),
    "masked-off lanes hold something else": (
        lambda: softmax(
            lambda x: torch.nn.functional.pad(x, (0, 16), value=2.0).softmax(1)[:, :48],
            X,
            blocks=(64,),
        ),
        "lanes",
    ),
    "rescaled by the root": (
        lambda: softmax(lambda x: unrescaled(x, 16, factor=0.5), X, blocks=(16,)),
        "not rescaled",
    ),
    "two keys too many": (
        lambda: attention(lambda *x: attended(*x[:3], ahead=2), Q, K, V, None, True),
        "one key",
    ),
    "heads in reverse": (
        lambda: attention(
            lambda *x: attended(*x[:3], heads=1 - torch.arange(6) // 3), Q, K, V, None, True
        ),
        "modulo",
    ),
    "twice the scale": (
        lambda: attention(lambda *x: attended(*x[:3], factor=2.0), Q, K, V, None, True),
        "scale",
    ),
    "noise": (
        lambda: matmul(lambda a, b: randn(40, 50, seed=7).double(), A, B, blocks=(16, 64)),
        "a",
    ),
    "zeros": (
        lambda: matmul(lambda a, b: 0 * (a @ b), A, B, blocks=(16, 64)),
        "a",
    ),
}


def _layer_norm(x, weight, bias, mean):
    centred = x - mean
    rstd = torch.rsqrt(centred.square().mean(1, keepdim=True) + 1e-5)
    return centred * rstd * weight + bias, mean[:, 0], rstd[:, 0]


@pytest.mark.parametrize("name", SAID)
def test_a_mistake_is_named(name):
    make, words = SAID[name]
    assert words in make()


@pytest.mark.parametrize("name", NEAR)
def test_another_mistake_is_not_taken_for_it(name):
    make, words = NEAR[name]
    assert words not in make()


def test_a_mistake_must_explain_the_other_results():
    # dbias is right: had dy been left out, it would not be.
    x, dy = X, randn(60, 48, seed=3)
    mean, rstd = x.mean(1), torch.rsqrt(x.var(1, correction=0) + 1e-5)

    def wrong(dy, x, weight, mean, rstd):
        nothing = torch.zeros_like(x) + 1e-3 * x
        return nothing, (dy * ((x - mean[:, None]) * rstd[:, None])).sum(0), dy.sum(0)

    given = dy, x, WEIGHT, mean, rstd
    assert said("05_normalization/layer_norm_backward", wrong, *given, blocks=(64,)) == ""


def test_large_inputs_are_left_alone():
    x = torch.zeros(mistakes.MAX_DIAGNOSED_ELEMENTS + 1)
    assert said("01_pointwise/vector_add", lambda x, y: x - y + 1, x, x) == ""


OWN = sorted((paths.ROOT / "reference" / "mistakes").glob("[0-9]*.py"))


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_own_mistakes_take_what_the_reference_takes(path):
    written = vars(paths.load(path))
    taken = {
        name: list(inspect.signature(made).parameters)
        for name, made in written.items()
        if inspect.isfunction(made) and "blocks" in inspect.signature(made).parameters
        if not name.startswith("_")
    }
    assert taken
    for name, parameters in taken.items():
        reference = inspect.signature(loader.load_reference(path.stem, name)).parameters
        parameters = [x for x in parameters if x not in ("blocks", "dout") or x in reference]
        assert parameters == list(reference), name
