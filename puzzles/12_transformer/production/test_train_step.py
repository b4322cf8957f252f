"""Tests of 12.7, one training step of a transformer block, in production."""

import math

import torch

from course.challenge import challenge
from course.inputs import HALVES, INDICES, cases, integers, offset, randn, strided, tensor, uniform
from course.values import put

puzzle = challenge("train_step", in_place=("params", "exp_avg", "exp_avg_sq", "loss"), rounded=True)

NAMES = ("x", "targets", "cos", "sin", "params", "exp_avg", "exp_avg_sq", "loss")
# step, lr, beta1, beta2, eps, weight_decay; with the first, exp_avg is the gradient.
ONLY_GRADIENT = 3, 0.0, 0.0, 0.0, 1e-8, 0.0
USUAL = 3, 1e-2, 0.9, 0.99, 1e-6, 0.1
SMALL = 1, 8, 2, 16, 16, 16


def block(B, S, heads, E, F, V, dtype="float16"):
    D = heads * E
    R = 2 + 4 * D + 3 * F + V
    params = randn(R, D, dtype=dtype) / math.sqrt(D)
    params[[0, 1 + 4 * D]] = 1 + randn(2, D, dtype=dtype) / 4
    targets = integers(B, S, low=0, high=V, dtype="int64")
    targets[:, 1::5] = -100
    angles = uniform(S, E // 2, low=-3.1, high=3.1)
    moments = randn(R, D) / 100, uniform(R, D, low=1e-5, high=1e-4)
    x = randn(B, S, D, dtype=dtype)
    return [x, targets, angles.cos(), angles.sin(), params, *moments, tensor([0.0]), heads, F]


def rejected(name, wrong, arguments=None):
    inputs = arguments or block(*SMALL)
    if isinstance(name, str) and name in NAMES:
        inputs[NAMES.index(name)] = wrong
    puzzle.check_or_raises(*inputs, *USUAL, names=name, answer=False)


# Bad input: the error that the spec names.


def test_shapes_x_is_not_of_the_spec():
    x = randn(1, 8, 32, dtype="float16")
    for wrong in (x[0], x[None], x.float()):
        rejected("x", wrong)


def test_shapes_targets_do_not_fit():
    targets = integers(1, 8, low=0, high=16, dtype="int64")
    for wrong in (targets[0], targets[:, 1:], targets.half()):
        rejected("targets", wrong)


@cases(cos="cos", sin="sin")
def test_shapes_a_table_does_not_fit(name):
    table = randn(8, 8)
    for wrong in (table[1:], table[:, 1:], table.half(), table[0]):
        rejected(name, wrong)


def test_shapes_params_do_not_fit():
    params = block(*SMALL)[4]
    for wrong in (params[:, 1:], params[:100], params.bfloat16(), params[0]):
        rejected("params", wrong)


@cases(exp_avg="exp_avg", exp_avg_sq="exp_avg_sq", loss="loss")
def test_shapes_what_is_changed_does_not_fit(name):
    right = block(*SMALL)[NAMES.index(name)]
    for wrong in (right[1:], right.half(), right[None]):
        rejected(name, wrong)


@cases(no_divisor=3, too_narrow=4, none=0)
def test_shapes_heads_do_not_fit(heads):
    inputs = block(*SMALL)
    inputs[8] = heads
    rejected("heads", None, inputs)


def test_shapes_hidden_or_step_below_1():
    inputs = block(*SMALL)
    puzzle.check_or_raises(*inputs, 0, *USUAL[1:], names="step", answer=False)
    inputs[9] = 0
    rejected("hidden", None, inputs)


# Any layout.


def test_masks_every_stride():
    x, targets, cos, sin, params, m, v, loss, heads, F = block(2, 9, 2, 16, 20, 24)
    puzzle.check(
        strided(x, 1, 2, 3), strided(targets, 3, 2), strided(cos, 2, 3), strided(sin, 3, 1),
        strided(params, 2, 3), strided(m, 1, 2), strided(v, 3, 2), loss, heads, F, *USUAL,
    )  # fmt: skip


def test_masks_transposed_and_unaligned():
    x, targets, cos, sin, params, m, v, loss, heads, F = block(2, 9, 2, 16, 20, 24)
    puzzle.check(
        x.transpose(0, 1).contiguous().transpose(0, 1), targets.T.contiguous().T, cos, sin,
        params.T.contiguous().T, offset(m), v.T.contiguous().T, loss, heads, F, *ONLY_GRADIENT,
    )  # fmt: skip


def test_masks_one_token_for_all():
    # More rows of any strides than few programs have, too.
    x, targets, cos, sin, *rest = block(5, 9, 2, 16, 20, 24)
    cos, sin = (table[:1].expand(9, 8) for table in (cos, sin))
    puzzle.check(x[:1, :1].expand(5, 9, 32), targets[:1].expand(5, 9), cos, sin, *rest, *USUAL)


@cases(
    widest_heads=(1, 20, 1, 128, 16, 16),
    one_token=(2, 1, 1, 16, 3, 5),
    one_class=(1, 6, 1, 16, 1, 1),
    batches_of_one_token=(33, 1, 1, 16, 513, 3),
    nine_heads=(1, 2, 9, 16, 1, 3),
)
def test_shapes(B, S, heads, E, F, V):
    puzzle.check(*block(B, S, heads, E, F, V), *ONLY_GRADIENT)


def test_masks_limits():
    # A step takes so much that with more sizes each would have too few cases.
    def build(S, F, V):
        x, targets, *rest = block(1, S, 1, 16, F, V)
        # Of many tokens and classes only the last ones count, and of those before what it sees.
        targets[:, :-1], targets[:, -1] = -100, V - 1
        return x, targets, *rest, *ONLY_GRADIENT

    puzzle.limits(
        build,
        dtypes={"x params": HALVES, "targets": INDICES},
        S=2**13,
        F=2**12,
        # Of one class the gradient is 0.
        V=range(2, 2**14),
    )


# Any value.


def test_numerics_no_target_counts():
    x, targets, *rest = block(*SMALL)
    puzzle.check(x, targets * 0 - 100, *rest, *USUAL)


def test_numerics_int32_targets():
    x, targets, *rest = block(*SMALL, dtype="bfloat16")
    puzzle.check(x, targets.int(), *rest, *ONLY_GRADIENT)


def small():
    """A block, and what a call with it takes by name. No first, middle or last target is -100."""
    inputs = block(1, 3, 1, 16, 2, 3)
    return inputs, dict(zip(NAMES, inputs, strict=False))


# What spreads is put into one input at a time. It reaches all weights, whose gradients add it up.
@cases(x="x", params="params", cos="cos", sin="sin")
def test_numerics_special_values_spread(name):
    for value in ("nan", "inf"):
        inputs, named = small()
        put(named[name], value)
        puzzle.check(*inputs, *USUAL)


def test_numerics_special_values_of_what_is_changed():
    # Each element goes alone, and what the loss was before is of no account.
    inputs, named = small()
    named["exp_avg"][1, :4] = tensor([math.nan, 1.2e-38, 1e-44, -0.0])
    named["exp_avg_sq"][2, :6] = tensor([math.nan, math.inf, 3.4e38, 1.2e-38, 1e-44, -0.0])
    named["loss"][0] = math.nan
    puzzle.check(*inputs, *USUAL)


def test_numerics_smallest_numbers_and_zeros():
    inputs, named = small()
    named["x"][:, 1] = -0.0
    for name in ("x", "params", "cos", "sin"):
        info = torch.finfo(named[name].dtype)
        named[name][..., -1, :3] = tensor(
            [info.tiny, info.tiny * info.eps, -0.0], named[name].dtype
        )
    puzzle.check(*inputs, *USUAL)


def test_numerics_constant():
    # Scores are all alike, and logits too.
    inputs, named = small()
    put(named["x"], "constant")
    put(named["params"], "constant")
    puzzle.check(*inputs, *USUAL)


# Memory, compilation and speed of what the first level leaves out.


def test_traffic_no_scores_in_memory():
    inputs = block(1, 128, 8, 16, 32, 64)
    once = dict.fromkeys(("params", "exp_avg", "exp_avg_sq", "loss"), 1)
    puzzle.traffic(*inputs, *USUAL).check(
        writes=once, largest_write=inputs[4].numel(), scratch=math.inf
    )


def test_compiles_ragged():
    # Some twenty kernels: for one GPU and one dtype it takes seconds.
    puzzle.compiles(*block(1, 35, 1, 64, 20, 33), *USUAL, targets=("sm_80",))


def test_speedup():
    B, S, heads, E, F, V = 4, 2048, 16, 128, 5632, 32768
    work = 3 * 2 * B * S * (4 * heads * E + 3 * F + V) * heads * E
    puzzle.race(
        *block(B, S, heads, E, F, V, "bfloat16"),
        *USUAL,
        at_least=0.9,
        operations=(work, "bfloat16"),
        baseline="solution",
    )
