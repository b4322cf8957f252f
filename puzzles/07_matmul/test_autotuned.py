"""Tests of 07.6, autotuned matmul."""

from course.challenge import broken_rule, challenge
from course.inputs import cases, dtypes, integers, matrices, strided

# check goes through every configuration.
puzzle = challenge("autotuned_matmul", input_precision="tf32")


@cases(one_tile=(32, 32, 32), one_row=(1, 70, 40), one_column=(70, 1, 40), single_element=(1, 1, 1))
def test_shapes(M, N, K):
    puzzle.check(*matrices(M, N, K, make=integers))


def test_shapes_four_configurations():
    count = puzzle.declared_configs(*matrices(16, 16, 16))
    if count < 4:
        raise broken_rule(
            f"the kernel has {count} different configurations, the spec asks for at least 4",
            "@triton.autotune(configs=[triton.Config({...}, num_warps=8), ...], key=[...])",
        )


@cases(
    ragged_everywhere=(67, 35, 131),
    many_rows_of_tiles=(257, 40, 20),
    many_columns_of_tiles=(40, 290, 20),
)
def test_masks(M, N, K):
    puzzle.check(*matrices(M, N, K, make=integers))


def test_masks_any_strides():
    puzzle.check(integers(56, 40).T, strided(integers(56, 24), 5, 2))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*matrices(33, 40, 300, dtype))


def test_traffic():
    puzzle.traffic(*matrices(96, 160, 64, "float16")).check(writes=1, launches=1)


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*matrices(64, 128, 64, dtype))


def test_speedup():
    inputs = matrices(4096, 4096, 4096, "float16")
    puzzle.race(*inputs, at_least=0.3, operations=(2 * 4096**3, "float16"))
