"""Tests of 15.4, mixture of experts."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("fused_moe", deterministic=True, rounded=True)


def layer(T, E, k, D, F, dtype="float16"):
    # Some experts are chosen more often than others.
    logits = randn(T, E, dtype="float32") + randn(E)
    gate_up, down = randn(E, 2 * F, D, dtype=dtype), randn(E, D, F, dtype=dtype)
    return randn(T, D, dtype=dtype), logits, gate_up / D**0.5, down / F**0.5, k


@cases(one_choice=(20, 3, 1, 32, 48), two_choices=(20, 3, 2, 32, 48), single=(1, 1, 1, 1, 1))
def test_shapes(T, E, k, D, F):
    puzzle.check(*layer(T, E, k, D, F))


@cases(
    ragged_everywhere=(35, 5, 3, 45, 83),
    wide=(40, 2, 1, 150, 140),
    more_experts_than_tokens=(6, 24, 2, 32, 16),
)
def test_masks(T, E, k, D, F):
    puzzle.check(*layer(T, E, k, D, F))


def test_masks_all_to_one_expert():
    x, logits, *rest = layer(40, 4, 2, 32, 32)
    logits[:, 2] += 20
    puzzle.check(x, logits, *rest)


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*layer(50, 4, 2, 64, 80, dtype))


def test_numerics_logits_in_half():
    x, logits, *rest = layer(30, 5, 3, 32, 32)
    puzzle.check(x, logits.half(), *rest)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # Of each token's results, all of weight 1 / 4, the first and the last are 4096 and -4096.
    x = integers(5, 16, low=1, high=2, dtype=dtype)
    gate_up = integers(4, 32, 16, low=2, high=3, dtype=dtype)
    gate_up[:, 16:] /= 32
    down = integers(4, 16, 16, low=0, high=1, dtype=dtype)
    down[:, :, 0] = integers(4, 16, dtype=dtype) / 32
    down[0, :, 0], down[3, :, 0] = 128, -128
    puzzle.check_exactly(x, integers(5, 4, low=0, high=1), gate_up, down, 4)


def test_numerics_same_bits_on_every_run():
    # All results but the last one cancel: each order of addition leaves other digits of it.
    x, _, gate_up, down, k = layer(12, 9, 9, 32, 16)
    gate_up[1:], down[4:8], down[8] = gate_up[0], -down[:4], down[8] / 1024
    puzzle.check(x, integers(12, 9, low=0, high=1), gate_up, down, k)


def test_traffic():
    # Blocks of up to 128 may be padded, and stored with their padding; gate and up may not.
    T, E, k, D, F = 384, 4, 2, 128, 128
    N = T * k
    once_a_block = (E + (N - E) / 16) / E
    puzzle.traffic(*layer(T, E, k, D, F)).check(
        reads={"logits": 1, "gate_up": once_a_block, "down": once_a_block},
        writes=1,
        launches=8,
        largest_write=(N + 128 * E) * max(D, F),
        total_writes=1.1 * ((N + 128 * E) * (D + F) + T * D),
        dot_macs=(N + 128 * E) * (2 * F * D + D * F),
        scratch=float("inf"),
    )


def test_compiles():
    puzzle.compiles(*layer(128, 4, 2, 64, 64, "bfloat16"))


def test_speedup():
    T, E, k, D, F = 4096, 64, 8, 2048, 1408
    inputs = layer(T, E, k, D, F, "bfloat16")
    puzzle.race(*inputs, at_least=1.5, operations=(6 * T * k * D * F, "bfloat16"))
