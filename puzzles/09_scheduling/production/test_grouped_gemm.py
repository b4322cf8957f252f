"""Tests of 09.4, grouped matmul, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    INDICES,
    along,
    cases,
    dtypes,
    far_apart,
    groups,
    integers,
    offset,
    randn,
    strided,
    tensor,
)
from course.values import special_values

puzzle = challenge("grouped_matmul", input_precision="tf32")
INF, NAN = float("inf"), float("nan")

# Bad input: the error that the spec names, or the right answer.


def test_shapes_a_is_not_a_matrix():
    a, b, ends = groups([3, 5], 6, 4)
    puzzle.check_or_raises(a[0], b, ends, names="a", answer=False)
    puzzle.check_or_raises(a[None], b, ends, names="a", answer=False)


def test_shapes_a_of_another_dtype():
    a, b, ends = groups([3, 5], 6, 4)
    puzzle.check_or_raises(a.double(), b.double(), ends, names="a")
    puzzle.check_or_raises(a.int(), b, ends, names="a")


def test_shapes_b_does_not_fit_a():
    a, b, ends = groups([3, 5], 6, 4)
    puzzle.check_or_raises(a, b[:, :3], ends, names="b")
    puzzle.check_or_raises(a, b.half(), ends, names="b")
    puzzle.check_or_raises(a, b[0], ends, names="b", answer=False)


def test_shapes_ends_does_not_fit_b():
    a, b, ends = groups([3, 5], 6, 4)
    puzzle.check_or_raises(a, b, ends[:1], names="ends", answer=False)
    puzzle.check_or_raises(a, b, ends[None], names="ends", answer=False)
    puzzle.check_or_raises(a, b, ends.float(), names="ends", answer=False)


# Any size and layout.


@cases(no_rows=([0, 0], 6, 5), no_columns=([3, 5], 0, 5))
def test_shapes_empty(sizes, N, K):
    puzzle.check(*groups(sizes, N, K))


def test_masks_thousands_of_groups():
    sizes = [0] * 2100
    sizes[0], sizes[1030], sizes[2098] = 20, 3, 1
    puzzle.check(*groups(sizes, 20, 16))


def test_masks_all_strides_differ():
    a, b, ends = groups([30, 57], 40, 50)
    puzzle.check(strided(a, 2, 3), strided(b, 2, 5, 3), strided(ends, 3))


def test_masks_unaligned():
    a, b, ends = groups([30, 57], 40, 56)
    puzzle.check(offset(a), offset(b, 3), offset(ends))


def test_masks_one_matrix_for_all_groups():
    a, _, ends = groups([30, 57], 40, 56)
    puzzle.check(a, integers(1, 56, 40).expand(2, 56, 40), ends)


@cases(rows_of_a=0, columns_of_a=1)
def test_masks_offsets_of_a_beyond_32_bits(dim):
    a = along(far_apart(integers(3, dtype="float16")), dim, 3, 3)
    puzzle.check(a, integers(2, 3, 5, dtype="float16"), tensor([1, 3], "int32"))


@cases(groups_of_b=0, rows_of_b=1, columns_of_b=2)
def test_masks_offsets_of_b_beyond_32_bits(dim):
    b = along(far_apart(integers(3, dtype="float16")), dim, 3, 3, 3)
    puzzle.check(integers(9, 3, dtype="float16"), b, tensor([2, 4, 9], "int32"))


def test_masks_offsets_of_ends_beyond_32_bits():
    a, b, ends = groups([3, 5, 4], 6, 5, "float16")
    puzzle.check(a, b, far_apart(ends))


@cases(steps_of_16=17, steps_of_32=33, steps_of_64=65)
def test_masks_steps_beyond_32_bits(K):
    # Only the stride times the length of a step overflows.
    far, near = far_apart(integers(K, dtype="float16")), integers(K, dtype="float16")
    ends = tensor([1], "int32")
    puzzle.check_offsets(far[None, :], near[None, :, None], ends)
    puzzle.check_offsets(near[None, :], far[None, :, None], ends)


def test_masks_result_beyond_32_bits():
    x, rows = randn(1, 1, dtype="float16"), 2**16 + 1
    with puzzle.given(multiprocessors=2**30):
        puzzle.check_large_offsets(
            x.expand(rows, 1), x[None].expand(1, 1, 2**15), tensor([rows], "int32")
        )


def test_masks_large():
    puzzle.check(*groups([300, 3, 260], 264, 520, "float16"))


def test_masks_limits():
    puzzle.limits(
        lambda G, rows, N, K: groups([rows] * G, N, K, make=randn, index="int64"),
        dtypes={"a b": FLOATS, "ends": INDICES},
        G=2**13,
        rows=2**17,
        N=2**17,
        K=2**17,
    )


# Any value.


@dtypes("bfloat16", "float32")
def test_numerics_beyond_the_range_of_float16(dtype):
    a, b, ends = groups([20, 30], 24, 70, dtype, make=randn)
    puzzle.check(a * 1e6, b, ends)


@cases(first=0, last=69)
def test_numerics_special_values(k):
    a, b, ends = groups([40, 60], 27, 70, make=randn)
    a[3, k], a[45, k], a[7, k] = INF, NAN, 0.0
    b[0, k, 4] = -INF
    puzzle.check(a, b, ends)


def test_numerics_special_values_stay_in_their_group():
    a, b, ends = groups([40, 30, 50], 60, 70, make=randn)
    a[45, 3], b[0, 5, 6] = NAN, INF
    puzzle.check(a, b, ends)


test_numerics_each_special_value = special_values(
    puzzle, lambda: groups([40, 60], 27, 70, make=randn), "a b"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_many_small_groups():
    puzzle.traffic(*groups([7] * 48, 64, 64, "bfloat16")).check(
        reads={"a": 2, "b": 1}, writes=1, launches=1, grid_at_most=4, largest_share=1.3
    )


def test_compiles_many_groups():
    puzzle.compiles(*groups([1] * 200, 64, 64, "float16", index="int64"))


def test_compiles_large_tiles():
    puzzle.compiles(*groups([600, 700], 1024, 64, "float16"))


def test_compiles_sizes_of_1():
    # The compiler takes an argument of 1 for a constant.
    puzzle.compiles(*groups([1], 1, 1, "float16"))


def test_compiles_ragged():
    a, b, ends = groups([35, 66], 33, 35, "bfloat16")
    puzzle.compiles(a, b.mT.contiguous().mT, strided(ends, 2))


def test_speedup():
    sizes = [16 * (1 + group % 31) for group in range(63)]
    inputs = groups([*sizes, 16384 - sum(sizes)], 2048, 2048, "bfloat16", make=randn)
    work = (2 * 16384 * 2048**2, "bfloat16")
    puzzle.race(*inputs, kept=["ends"], at_least=0.9, operations=work, baseline="solution")
