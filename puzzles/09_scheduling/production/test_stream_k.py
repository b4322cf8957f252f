"""Tests of 09.2, stream-K matmul, in production."""

from course.challenge import broken_rule, challenge
from course.inputs import (
    FLOATS,
    cases,
    dtypes,
    far_apart,
    integers,
    large_at_the_end,
    matrices,
    offset,
    randn,
    strided,
)
from course.values import special_values

puzzle = challenge("stream_k_matmul", input_precision="tf32", deterministic=True)
INF, NAN = float("inf"), float("nan")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_a_is_not_a_matrix():
    a, b = matrices(8, 6, 5)
    puzzle.check_or_raises(a[0], b, names="a")
    puzzle.check_or_raises(a[None], b, names="a")


def test_shapes_a_of_another_dtype():
    a, b = matrices(8, 6, 5)
    puzzle.check_or_raises(a.double(), b.double(), names="a")
    puzzle.check_or_raises(integers(8, 5, dtype="int32"), b, names="a")


def test_shapes_b_is_not_a_matrix():
    a, b = matrices(8, 6, 5)
    puzzle.check_or_raises(a, b[:, 0], names="b")
    puzzle.check_or_raises(a, b[:, :, None], names="b")


def test_shapes_b_does_not_fit_a():
    a, b = matrices(8, 6, 5)
    puzzle.check_or_raises(a, b[:4], names="b")
    puzzle.check_or_raises(a, b.T, names="b")
    puzzle.check_or_raises(a, b.half(), names="b")


# Any size and layout.


@cases(no_rows=(0, 6, 500), no_columns=(8, 0, 500), nothing_to_sum=(8, 6, 0))
def test_shapes_empty(M, N, K):
    puzzle.check(*matrices(M, N, K))


def test_masks_both_transposed():
    puzzle.check(integers(560, 40).T, integers(24, 560).T)


def test_masks_all_strides_differ():
    puzzle.check(strided(integers(37, 500), 2, 3), strided(integers(500, 41), 5, 2))


def test_masks_unaligned():
    puzzle.check(offset(integers(40, 530)), offset(integers(530, 40), 3))


def test_masks_one_row_repeated():
    puzzle.check(integers(1, 400).expand(50, 400), integers(400, 1).expand(400, 30))


@cases(one_step_each=(40, 16, 16, 2560), some_have_no_part=(24, 290, 290, 70))
def test_masks_many_programs(P, M, N, K):
    with puzzle.given(multiprocessors=P):
        puzzle.check(*matrices(M, N, K, make=integers))


# Where a kernel may load in another way, or copy its factors first.
@cases(
    rows_are_aligned=(264, 520, 520),
    rows_are_not=(259, 517, 515),
    last_round_nearly_full=(950, 60, 1200),
)
def test_masks_large(M, N, K):
    with puzzle.given(multiprocessors=8):
        puzzle.check(*matrices(M, N, K, "float16", make=integers))


def test_masks_offsets_beyond_32_bits():
    far, near = far_apart(integers(3, dtype="float16")), integers(3, dtype="float16")
    puzzle.check(far[:, None], near[None, :])
    puzzle.check(near[:, None], far[None, :])
    puzzle.check(far[None, :], near[:, None])
    puzzle.check(near[None, :], far[:, None])


@cases(steps_of_16=17, steps_of_32=33, steps_of_64=65)
def test_masks_steps_beyond_32_bits(K):
    # Only the stride times the length of a step overflows.
    far, near = far_apart(integers(K, dtype="float16")), integers(K, dtype="float16")
    puzzle.check_offsets(far[None, :], near[:, None])
    puzzle.check_offsets(near[None, :], far[:, None])


def test_masks_last_part_beyond_32_bits():
    x, near = integers(1025, dtype="float16"), integers(1025, dtype="float16")
    far = far_apart(x, last=2**32)
    puzzle.check_offsets(far[None, :], near[:, None])


def test_masks_result_beyond_32_bits():
    x = randn(1, 1, dtype="float16")
    with puzzle.given(multiprocessors=2**30):
        puzzle.check_large_offsets(x.expand(2**16 + 1, 1), x.expand(1, 2**15))


def test_masks_parts_beyond_32_bits():
    x = randn(1, 1, dtype="float16")
    with puzzle.given(multiprocessors=2**16):
        puzzle.check_large_offsets(x.expand(1025, 2**20), x.expand(2**20, 1025))


def test_masks_limits():
    def build(M, N, K, multiprocessors):
        # Where there are more of them than usual, K gives work to each.
        more = multiprocessors > 4
        return large_at_the_end(*matrices(M, N, 130 * multiprocessors if more else K))

    puzzle.limits(build, dtypes=FLOATS, M=2**17, N=2**17, K=2**17, multiprocessors=range(4, 1025))


# Any value.


@dtypes("bfloat16", "float32")
def test_numerics_beyond_the_range_of_float16(dtype):
    a, b = matrices(20, 24, 700, dtype)
    puzzle.check(a * 1e6, b)


@cases(in_the_first_part=0, in_the_last_part=699)
def test_numerics_special_values(k):
    a, b = matrices(30, 27, 700)
    a[3, k], a[5, k], a[7, k] = INF, NAN, 0.0
    b[k, 4] = -INF
    puzzle.check(a, b)


def test_numerics_special_values_stay_in_their_tile():
    # What one tile holds must not reach the next of the same program.
    a, b = matrices(300, 270, 70)
    a[3, 0], a[5, 69] = INF, NAN
    puzzle.check(a, b)


test_numerics_each_special_value = special_values(
    puzzle, lambda: matrices(30, 27, 700, "float16"), "a b"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_more_than_one_round():
    # Whole tiles of 64 x 64 take two rounds, the second of them for two programs.
    with puzzle.given(multiprocessors=10):
        traffic = puzzle.traffic(*matrices(256, 192, 1024, "bfloat16"))
    # The launch that adds up parts may have any number.
    if traffic.programs != 10:
        raise broken_rule(f"{traffic.programs} programs do the work, the spec asks for 10")
    traffic.check(largest_share=1.1, reads={"a": 6, "b": 8}, writes=1, launches=2)


def test_compiles_whole_tiles():
    puzzle.compiles(*matrices(256, 256, 64, "float16"))


def test_compiles_sizes_of_1():
    # The compiler takes an argument of 1 for a constant.
    puzzle.compiles(*matrices(1, 1, 1, "float16"))
    puzzle.compiles(*matrices(1, 1, 1024, "float16"))


def test_compiles_ragged():
    puzzle.compiles(randn(735, 67, dtype="bfloat16").T, randn(735, 33, dtype="bfloat16"))


def test_compiles_large():
    puzzle.compiles(*matrices(1032, 1032, 64, "float16"))
    puzzle.compiles(*matrices(1025, 1027, 67, "float16"))


def test_speedup():
    inputs = matrices(1536, 3072, 16384, "bfloat16")
    work = (2 * 1536 * 3072 * 16384, "bfloat16")
    puzzle.race(*inputs, at_least=0.9, operations=work, baseline="solution")
