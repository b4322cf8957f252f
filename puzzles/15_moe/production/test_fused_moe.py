"""Tests of 15.4, mixture of experts, in production."""

from course.challenge import challenge
from course.inputs import HALVES, along, cases, dtypes, far_apart, integers, offset, randn, strided
from course.values import special_values

puzzle = challenge("fused_moe", deterministic=True, rounded=True)
# Without the yardsticks in which what cancels here does not cancel.
exact = challenge("fused_moe", deterministic=True)
INF, NAN = float("inf"), float("nan")


def layer(T, E, k, D, F, dtype="float16"):
    # Some experts are chosen more often than others.
    logits = randn(T, E, dtype="float32") + randn(E)
    gate_up, down = randn(E, 2 * F, D, dtype=dtype), randn(E, D, F, dtype=dtype)
    return randn(T, D, dtype=dtype), logits, gate_up / D**0.5, down / F**0.5, k


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    x, *rest = layer(6, 3, 2, 8, 5)
    puzzle.check_or_raises(x[0], *rest, names="x", answer=False)
    puzzle.check_or_raises(x[None], *rest, names="x", answer=False)


def test_shapes_x_of_another_dtype():
    x, logits, gate_up, down, k = layer(6, 3, 2, 8, 5)
    puzzle.check_or_raises(
        x.double(), logits, gate_up.double(), down.double(), k, names="x", answer=False
    )
    puzzle.check_or_raises(x.int(), logits, gate_up.int(), down.int(), k, names="x", answer=False)


def test_shapes_logits_do_not_fit():
    x, logits, *rest = layer(6, 3, 2, 8, 5)
    puzzle.check_or_raises(x, logits[:5], *rest, names="logits", answer=False)
    puzzle.check_or_raises(x, logits[:, :2], *rest, names="logits", answer=False)
    puzzle.check_or_raises(x, logits.bfloat16(), *rest, names="logits")


def test_shapes_gate_up_does_not_fit_x():
    x, logits, gate_up, down, k = layer(6, 3, 2, 8, 5)
    puzzle.check_or_raises(x, logits, gate_up[0], down, k, names="gate_up", answer=False)
    puzzle.check_or_raises(x, logits, gate_up[:, 1:], down, k, names="gate_up", answer=False)
    puzzle.check_or_raises(x, logits, gate_up[..., 1:], down, k, names="gate_up", answer=False)
    puzzle.check_or_raises(x, logits, gate_up.float(), down, k, names="gate_up", answer=False)


def test_shapes_down_does_not_fit_gate_up():
    x, logits, gate_up, down, k = layer(6, 3, 2, 8, 5)
    puzzle.check_or_raises(x, logits, gate_up, down[:2], k, names="down", answer=False)
    puzzle.check_or_raises(x, logits, gate_up, down.mT, k, names="down", answer=False)
    puzzle.check_or_raises(x, logits, gate_up, down.float(), k, names="down", answer=False)


@cases(none=0, more_than_there_are=4)
def test_shapes_k_out_of_range(k):
    puzzle.check_or_raises(*layer(6, 3, 2, 8, 5)[:4], k, names="k", answer=False)


# Any size and layout.


def test_masks_all_strides_differ():
    x, logits, gate_up, down, k = layer(37, 3, 2, 40, 24)
    strides = strided(gate_up, 2, 5, 3), strided(down, 3, 2, 5)
    puzzle.check(strided(x, 2, 3), strided(logits, 3, 2), *strides, k)


def test_masks_transposed():
    x, logits, gate_up, down, k = layer(40, 3, 2, 40, 24)
    turned = (t.mT.contiguous().mT for t in (x, logits, gate_up, down))
    puzzle.check(*turned, k)


def test_masks_unaligned():
    *tensors, k = layer(40, 3, 2, 40, 24)
    puzzle.check(*(offset(t) for t in tensors), k)


def test_masks_one_expert_repeated():
    x, logits, gate_up, down, k = layer(20, 3, 2, 40, 24)
    puzzle.check(x, logits, gate_up[:1].expand(3, 48, 40), down[:1].expand(3, 40, 24), k)


@cases(tokens=0, features=1)
def test_masks_offsets_of_x_beyond_32_bits(dim):
    _, *rest = layer(3, 3, 2, 3, 4)
    puzzle.check(along(far_apart(randn(3, dtype="float16")), dim, 3, 3), *rest)


