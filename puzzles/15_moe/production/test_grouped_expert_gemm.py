"""Tests of 15.3, products with experts, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    along,
    cases,
    dtypes,
    expert_blocks,
    far_apart,
    integers,
    offset,
    randn,
    strided,
    tensor,
)
from course.values import special_values

puzzle = challenge("grouped_expert_gemm", input_precision="tf32")
INF, NAN = float("inf"), float("nan")


def problem(T, top_k, E, N, K, block, dtype="float32", make=integers, low=0):
    experts = integers(T * top_k, low=low, high=E, dtype="int32")
    x, weights = make(T, K, dtype=dtype), make(E, N, K, dtype=dtype)
    return x, weights, *expert_blocks(experts, E, block), top_k


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    x, *rest = problem(6, 1, 2, 5, 7, 16)
    puzzle.check_or_raises(x[0], *rest, names="x", answer=False)
    puzzle.check_or_raises(x[None], *rest, names="x", answer=False)


def test_shapes_x_of_another_dtype():
    x, weights, *rest = problem(6, 1, 2, 5, 7, 16)
    puzzle.check_or_raises(x.double(), weights.double(), *rest, names="x")
    puzzle.check_or_raises(x.int(), weights.int(), *rest, names="x")


def test_shapes_weights_do_not_fit_x():
    x, weights, *rest = problem(6, 1, 2, 5, 7, 16)
    puzzle.check_or_raises(x, weights[0], *rest, names="weights", answer=False)
    puzzle.check_or_raises(x, weights[..., :6], *rest, names="weights")
    puzzle.check_or_raises(x, weights.half(), *rest, names="weights")


def test_shapes_order_is_no_list_of_blocks():
    x, weights, order, owners, top_k = problem(6, 1, 2, 5, 7, 16)
    puzzle.check_or_raises(x, weights, order[:-1], owners, top_k, names="order", answer=False)
    puzzle.check_or_raises(x, weights, order[None], owners, top_k, names="order")
    puzzle.check_or_raises(x, weights, order.float(), owners, top_k, names="order", answer=False)
    twice = order.expand(16, len(order)).flatten()
    puzzle.check_or_raises(x, weights, twice, owners, top_k, names="order", answer=False)


def test_shapes_block_experts_are_no_list():
    x, weights, order, owners, top_k = problem(6, 1, 2, 5, 7, 16)
    puzzle.check_or_raises(
        x, weights, order, owners[None], top_k, names="block_experts", answer=False
    )
    puzzle.check_or_raises(
        x, weights, order, owners.float(), top_k, names="block_experts", answer=False
    )


@cases(none=0, negative=-2)
def test_shapes_top_k_out_of_range(top_k):
    puzzle.check_or_raises(*problem(6, 1, 2, 5, 7, 16)[:4], top_k, names="top_k", answer=False)


# Any size and layout.


def test_masks_all_strides_differ():
    x, weights, order, owners, top_k = problem(37, 2, 3, 41, 50, 32)
    puzzle.check(
        strided(x, 2, 3), strided(weights, 2, 5, 3), strided(order, 3), strided(owners, 2), top_k
    )


def test_masks_transposed():
    _, _, *rest = problem(40, 3, 3, 24, 56, 16)
    puzzle.check(integers(56, 40).T, integers(3, 56, 24).mT, *rest)


def test_masks_unaligned():
    x, weights, order, owners, top_k = problem(40, 1, 3, 24, 56, 16)
    puzzle.check(offset(x), offset(weights, 3), offset(order), offset(owners), top_k)


def test_masks_one_weight_for_all_experts():
    x, _, *rest = problem(40, 1, 3, 24, 56, 16)
    puzzle.check(x, integers(1, 24, 56).expand(3, 24, 56), *rest)


def test_masks_dropped_assignments():
    puzzle.check(*problem(40, 2, 3, 24, 30, 16, low=-1))
    x, weights = integers(9, 20), integers(2, 30, 20)
    puzzle.check(x, weights, *expert_blocks(tensor([-1] * 9, "int32"), 2, 16))


@cases(rows=0, columns=1)
def test_masks_offsets_of_x_beyond_32_bits(dim):
    x = along(far_apart(integers(3, dtype="float16")), dim, 3, 3)
    _, weights, *rest = problem(3, 2, 2, 5, 3, 16, "float16")
    puzzle.check(x, weights, *rest)


@cases(experts=0, rows=1, columns=2)
def test_masks_offsets_of_weights_beyond_32_bits(dim):
    weights = along(far_apart(integers(3, dtype="float16")), dim, 3, 3, 3)
    x, _, *rest = problem(9, 1, 3, 3, 3, 16, "float16")
    puzzle.check(x, weights, *rest)


def test_masks_offsets_of_order_beyond_32_bits():
    x, weights, order, owners, top_k = problem(9, 1, 3, 3, 3, 16, "float16")
    puzzle.check(x, weights, far_apart(order), far_apart(owners), top_k)


@cases(steps_of_16=17, steps_of_32=33, steps_of_64=65)
def test_masks_steps_beyond_32_bits(K):
    # Only the stride times the length of a step overflows.
    far, near = far_apart(integers(K, dtype="float16")), integers(K, dtype="float16")
    blocks = expert_blocks(tensor([0], "int32"), 1, 16)
    puzzle.check_offsets(far[None, :], near[None, None, :], *blocks)
    puzzle.check_offsets(near[None, :], far[None, None, :], *blocks)


def test_masks_result_beyond_32_bits():
    T, N = 2**11, 2**20 + 1
    blocks = expert_blocks(tensor([0], "int32").expand(T), 1, 128)
    x = randn(1, 16, dtype="float16")
    puzzle.check_large_offsets(x.expand(T, 16), x[None].expand(1, N, 16), *blocks)


def test_masks_limits():
    puzzle.limits(
        lambda T, top_k, E, N, K: problem(T, top_k, E, N, K, 16, low=E - 1, make=randn),
        dtypes=FLOATS,
        T=2**14,
        top_k=2**10,
        E=2**12,
        N=2**14,
        K=2**14,
    )


# Any value.


@dtypes("bfloat16", "float32")
def test_numerics_beyond_the_range_of_float16(dtype):
    x, *rest = problem(20, 2, 3, 24, 70, 16, dtype, randn)
    puzzle.check(x * 1e6, *rest)


@cases(first=0, last=69)
def test_numerics_special_values(k):
    x, weights, *rest = problem(40, 2, 3, 27, 70, 16, make=randn)
    x[3, k], x[25, k], x[7, k] = INF, NAN, 0.0
    weights[0, 4, k] = -INF
    puzzle.check(x, weights, *rest)


test_numerics_each_special_value = special_values(
    puzzle, lambda: problem(40, 2, 3, 27, 70, 16, make=randn), "x weights"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_blocks_of_128():
    inputs = problem(150, 2, 3, 256, 64, 128, "bfloat16", randn)
    used = int((inputs[3] >= 0).sum())
    puzzle.traffic(*inputs).check(
        reads={"weights": used / 3}, writes=1, launches=1, dot_macs=used * 128 * 256 * 64
    )


@cases(
    blocks_of_16=(64, 2, 4, 64, 64, 16, "bfloat16"),
    ragged=(35, 3, 3, 33, 67, 32, "float16"),
    sizes_of_1=(1, 1, 1, 1, 1, 16, "float16"),
    large_tiles=(600, 1, 2, 512, 64, 128, "float16"),
)
def test_compiles(T, top_k, E, N, K, block, dtype):
    puzzle.compiles(*problem(T, top_k, E, N, K, block, dtype))


def test_speedup():
    T, top_k, E, N, K = 8192, 8, 64, 2816, 2048
    puzzle.race(
        *problem(T, top_k, E, N, K, 128, "bfloat16", randn),
        kept=["order", "block_experts"],
        at_least=0.9,
        operations=(2 * T * top_k * N * K, "bfloat16"),
        baseline="solution",
    )
