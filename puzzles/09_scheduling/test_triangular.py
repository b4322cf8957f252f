"""Tests of 09.3, Gram matrix."""

import torch

from course.challenge import broken_rule, challenge
from course.inputs import cases, climbing, dtypes, integers, randn

puzzle = challenge("gram_matrix", input_precision="tf32")


@cases(one_tile=(32, 32), one_row=(1, 70), one_column=(70, 1), single_element=(1, 1))
def test_shapes(M, K):
    puzzle.check(integers(M, K))


@cases(
    ragged_everywhere=(67, 131),
    one_past_a_tile=(129, 33),
    even_number_of_tiles=(250, 40),
    odd_number_of_tiles=(300, 40),
    many_tiles=(530, 20),
)
def test_masks(M, K):
    puzzle.check(integers(M, K))


def test_masks_transposed():
    puzzle.check(integers(56, 140).T)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(45, 300, dtype=dtype))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    a = climbing(17, 1024, dtype, by=8) / 8
    a[16] = 1
    puzzle.check_exactly(a)


@cases(one_tile=30, several_tiles=290)
def test_numerics_symmetric(M):
    a = randn(M, 100)
    puzzle.check(a)
    c = puzzle.subject(a)
    if not torch.equal(c, c.T):
        m, n = (c != c.T).nonzero()[0].tolist()
        raise broken_rule(
            f"c is not symmetric: c[{m}, {n}] is {c[m, n]:.9g}, and c[{n}, {m}] is {c[n, m]:.9g}",
            "two sums of the same terms may differ in the last bit; store one in both places",
        )


def test_traffic():
    M, K = 1024, 128
    puzzle.traffic(randn(M, K, dtype="float16")).check(
        reads={"a": M / 32 + 1},
        writes=1,
        launches=1,
        sectors=1.1,
        idle=0,
        dot_macs=0.65 * M * M * K,
    )


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(1040, 64, dtype=dtype))


def test_speedup():
    a = randn(8192, 8192, dtype="bfloat16")
    puzzle.race(a, at_least=0.8, operations=(8192**3, "bfloat16"))
