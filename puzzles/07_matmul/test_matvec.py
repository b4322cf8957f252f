"""What 07.1, matrix times vector, is held to."""

import torch

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor

puzzle = challenge("matvec")


@cases(
    one_row=(1, 700),
    one_column=(300, 1),
    wide=(5, 3000),
    tall=(700, 40),
    single_element=(1, 1),
)
def test_shapes(M, K):
    puzzle.check(randn(M, K), randn(K))


def test_shapes_of_bad_input():
    a, x = randn(8, 5), randn(5)
    puzzle.rejects(ValueError, x, x, naming="a")
    puzzle.rejects(ValueError, a[None], x, naming="a")
    puzzle.rejects(ValueError, a.double(), x.double(), naming="a")
    puzzle.rejects(ValueError, integers(8, 5, dtype="int32"), x, naming="a")
    puzzle.rejects(ValueError, a, randn(5, 1), naming="x")
    puzzle.rejects(ValueError, a, randn(8), naming="x")
    puzzle.rejects(ValueError, a, randn(1), naming="x")
    puzzle.rejects(ValueError, a, randn(5, dtype="float16"), naming="x")


@cases(
    one_past_a_power_of_two=(65, 1025),
    one_short_of_a_power_of_two=(63, 511),
    ragged=(67, 131),
)
def test_masks(M, K):
    puzzle.check(integers(M, K), integers(K))


def test_masks_transposed():
    puzzle.check(integers(131, 67).T, integers(131))


def test_masks_all_strides_differ():
    puzzle.check(strided(integers(37, 131), 2, 3), strided(integers(131), 5))


def test_masks_unaligned():
    puzzle.check(offset(integers(37, 130)), offset(integers(130), 3))


def test_masks_one_row_repeated():
    puzzle.check(integers(1, 70).expand(40, 70), integers(1).expand(70))


def test_masks_rows_beyond_32_bits():
    rows = far_apart(integers(3, dtype="float16"))
    puzzle.check(rows[:, None], integers(1, dtype="float16"))


def test_masks_columns_beyond_32_bits():
    far, near = far_apart(integers(3, dtype="float16")), integers(3, dtype="float16")
    puzzle.check(far[None, :], near)
    puzzle.check(near[None, :], far)


def test_masks_more_rows_than_axis_1_takes():
    puzzle.check_grid(randn(1, 1).expand(2**23, 1), randn(1))


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(randn(50, 1500, dtype=dtype), randn(1500, dtype=dtype))


@cases(float16=("float16", 2048), bfloat16=("bfloat16", 256))
def test_numerics_sums_in_float32(dtype, exact_below):
    # What two of these numbers have in their last bit is lost in 16 bits, and shows at the end.
    large = integers(4, 2**13, low=exact_below // 2, high=exact_below, dtype=dtype)
    a = torch.cat([large, integers(4, 2**13, dtype=dtype) - large], dim=1)
    puzzle.check_exactly(a, integers(2**14, low=1, high=2, dtype=dtype))


@dtypes("float16")
def test_numerics_products_in_float32(dtype):
    # 300 * 300 is inf in float16; the sum is not.
    x = tensor([300.0, 300.0], dtype)
    puzzle.check_exactly(tensor([[300.0, -300.0], [300.0, -299.0]], dtype), x)


def test_numerics_special_values():
    a = randn(5, 70)
    a[1, 0], a[2, 69], a[3, 5] = float("inf"), float("nan"), float("-inf")
    x = randn(70)
    puzzle.check(a, x)
    x[69] = float("inf")
    puzzle.check(a.nan_to_num(posinf=1.0, neginf=1.0), x)


def test_traffic():
    puzzle.traffic(randn(70, 1536), randn(1536)).check(
        reads={"a": 1}, writes=1, launches=1, sectors={"a": 1.1}
    )


def test_traffic_transposed():
    puzzle.traffic(randn(48, 70).T, randn(48)).check(reads={"a": 1}, writes=1, launches=1)


@dtypes("bfloat16", "float32")
def test_compiles(dtype):
    puzzle.compiles(randn(70, 1536, dtype=dtype), randn(1536, dtype=dtype))


def test_compiles_transposed():
    puzzle.compiles(randn(160, 96, dtype="float16").T, randn(160, dtype="float16"))


def test_speedup():
    a, x = randn(16384, 16384, dtype="bfloat16"), randn(16384, dtype="bfloat16")
    puzzle.race(a, x, at_least=0.9)
