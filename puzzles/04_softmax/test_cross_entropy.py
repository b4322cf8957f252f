"""Tests of 04.4, cross entropy."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor

puzzle = challenge("cross_entropy")


def case(M, V, dtype="float32"):
    return randn(M, V, dtype=dtype) * 3, integers(M, low=0, high=V, dtype="int64")


@cases(square=(32, 32), one_row=(1, 1000), one_class=(200, 1), single_element=(1, 1))
def test_shapes(M, V):
    puzzle.check(*case(M, V))


@cases(
    few_classes=(67, 43),
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    many_blocks=(3, 2**14 + 1),
)
def test_masks(M, V):
    puzzle.check(*case(M, V))


def test_masks_all_far_below_zero():
    # A masked lane that counts as 0 would be the largest of its row.
    # So would a maximum that begins at 0: exp of the difference is 0 everywhere.
    logits, targets = case(37, 43)
    puzzle.check(logits - 200, targets)


def test_masks_targets_at_the_edges_of_blocks():
    logits, _ = case(8, 9000)
    puzzle.check(logits, tensor([0, 1023, 1024, 4095, 4096, 8191, 8192, 8999], "int64"))


def test_numerics_equal_logits():
    puzzle.check(integers(3, 1024, low=3, high=4), tensor([0, 9, 1023], "int64"))


@cases(ordinary=1, larger_than_exp_holds=500, nearly_equal_so_that_narrow_sums_show=1 / 64)
@dtypes("float32", "float16", "bfloat16")
def test_numerics(factor, dtype):
    logits, targets = case(10, 9000, dtype)
    puzzle.check(logits * factor, targets)


def test_numerics_ignored_targets():
    logits, targets = case(40, 300)
    targets[::3] = -100
    puzzle.check(logits, targets)


@dtypes("float16", "bfloat16")
def test_numerics_small_loss(dtype):
    # The difference of the two terms is rounded, not the terms.
    logits, targets = case(40, 300, dtype)
    logits[range(40), targets] += 12
    puzzle.check(logits, targets)


def test_traffic():
    puzzle.traffic(*case(16, 8192)).check(
        reads={"logits": 1 + 1 / 8192, "targets": 1},
        writes=1,
        launches=1,
        sectors={"logits": 1.1},
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*case(37, 5000, dtype))


def test_speedup():
    puzzle.race(*case(8192, 32768, "bfloat16"), at_least=5)
