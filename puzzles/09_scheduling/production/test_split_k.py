"""Tests of 09.1, split-K matmul, in production."""

from course.challenge import challenge
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

puzzle = challenge("split_k_matmul", input_precision="tf32", deterministic=True)
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


def test_masks_many_pieces():
    with puzzle.given(multiprocessors=40):
        puzzle.check(*matrices(16, 16, 5200, make=integers))


# Where a kernel may load in another way, or copy its factors first.
@cases(rows_are_aligned=(128, 136, 4104), rows_are_not=(130, 131, 4099))
def test_masks_large(M, N, K):
    with puzzle.given(multiprocessors=16):
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


def test_masks_last_piece_beyond_32_bits():
    x, near = integers(1025, dtype="float16"), integers(1025, dtype="float16")
    far = far_apart(x, last=2**32)
    puzzle.check_offsets(far[None, :], near[:, None])


def test_masks_result_beyond_32_bits():
    a, b = matrices(1, 1, 16, "float16")
    puzzle.check_large_offsets(a.expand(2**16, 16), b.expand(16, 2**15 + 1))


def test_masks_pieces_beyond_32_bits():
    x = randn(1, 1, dtype="float16")
    with puzzle.given(multiprocessors=2**20):
        puzzle.check_large_offsets(x.expand(2**11, 2**17), x.expand(2**17, 2**11))


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


@cases(in_the_first_piece=0, in_the_last_piece=699)
def test_numerics_special_values(k):
    a, b = matrices(30, 27, 700)
    a[3, k], a[5, k], a[7, k] = INF, NAN, 0.0
    b[k, 4] = -INF
    puzzle.check(a, b)


test_numerics_each_special_value = special_values(
    puzzle, lambda: matrices(30, 27, 700, "float16"), "a b"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_a_few_tiles():
    with puzzle.given(multiprocessors=16):
        traffic = puzzle.traffic(*matrices(64, 48, 8192, "bfloat16"))
    traffic.check(
        programs_at_least=12,
        largest_share=1.1,
        reads={"a": 2, "b": 2},
        writes=1,
        launches=2,
    )


def test_compiles_without_pieces():
    puzzle.compiles(*matrices(128, 512, 64, "float16"))


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
    inputs = matrices(512, 512, 131072, "bfloat16")
    work = (2 * 512 * 512 * 131072, "bfloat16")
    puzzle.race(*inputs, at_least=0.9, operations=work, baseline="solution")
