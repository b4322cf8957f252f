"""What 07.4, batched matmul, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided

puzzle = challenge("batched_matmul", input_precision="tf32")


def two(B, M, N, K, dtype="float32", make=randn):
    return make(B, M, K, dtype=dtype), make(B, K, N, dtype=dtype)


def climbing(M, K, dtype):
    """Rows that sum up to 4096 on their way to a small sum: 16 bits lose odd numbers up there."""
    a = integers(M, K, dtype=dtype)
    a[:, : K // 2] += 8
    a[:, K // 2 :] -= 8
    return a


@cases(
    one_product=(1, 40, 70, 33),
    many_small_products=(9, 1, 1, 5),
    rows=(7, 1, 40, 20),
    columns=(7, 40, 1, 20),
    whole_tiles=(2, 64, 128, 64),
    single_element=(1, 1, 1, 1),
)
def test_shapes(B, M, N, K):
    puzzle.check(*two(B, M, N, K))


def test_shapes_of_bad_input():
    a, b = two(3, 8, 6, 5)
    puzzle.rejects(ValueError, a[0], b, naming="a")
    puzzle.rejects(ValueError, a[None], b, naming="a")
    puzzle.rejects(ValueError, a.double(), b.double(), naming="a")
    puzzle.rejects(ValueError, integers(3, 8, 5, dtype="int32"), b, naming="a")
    puzzle.rejects(ValueError, a, b[0], naming="b")
    puzzle.rejects(ValueError, a, b[..., None], naming="b")
    puzzle.rejects(ValueError, a, b[:, :4], naming="b")
    puzzle.rejects(ValueError, a, b[:2], naming="b")
    puzzle.rejects(ValueError, randn(4, 8, 5), b[:2], naming="b")
    puzzle.rejects(ValueError, a, b.half(), naming="b")


@cases(
    ragged_everywhere=(3, 67, 35, 131),
    several_tiles_each_way=(2, 150, 270, 20),
    inner_size_overruns=(2, 32, 32, 65),
    more_rows_of_tiles=(2, 300, 20, 5),
    more_columns_of_tiles=(2, 20, 600, 5),
)
def test_masks(B, M, N, K):
    puzzle.check(*two(B, M, N, K, make=integers))


def test_masks_one_a_for_all():
    puzzle.check(integers(1, 40, 35), integers(5, 35, 20))


def test_masks_one_b_for_all():
    puzzle.check(integers(5, 40, 35), integers(1, 35, 20))


def test_masks_batch_of_stride_0():
    puzzle.check(integers(1, 40, 35).expand(5, 40, 35), integers(5, 35, 20))


def test_masks_more_products_than_axis_1_takes():
    puzzle.check_grid(*two(65536, 1, 1, 1))


def test_masks_transposed_operands():
    puzzle.check(integers(4, 35, 40).mT, integers(4, 24, 35).mT)


def test_masks_batch_in_the_middle():
    puzzle.check(integers(40, 4, 35).transpose(0, 1), integers(35, 24, 4).permute(2, 0, 1))


def test_masks_all_strides_differ():
    puzzle.check(strided(integers(3, 20, 25), 2, 1, 3), strided(integers(3, 25, 21), 3, 2, 2))


def test_masks_unaligned():
    puzzle.check(offset(integers(3, 40, 56)), offset(integers(3, 56, 40), 3))


def test_masks_offsets_beyond_32_bits():
    far, near = far_apart(integers(3, dtype="float16")), integers(3, dtype="float16")
    puzzle.check(far[:, None, None], near[:, None, None])
    puzzle.check(near[:, None, None], far[:, None, None])
    puzzle.check(far[None, :, None], near[None, None, :])
    puzzle.check(near[None, :, None], far[None, None, :])
    puzzle.check(far[None, None, :], near[None, :, None])
    puzzle.check(near[None, None, :], far[None, :, None])


def test_masks_steps_beyond_32_bits():
    # Only a stride times the length of a step overflows: 65 is one past the first step.
    far, near = far_apart(integers(65, dtype="float16")), integers(65, dtype="float16")
    puzzle.check(far[None, None, :], near[None, :, None])
    puzzle.check(near[None, None, :], far[None, :, None])


def test_masks_result_beyond_32_bits():
    a, b = two(1, 1, 1, 16, "float16")
    puzzle.check_large_offsets(a.expand(2**15 + 1, 256, 16), b.expand(2**15 + 1, 16, 256))
    puzzle.check_large_offsets(a.expand(1, 2**16, 16), b.expand(1, 16, 2**15 + 1))


@cases(rows=(2**23 + 1, 1), columns=(1, 2**24 + 1))
def test_masks_more_tiles_than_axis_1_takes(M, N):
    a, b = two(1, 1, 1, 1, "float16")
    puzzle.check_grid(a.expand(1, M, 1), b.expand(1, 1, N))


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*two(3, 33, 40, 200, dtype))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    ones = integers(1, 1024, 16, low=1, high=2, dtype=dtype)
    puzzle.check_exactly(climbing(16, 1024, dtype)[None], ones)


@dtypes("bfloat16", "float32")
def test_numerics_range_of_float32(dtype):
    # Rounded to float16 on the way, these are inf.
    a, b = two(2, 20, 24, 70, dtype)
    puzzle.check(a * 1e6, b)


def test_numerics_nan_stays_in_its_product():
    a, b = two(3, 20, 24, 30)
    a[1, 3, 7], b[2, 5, 6] = float("nan"), float("inf")
    puzzle.check(a, b)


def test_traffic():
    M, N = 64, 128
    puzzle.traffic(*two(2, M, N, 64, "float16")).check(
        reads={"a": N // 32, "b": M // 32}, writes=1, launches=1, sectors=1.1
    )


def test_traffic_one_a_for_all():
    M, N, B = 64, 128, 3
    a, b = randn(1, M, 32, dtype="float16"), randn(B, 32, N, dtype="float16")
    puzzle.traffic(a, b).check(reads={"a": B * (N // 32), "b": M // 32}, writes=1, launches=1)


def test_traffic_transposed_operands():
    M, N = 64, 96
    puzzle.traffic(randn(2, 40, M).mT, randn(2, N, 40).mT).check(
        reads={"a": N // 32, "b": M // 32}, writes=1, launches=1
    )


def test_traffic_long_sums():
    puzzle.traffic(*two(1, 16, 16, 8192, "float16")).check(writes=1, launches=1)


@dtypes("float16", "float32")
def test_compiles(dtype):
    puzzle.compiles(*two(2, 64, 128, 64, dtype))


def test_compiles_broadcast():
    puzzle.compiles(randn(1, 35, 67, dtype="bfloat16").mT, randn(3, 35, 33, dtype="bfloat16"))


def test_speedup():
    inputs = two(32, 2048, 2048, 2048, "float16")
    puzzle.race(*inputs, at_least=0.6, operations=(32 * 2 * 2048**3, "float16"))
