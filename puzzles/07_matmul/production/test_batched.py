"""Tests of 07.4, batched matmul, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    cases,
    dtypes,
    far_apart,
    integers,
    large_at_the_end,
    offset,
    randn,
    strided,
)
from course.values import special_values

puzzle = challenge("batched_matmul", input_precision="tf32")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_a_is_no_batch():
    a, b = randn(3, 8, 5), randn(3, 5, 6)
    puzzle.check_or_raises(a[0], b, names="a")
    puzzle.check_or_raises(a[None], b, names="a")


def test_shapes_a_of_another_dtype():
    a, b = randn(3, 8, 5), randn(3, 5, 6)
    puzzle.check_or_raises(a.double(), b.double(), names="a")
    puzzle.check_or_raises(integers(3, 8, 5, dtype="int32"), b, names="a")


def test_shapes_b_is_no_batch():
    a, b = randn(3, 8, 5), randn(3, 5, 6)
    puzzle.check_or_raises(a, b[0], names="b")
    puzzle.check_or_raises(a, b[..., None], names="b")


def test_shapes_b_does_not_fit_a():
    a, b = randn(3, 8, 5), randn(3, 5, 6)
    puzzle.check_or_raises(a, b[:, :4], names="b")
    puzzle.check_or_raises(a, b[:2], names="b")
    puzzle.check_or_raises(randn(4, 8, 5), b[:2], names="b")
    puzzle.check_or_raises(a, b.half(), names="b")


# Any size and layout.


def test_masks_batch_of_stride_0():
    puzzle.check(integers(1, 40, 35).expand(5, 40, 35), integers(5, 35, 20))


def test_masks_both_transposed():
    puzzle.check(integers(4, 35, 40).mT, integers(4, 24, 35).mT)


def test_masks_batch_in_the_middle():
    puzzle.check(integers(40, 4, 35).transpose(0, 1), integers(35, 24, 4).permute(2, 0, 1))


def test_masks_all_strides_differ():
    puzzle.check(strided(integers(3, 20, 25), 2, 1, 3), strided(integers(3, 25, 21), 3, 2, 2))


def test_masks_unaligned():
    puzzle.check(offset(integers(3, 40, 56)), offset(integers(3, 56, 40), 3))


@cases(
    rows_are_aligned=((2, 260, 264), (2, 264, 520)),
    rows_are_not=((2, 259, 261), (2, 261, 519)),
    one_a_for_all=((1, 260, 264), (2, 264, 520)),
    one_b_for_all=((2, 259, 264), (1, 264, 515)),
)
def test_masks_large(shape, other):
    # Where a kernel may load in another way, or copy its factors first.
    puzzle.check(integers(*shape, dtype="float16"), integers(*other, dtype="float16"))


def test_masks_offsets_beyond_32_bits():
    far, near = far_apart(integers(3, dtype="float16")), integers(3, dtype="float16")
    puzzle.check(far[:, None, None], near[:, None, None])
    puzzle.check(near[:, None, None], far[:, None, None])
    puzzle.check(far[None, :, None], near[None, None, :])
    puzzle.check(near[None, :, None], far[None, None, :])
    puzzle.check(far[None, None, :], near[None, :, None])
    puzzle.check(near[None, None, :], far[None, :, None])


@cases(steps_of_16=17, steps_of_32=33, steps_of_64=65)
def test_masks_steps_beyond_32_bits(K):
    # Only the stride times the length of a step overflows.
    far, near = far_apart(integers(K, dtype="float16")), integers(K, dtype="float16")
    puzzle.check_offsets(far[None, None, :], near[None, :, None])
    puzzle.check_offsets(near[None, None, :], far[None, :, None])


@cases(
    many_products=(2**15 + 1, 256, 256),
    one_product=(1, 2**16, 2**15 + 1),
)
def test_masks_result_beyond_32_bits(B, M, N):
    a, b = randn(1, 1, 16, dtype="float16"), randn(1, 16, 1, dtype="float16")
    puzzle.check_large_offsets(a.expand(B, M, 16), b.expand(B, 16, N))


@cases(products=(65536, 1, 1), rows=(1, 2**23 + 1, 1), columns=(1, 1, 2**24 + 1))
def test_masks_more_programs_than_axis_1_takes(B, M, N):
    x = randn(1, 1, 1, dtype="float16")
    puzzle.check_grid(x.expand(B, M, 1), x.expand(B, 1, N))


def test_masks_limits():
    puzzle.limits(
        lambda B, M, N, K: large_at_the_end(randn(B, M, K), randn(B, K, N)),
        dtypes=FLOATS,
        B=2**17,
        M=2**17,
        N=2**17,
        K=2**17,
    )


# Any value.


@dtypes("bfloat16", "float32")
def test_numerics_beyond_the_range_of_float16(dtype):
    a, b = randn(2, 20, 70, dtype=dtype), randn(2, 70, 24, dtype=dtype)
    puzzle.check(a * 1e6, b)


def test_numerics_nan_stays_in_its_product():
    a, b = randn(3, 20, 30), randn(3, 30, 24)
    a[1, 3, 7], b[2, 5, 6] = float("nan"), float("inf")
    puzzle.check(a, b)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(3, 20, 30, dtype="float16"), randn(3, 30, 24, dtype="float16")), "a b"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    M, N = 64, 96
    puzzle.traffic(randn(2, 40, M).mT, randn(2, N, 40).mT).check(
        reads={"a": N // 32, "b": M // 32}, writes=1, launches=1
    )


@cases(rows=(16, 128), columns=(128, 16))
def test_traffic_few(M, N):
    reads = {"a": -(-N // 32), "b": -(-M // 32)}
    a, b = randn(2, M, 64, dtype="float16"), randn(2, 64, N, dtype="float16")
    puzzle.traffic(a, b).check(reads=reads, writes=1, launches=1)


def test_traffic_long_sums():
    a, b = randn(1, 16, 4160, dtype="float16"), randn(1, 4160, 16, dtype="float16")
    puzzle.traffic(a, b).check(writes=1, launches=1)


def test_compiles_broadcast():
    puzzle.compiles(randn(1, 35, 67, dtype="float16").mT, randn(3, 35, 33, dtype="float16"))


def test_compiles_large():
    puzzle.compiles(randn(2, 512, 512, dtype="float16"), randn(2, 512, 512, dtype="float16"))
    puzzle.compiles(randn(2, 512, 515, dtype="float16"), randn(2, 515, 517, dtype="float16"))


def test_speedup():
    a, b = randn(32, 2048, 2048, dtype="float16"), randn(32, 2048, 2048, dtype="float16")
    work = (32 * 2 * 2048**3, "float16")
    puzzle.race(a, b, at_least=0.9, operations=work, baseline="solution")
