"""Tests of 07.1, matrix times vector."""

import torch

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, strided, tensor

puzzle = challenge("matvec")


@cases(whole_tile=(16, 64), one_row=(1, 700), one_column=(70, 1), single_element=(1, 1))
def test_shapes(M, K):
    puzzle.check(integers(M, K), integers(K, low=1))


@cases(
    ragged=(67, 131),
    one_past_a_power_of_two=(65, 1025),
    one_short_of_a_power_of_two=(63, 511),
    many_rows=(300, 20),
)
def test_masks(M, K):
    puzzle.check(integers(M, K), integers(K, low=1))


def test_masks_any_strides():
    puzzle.check(integers(131, 67).T, strided(integers(131, low=1), 3))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(50, 1500, dtype=dtype), randn(1500, dtype=dtype))


@cases(float16=("float16", 2048), bfloat16=("bfloat16", 256))
def test_numerics_sums_in_float32(dtype, exact_below):
    # The large parts cancel: what a sum in 16 bits lost of them shows at the end.
    large = integers(4, 2**13, low=exact_below // 2, high=exact_below, dtype=dtype)
    a = torch.cat([large, integers(4, 2**13, dtype=dtype) - large], dim=1)
    puzzle.check_exactly(a, integers(2**14, low=1, high=2, dtype=dtype))


def test_numerics_products_in_float32():
    # 300 * 300 is inf in float16; the sum is not.
    x = tensor([300.0, 300.0], "float16")
    puzzle.check_exactly(tensor([[300.0, -300.0], [300.0, -299.0]], "float16"), x)


def test_traffic():
    puzzle.traffic(randn(70, 512), randn(512)).check(
        reads={"a": 1}, writes=1, launches=1, sectors={"a": 1.1}
    )


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(70, 1536, dtype=dtype), randn(1536, dtype=dtype))


def test_speedup():
    a, x = randn(16384, 16384, dtype="bfloat16"), randn(16384, dtype="bfloat16")
    puzzle.race(a, x, at_least=0.3)
