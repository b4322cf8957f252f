"""Tests of 15.3, products with experts."""

from course.challenge import challenge
from course.inputs import cases, climbing, dtypes, expert_blocks, integers, randn, tensor

puzzle = challenge("grouped_expert_gemm", input_precision="tf32")


def problem(T, top_k, E, N, K, block, dtype="float32", make=integers):
    experts = integers(T * top_k, low=0, high=E, dtype="int32")
    x, weights = make(T, K, dtype=dtype), make(E, N, K, dtype=dtype)
    return x, weights, *expert_blocks(experts, E, block), top_k


@cases(
    one_choice=(20, 1, 3, 24, 40, 16),
    two_choices=(20, 2, 3, 24, 40, 16),
    single_element=(1, 1, 1, 1, 1, 16),
)
def test_shapes(T, top_k, E, N, K, block):
    puzzle.check(*problem(T, top_k, E, N, K, block))


@cases(
    ragged_everywhere=(67, 2, 5, 45, 83, 16),
    many_columns=(40, 1, 2, 300, 20, 32),
    blocks_of_64=(150, 1, 3, 40, 40, 64),
    blocks_of_128=(150, 2, 2, 40, 40, 128),
)
def test_masks(T, top_k, E, N, K, block):
    puzzle.check(*problem(T, top_k, E, N, K, block))


def test_masks_experts_without_tokens():
    x, weights = integers(20, 30), integers(5, 20, 30)
    puzzle.check(x, weights, *expert_blocks(tensor([1, 3] * 20, "int32"), 5, 16), 2)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*problem(40, 2, 3, 30, 200, 16, dtype, randn))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    ones = integers(2, 16, 1024, low=1, high=2, dtype=dtype)
    blocks = expert_blocks(tensor([0, 1] * 10, "int32"), 2, 16)
    puzzle.check_exactly(climbing(20, 1024, dtype), ones, *blocks)


def test_traffic():
    T, top_k, E, N, K, block = 64, 2, 4, 128, 128, 16
    inputs = problem(T, top_k, E, N, K, block, "float16", randn)
    used = int((inputs[3] >= 0).sum())
    puzzle.traffic(*inputs).check(
        reads={"x": top_k * N / 32, "weights": used / E},
        writes=1,
        launches=1,
        sectors={"weights": 1.1, "result": 1.1},
        dot_macs=used * block * N * K,
    )


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*problem(200, 2, 4, 128, 64, 64, dtype))


def test_speedup():
    T, top_k, E, N, K = 8192, 8, 64, 2816, 2048
    puzzle.race(
        *problem(T, top_k, E, N, K, 128, "bfloat16", randn),
        kept=["order", "block_experts"],
        at_least=1,
        operations=(2 * T * top_k * N * K, "bfloat16"),
        baseline="expert_by_expert",
    )
