"""What 07.2, tiled matmul, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor

puzzle = challenge("tiled_matmul", input_precision="tf32")


def two(M, N, K, dtype="float32", make=randn):
    return make(M, K, dtype=dtype), make(K, N, dtype=dtype)


def climbing(M, K, dtype):
    """Rows that sum up to 4096 on their way to a small sum: 16 bits lose odd numbers up there."""
    a = integers(M, K, dtype=dtype)
    a[:, : K // 2] += 8
    a[:, K // 2 :] -= 8
    return a


@cases(
    one_row=(1, 70, 40),
    one_column=(70, 1, 40),
    outer_product=(40, 70, 1),
    whole_tiles=(64, 128, 64),
    single_element=(1, 1, 1),
)
def test_shapes(M, N, K):
    puzzle.check(*two(M, N, K))


def test_shapes_of_bad_input():
    a, b = two(8, 6, 5)
    puzzle.rejects(ValueError, a[0], b, naming="a")
    puzzle.rejects(ValueError, a[None], b, naming="a")
    puzzle.rejects(ValueError, a.double(), b.double(), naming="a")
    puzzle.rejects(ValueError, integers(8, 5, dtype="int32"), b, naming="a")
    puzzle.rejects(ValueError, a, b[:, 0], naming="b")
    puzzle.rejects(ValueError, a, b[:, :, None], naming="b")
    puzzle.rejects(ValueError, a, b[:4], naming="b")
    puzzle.rejects(ValueError, a, b.T, naming="b")
    puzzle.rejects(ValueError, a, b.half(), naming="b")


@cases(
    ragged_everywhere=(67, 35, 131),
    rows_overrun=(129, 32, 32),
    columns_overrun=(32, 257, 96),
    inner_size_overruns=(32, 32, 65),
    inner_size_one_short=(32, 32, 63),
    several_tiles_each_way=(150, 270, 48),
)
def test_masks(M, N, K):
    puzzle.check(*two(M, N, K, make=integers))


def test_masks_transposed_operands():
    puzzle.check(integers(56, 40).T, integers(24, 56).T)


def test_masks_all_strides_differ():
    puzzle.check(strided(integers(37, 50), 2, 3), strided(integers(50, 41), 5, 2))


def test_masks_unaligned():
    puzzle.check(offset(integers(40, 56)), offset(integers(56, 40), 3))


def test_masks_one_row_repeated():
    puzzle.check(integers(1, 40).expand(50, 40), integers(40, 1).expand(40, 30))


def test_masks_offsets_beyond_32_bits():
    far, near = far_apart(integers(3, dtype="float16")), integers(3, dtype="float16")
    puzzle.check(far[:, None], near[None, :])
    puzzle.check(near[:, None], far[None, :])
    puzzle.check(far[None, :], near[:, None])
    puzzle.check(near[None, :], far[:, None])


def test_masks_steps_beyond_32_bits():
    # Only a stride times the length of a step overflows: 65 is one past the first step.
    far, near = far_apart(integers(65, dtype="float16")), integers(65, dtype="float16")
    puzzle.check(far[None, :], near[:, None])
    puzzle.check(near[None, :], far[:, None])


def test_masks_result_beyond_32_bits():
    a, b = randn(1, 16, dtype="float16"), randn(16, 1, dtype="float16")
    puzzle.check_large_offsets(a.expand(2**16, 16), b.expand(16, 2**15 + 1))


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*two(45, 50, 300, dtype))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    ones = integers(1024, 16, low=1, high=2, dtype=dtype)
    puzzle.check_exactly(climbing(16, 1024, dtype), ones)


@dtypes("bfloat16", "float32")
def test_numerics_range_of_float32(dtype):
    # Rounded to float16 on the way, these are inf.
    a, b = two(20, 24, 70, dtype)
    puzzle.check(a * 1e6, b)


@cases(first=0, last=69)
def test_numerics_special_values(k):
    a, b = two(20, 24, 70)
    a[3, k], a[5, k], a[7, k] = float("inf"), float("nan"), 0.0
    puzzle.check(a, b)
    b[k, 4] = float("-inf")
    puzzle.check(a, b)


def test_numerics_order_of_the_indices():
    a, b = tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[5.0, 6.0], [7.0, 8.0]])
    puzzle.check_exactly(a, b)


def test_traffic():
    M, N = 128, 256
    puzzle.traffic(*two(M, N, 64, "float16")).check(
        reads={"a": N // 32, "b": M // 32}, writes=1, launches=1, sectors=1.1
    )


def test_traffic_transposed_operands():
    M, N = 64, 96
    puzzle.traffic(randn(40, M).T, randn(N, 40).T).check(
        reads={"a": N // 32, "b": M // 32}, writes=1, launches=1
    )


def test_traffic_long_sums():
    puzzle.traffic(*two(16, 16, 8192, "float16")).check(writes=1, launches=1)


@dtypes("float16", "float32")
def test_compiles(dtype):
    puzzle.compiles(*two(64, 128, 64, dtype))


def test_compiles_ragged():
    puzzle.compiles(randn(35, 67, dtype="bfloat16").T, randn(35, 33, dtype="bfloat16"))


def test_speedup():
    inputs = two(4096, 4096, 4096, "float16")
    puzzle.race(*inputs, at_least=0.6, operations=(2 * 4096**3, "float16"))