@cases(tokens=0, experts=1)
def test_masks_offsets_of_logits_beyond_32_bits(dim):
    x, _, *rest = layer(3, 3, 2, 3, 4)
    puzzle.check(x, along(far_apart(randn(3, dtype="float16")), dim, 3, 3), *rest)


@cases(experts=(0, 3), rows=(1, 8), columns=(2, 3))
def test_masks_offsets_of_gate_up_beyond_32_bits(dim, size):
    x, logits, _, down, k = layer(9, 3, 1, 3, 4)
    gate_up = along(far_apart(randn(size, dtype="float16")), dim, 3, 8, 3)
    puzzle.check(x, logits, gate_up, down, k)


@cases(experts=(0, 3), rows=(1, 3), columns=(2, 4))
def test_masks_offsets_of_down_beyond_32_bits(dim, size):
    x, logits, gate_up, _, k = layer(9, 3, 1, 3, 4)
    down = along(far_apart(randn(size, dtype="float16")), dim, 3, 3, 4)
    puzzle.check(x, logits, gate_up, down, k)


def test_masks_many_columns():
    puzzle.check(*layer(3, 2, 1, 1100, 20))


def test_masks_large():
    puzzle.check(*layer(300, 2, 1, 440, 512))


def test_masks_limits():
    def build(T, E, k, D, F):
        x, logits, *weights = layer(T, E + k - 1, k, D, F)
        # The last expert is among those chosen.
        logits[:, -1] += 9
        gate_up, down, k = weights
        # And the last of what is hidden counts for more.
        gate_up[:, [F - 1, 2 * F - 1]] *= 4
        down[:, :, -1] *= 4
        return x, logits, gate_up, down, k

    each = {"x gate_up down": HALVES, "logits": ("float32", "float16")}
    puzzle.limits(build, dtypes=each, T=2**14, E=2**10, k=2**10, D=2**14, F=2**14)


# Any value.


def test_numerics_beyond_the_range_of_float16():
    x, logits, gate_up, down, k = layer(20, 3, 2, 40, 24, "bfloat16")
    puzzle.check(x * 1e15, logits, gate_up, down, k)


def test_numerics_weights_in_float32():
    # Each token's two experts return opposite numbers: what is left is a difference of weights.
    x, _, gate_up, down, k = layer(20, 2, 2, 40, 24)
    gate_up[1], down[1] = gate_up[0], -down[0]
    exact.check(x, randn(20, 2) / 100, gate_up, down, k)


def test_numerics_special_values_stay_in_their_token():
    x, logits, *rest = layer(40, 4, 2, 40, 24)
    x[3, 5], x[9, 0] = NAN, INF
    logits[11, 2], logits[20] = NAN, -INF
    logits[30, 1] = INF
    puzzle.check(x, logits, *rest)


@dtypes("float16", "bfloat16")
def test_numerics_equal_logits(dtype):
    x, _, *rest = layer(30, 6, 3, 32, 16, dtype)
    puzzle.check(x, integers(30, 6, low=-1, high=2, dtype=dtype), *rest)


# Of the largest float16: silu(g) * u and each expert's result are rounded to it on the way, or not,
# and may overflow where their weighted sum does not.
test_numerics_each_special_value = special_values(
    puzzle,
    lambda: layer(40, 4, 2, 40, 24),
    "x logits gate_up down",
    apart={"x": ("largest",), "gate_up": ("largest",), "down": ("largest",)},
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_bfloat16():
    T, E, k, D, F = 128, 4, 2, 128, 64
    N = T * k
    puzzle.traffic(*layer(T, E, k, D, F, "bfloat16")).check(
        reads={"logits": 1},
        writes=1,
        launches=8,
        dot_macs=3 * (N + 128 * E) * D * F,
        scratch=float("inf"),
    )


@cases(
    ragged=(35, 3, 2, 33, 35, "float16"),
    sizes_of_1=(1, 1, 1, 1, 1, "bfloat16"),
    blocks_of_128=(1024, 4, 2, 512, 256, "bfloat16"),
)
def test_compiles(T, E, k, D, F, dtype):
    puzzle.compiles(*layer(T, E, k, D, F, dtype))


def test_speedup():
    T, E, k, D, F = 4096, 64, 8, 2048, 1408
    inputs, work = layer(T, E, k, D, F, "bfloat16"), (6 * T * k * D * F, "bfloat16")
    puzzle.race(*inputs, at_least=0.9, operations=work, baseline="solution")
