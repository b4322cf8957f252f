"""Tests of 09.5, pruned matmul, in production."""

from course.challenge import broken_rule, challenge
from course.inputs import (
    FLOATS,
    cases,
    climbing,
    dtypes,
    far_apart,
    integers,
    large_at_the_end,
    matrices,
    offset,
    strided,
)
from course.values import special_values
from kernelgauge.subject.autotuning import ConfigSweep

# check goes through every configuration that is kept.
puzzle = challenge("pruned_matmul", input_precision="tf32")


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


def test_shapes_each_tuned_anew():
    # Parts of the same matrices: only the sizes tell these products apart.
    a, b = matrices(64, 64, 64)
    sizes = [(32, 32, 32), (64, 32, 32), (32, 64, 32), (32, 32, 64)]
    with ConfigSweep(0) as sweep:
        for M, N, K in sizes:
            puzzle.subject(a[:M, :K], b[:K, :N])
    if sweep.keys < len(sizes):
        raise broken_rule(
            f"the products (M, N, K) = {sizes} are tuned {sweep.keys} times, the spec asks for a "
            "choice for each",
            "key=[...] names the arguments that tell them apart",
        )


# Any size and layout.


@cases(no_rows=(0, 6, 5), no_columns=(8, 0, 5), nothing_to_sum=(8, 6, 0))
def test_shapes_empty(M, N, K):
    puzzle.check(*matrices(M, N, K))


def test_masks_all_strides_differ():
    puzzle.check(strided(integers(50, 37), 2, 3).T, strided(offset(integers(50, 41)), 5, 2))


def test_masks_one_size_after_another():
    # What was tuned for one problem must not break the next.
    a, b = matrices(40, 40, 40, make=integers)
    puzzle.check(a, b)
    puzzle.check(a[:, :3], b[:3])
    puzzle.check(a[:3], b)


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


def test_masks_result_beyond_32_bits():
    a, b = matrices(1, 1, 16, "float16")
    puzzle.check_large_offsets(a.expand(2**16, 16), b.expand(16, 2**15 + 1))


def test_masks_more_tiles_than_axis_1_takes():
    a, b = matrices(1, 1, 1, "float16")
    puzzle.check_grid(a, b.expand(1, 2**24 + 1))
    puzzle.check_grid(a.expand(2**23 + 1, 1), b)


def test_masks_limits():
    puzzle.limits(
        lambda M, N, K: large_at_the_end(*matrices(M, N, K)),
        dtypes=FLOATS,
        M=2**17,
        N=2**17,
        K=2**17,
    )


# Any value.


@dtypes("float16")
def test_numerics_sums_in_float32(dtype):
    ones = integers(1024, 16, low=1, high=2, dtype=dtype)
    puzzle.check_exactly(climbing(16, 1024, dtype), ones)


@dtypes("bfloat16", "float32")
def test_numerics_beyond_the_range_of_float16(dtype):
    a, b = matrices(20, 24, 70, dtype)
    puzzle.check(a * 1e6, b)


def test_numerics_special_values():
    a, b = matrices(70, 60, 70)
    a[3, 0], a[5, 69], a[7, 0] = float("inf"), float("nan"), 0.0
    b[0, 4] = -float("inf")
    puzzle.check(a, b)


test_numerics_each_special_value = special_values(
    puzzle, lambda: matrices(70, 60, 70, "float16"), "a b"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    puzzle.traffic(integers(40, 64).T, integers(96, 40).T).check(writes=1, launches=1)


def test_traffic_long_sums():
    puzzle.traffic(*matrices(16, 16, 4160, "float16")).check(writes=1, launches=1)


@cases(square=(256, 256, "float16"), flat=(16, 512, "float32"))
def test_compiles_every_config(M, N, dtype):
    puzzle.compiles(*matrices(M, N, 64, dtype), every_config=True)


@cases(square=(512, 512, "float32"), large=(1024, 1024, "float16"))
def test_compiles_for_99_kilobytes(M, N, dtype):
    with puzzle.given(shared_memory=99 * 1024):
        puzzle.compiles(*matrices(M, N, 64, dtype), every_config=True, targets=("sm_86",))


def test_compiles_sizes_of_1():
    # The compiler takes an argument of 1 for a constant.
    puzzle.compiles(*matrices(1, 1, 1, "float16"))


def test_compiles_ragged():
    a, b = integers(35, 67, dtype="bfloat16").T, integers(35, 33, dtype="bfloat16")
    puzzle.compiles(a, b)


def test_speedup_square():
    inputs = matrices(4096, 4096, 4096, "float16")
    work = (2 * 4096**3, "float16")
    puzzle.race(*inputs, at_least=0.9, operations=work, baseline="solution")


def test_speedup_flat():
    puzzle.race(*matrices(16, 16384, 16384, "float16"), at_least=0.9, baseline="solution")
