"""Tests of 15.1, choose k experts."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor

puzzle = challenge("route_top_k", results=("weights", "experts", "balance"), deterministic=True)


@cases(one_token=(1, 8, 2), one_expert=(5, 1, 1), only_the_best=(40, 16, 1), all_experts=(9, 4, 4))
def test_shapes(T, E, k):
    puzzle.check(randn(T, E), k)


def test_masks_padding_is_not_chosen():
    # The experts past E must lose against an expert whose logit is -inf.
    logits = randn(20, 5)
    logits[3:9, 1:4] = float("-inf")
    puzzle.check(logits, 4)


@cases(ragged=(131, 60, 8), many_tokens=(1100, 6, 2), many_experts=(7, 200, 3))
def test_masks(T, E, k):
    puzzle.check(randn(T, E), k)


def test_numerics_equal_logits_by_index():
    puzzle.check(integers(50, 24, dtype="float16"), 4)


def test_numerics_weights_add_up_to_1():
    logits = tensor([[3, 1, 2, -4], [0, 5, 5, 5]])
    puzzle.check(logits, 2)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(100, 16, dtype=dtype) * 3, 4)


def test_numerics_unbalanced():
    # Nearly all tokens choose the same two experts, and the balance is far from 1.
    logits = randn(1100, 40)
    logits[:, 2:4] += 6
    puzzle.check(logits, 2)


def test_traffic():
    puzzle.traffic(randn(512, 64, dtype="bfloat16"), 8).check(
        reads=1, writes={"weights": 1, "experts": 1}, launches=2, sectors={"logits": 1.1}
    )


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(256, 64, dtype=dtype), 8)


def test_speedup():
    puzzle.race(randn(262144, 64, dtype="bfloat16"), 8, at_least=1)
