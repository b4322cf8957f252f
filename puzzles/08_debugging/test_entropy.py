"""Tests of 08.1, entropy."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("softmax_entropy", names_causes=False)


@cases(square=(32, 32), one_row=(1, 1000), one_column=(300, 1), single_element=(1, 1))
def test_shapes(M, N):
    puzzle.check(randn(M, N))


@cases(
    rows_shorter_than_a_block=(67, 43),
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
)
def test_masks(M, N):
    puzzle.check(randn(M, N))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(17, 1500, dtype=dtype) * 3)


@dtypes("float32", "float16", "bfloat16")
def test_numerics_logits_far_apart(dtype):
    # exp of the lowest of them is 0 in float32. None is far above all others of its row.
    puzzle.check(randn(6, 500, dtype=dtype) * 60)


def test_numerics_excluded_classes():
    x = randn(6, 300)
    x[1, 7], x[2, :150], x[3, 1:] = float("-inf"), float("-inf"), float("-inf")
    puzzle.check(x)


def test_numerics_nearly_certain():
    # 299 probabilities of 1.5e-8 each: together they are the whole entropy.
    x = randn(4, 300) / 64
    x[:, 5] += 18
    puzzle.check(x)


def test_numerics_large_logits_do_not_overflow():
    puzzle.check(randn(5, 700) + 1000)


def test_numerics_equal_shares():
    puzzle.check(integers(67, 48, low=3, high=4))


def test_traffic():
    puzzle.traffic(randn(48, 1000)).check(reads=1, writes=1, launches=1, sectors=1.1)


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(37, 1000, dtype=dtype))


def test_speedup():
    puzzle.race(randn(16384, 4096, dtype="bfloat16"), at_least=8)
