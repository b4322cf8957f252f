"""Tests of 12.6, linear layer and cross entropy, in production."""

import math

from course.challenge import challenge
from course.inputs import FLOATS, INDICES, cases, far_apart, integers, offset, randn, strided
from course.values import special_values

puzzle = challenge(
    "fused_linear_cross_entropy",
    results=("loss", "dx", "dweight"),
    deterministic=True,
    input_precision="tf32",
    rounded=True,
)


def layer(M, V, D, dtype="float32"):
    targets = integers(M, low=0, high=V, dtype="int64")
    targets[2::3] = -100
    return randn(M, D, dtype=dtype), randn(V, D, dtype=dtype) / math.sqrt(D), targets


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_of_the_spec():
    x, weight, targets = layer(8, 6, 5)
    puzzle.check_or_raises(x[0], weight, targets, names="x", answer=False)
    puzzle.check_or_raises(x[None], weight, targets, names="x", answer=False)
    puzzle.check_or_raises(x.double(), weight.double(), targets, names="x", answer=False)


def test_shapes_weight_does_not_fit():
    x, weight, targets = layer(8, 6, 5)
    for wrong in (weight[0], weight[None], weight.T, weight[:, :4], weight.half()):
        puzzle.check_or_raises(x, wrong, targets, names="weight", answer=False)


def test_shapes_targets_do_not_fit():
    x, weight, targets = layer(8, 6, 5)
    for wrong in (targets[1:], targets[:1], targets[None], targets.float()):
        puzzle.check_or_raises(x, weight, wrong, names="targets", answer=False)


# Any size and layout.


def test_masks_both_transposed():
    x, weight, targets = layer(40, 70, 24)
    puzzle.check(x.T.contiguous().T, weight.T.contiguous().T, targets)


def test_masks_every_stride():
    x, weight, targets = layer(37, 50, 20)
    puzzle.check(strided(x, 2, 3), strided(weight, 5, 2), strided(targets, 3))


def test_masks_unaligned_and_expanded():
    x, weight, targets = layer(37, 70, 32)
    puzzle.check(offset(x), offset(weight, 3), targets[:1].expand(37))
    puzzle.check(x[:1].expand(37, 32), weight, targets)


@cases(rows_are_aligned=520, rows_are_not=517)
def test_masks_large(V):
    # Where a kernel may load in another way.
    puzzle.check(*layer(264, V, 520, "float16"))


@cases(rows=0, features=1)
def test_masks_offsets_beyond_32_bits(dim):
    far, near = far_apart(integers(3, dtype="float16")), integers(3, dtype="float16")
    targets = integers(3 if dim == 0 else 2, low=0, high=2, dtype="int64")
    shape = (3, 1) if dim == 0 else (2, 3)
    far, near = (v[:, None] if dim == 0 else v[None, :] for v in (far, near))
    puzzle.check(far.expand(shape), near.expand(shape), targets)
    puzzle.check(near.expand(shape), far.expand(shape), targets)


def test_masks_targets_beyond_32_bits():
    x, weight, targets = layer(3, 4, 8)
    puzzle.check(x, weight, far_apart(targets))


def test_masks_limits():
    def build(M, V, D):
        x, weight, targets = layer(M, V, D)
        x[:, -1], weight[::2, -1] = 4, 2
        return x, weight, targets

    # With one class nothing depends on x.
    puzzle.limits(
        build, dtypes={"x weight": FLOATS, "targets": INDICES}, M=2**17, V=range(2, 2**18), D=2**14
    )


# Any value.


def test_numerics_division_after_the_products():
    # 1 / n times most of these probabilities is no float16.
    x, weight, targets = layer(300, 200, 16, "float16")
    weight[1:] *= 2
    weight[0] += 1
    puzzle.check(x.abs(), weight, targets * 0)


def test_numerics_ignored_rows_of_nan():
    x, weight, targets = layer(30, 40, 16)
    x[2], x[5, 3] = float("nan"), float("inf")
    targets[2] = targets[5] = -100
    # 0 times NaN is NaN in dweight, as in PyTorch.
    puzzle.check(x, weight, targets)


def test_numerics_nan():
    x, weight, targets = layer(30, 40, 16)
    x[3, 4] = float("nan")
    puzzle.check(x, weight, targets)


# Of inf and the largest: logits are float16 where they are kept, which overflows, and a maximum
# that is inf leaves inf - inf where log-sum-exp is written out, and inf where PyTorch looks at it.
test_numerics_each_special_value = special_values(
    puzzle,
    lambda: layer(30, 40, 16, "float16"),
    "x weight",
    apart={"x": ("inf",), "weight": ("inf", "largest")},
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_more_rows_than_classes():
    # Tiles of 128 have no padding.
    M, V, D = 256, 128, 128
    puzzle.traffic(*layer(M, V, D, "float16")).check(
        dot_macs=4.5 * M * V * D, largest_write=max(M, V) * max(D, 16), scratch=math.inf
    )


def test_compiles_ragged():
    puzzle.compiles(*layer(67, 35, 21))


def test_compiles_large():
    puzzle.compiles(*layer(512, 515, 264, "bfloat16"))


def test_speedup():
    M, V, D = 8192, 32768, 2048
    puzzle.race(
        *layer(M, V, D, "bfloat16"),
        at_least=0.9,
        operations=(3 * 2 * M * V * D, "bfloat16"),
        baseline="solution",
    )
