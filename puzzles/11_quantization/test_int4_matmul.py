"""Tests of 11.4, int4 matmul."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor, uniform

puzzle = challenge("int4_matmul")


def layer(M, N, K, group, dtype="float16"):
    """Random factors: every group of every row has a scale and a zero point of its own."""
    weight = integers(N, K // 2, low=0, high=256, dtype="uint8")
    scale = uniform(N, K // group, low=0.01, high=0.1, dtype=dtype)
    zero = integers(N, K // group, low=0, high=16, dtype="uint8")
    return randn(M, K, dtype=dtype), weight, scale, zero


def simple(x, weight, zero, group=32):
    """The same factors with scales of 1 and one zero point, so that every result is exact."""
    shape = len(weight), 2 * weight.shape[1] // group
    return (
        x,
        weight,
        tensor([[1.0]], x.dtype).repeat(shape),
        tensor([[zero]], "uint8").repeat(shape),
    )


@cases(one_tile=(16, 64, 64), one_row=(1, 70, 96), one_column=(40, 1, 64), least=(1, 1, 32))
def test_shapes(M, N, K):
    puzzle.check(*layer(M, N, K, 32))


@cases(group_32=32, group_64=64, group_128=128, group_256=256)
def test_masks(group):
    puzzle.check(*layer(67, 35, 768, group))


@cases(few_rows=(3, 290), several_tiles_each_way=(150, 161))
def test_masks_ragged(M, N):
    puzzle.check(*layer(M, N, 128, 64))


def test_numerics_every_byte():
    weight = tensor([[byte] * 16 for byte in range(256)], "uint8")
    puzzle.check_exactly(*simple(integers(16, 32, dtype="float16"), weight, zero=8))


def test_numerics_zero_above_every_weight():
    # q - 15 is negative: in uint8 it would wrap around.
    weight = integers(40, 32, low=0, high=15, dtype="uint8") * 16
    puzzle.check_exactly(*simple(integers(16, 64, dtype="float16"), weight, zero=15))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # The sum climbs to 45 * 2048, by odd numbers, and comes back.
    x = integers(16, 4096, low=3, high=4, dtype=dtype)
    x[:, 2048:], x[:, 1], x[:, 4095] = -3, 2, integers(16, dtype=dtype)
    weight = tensor([[255]], "uint8").repeat(16, 2048)
    puzzle.check_exactly(*simple(x, weight, zero=0, group=256))


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*layer(33, 50, 512, 128, dtype))


@cases(few_rows=(16, 1), many_rows=(128, 4))
def test_traffic(M, times):
    puzzle.traffic(*layer(M, 128, 256, 128)).check(
        reads={"weight": times, "x": 4},
        writes=1,
        launches=1,
        sectors={"weight": 2.1, "result": 1.1},
    )


@dtypes("float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*layer(16, 128, 256, 128, dtype))


def test_speedup():
    puzzle.race(*layer(16, 16384, 16384, 128), at_least=4)
