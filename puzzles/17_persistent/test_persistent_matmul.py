"""What 17.2, persistent matmul, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, multiprocessors, offset, randn, strided

puzzle = challenge("persistent_matmul", input_precision="tf32")


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
    fewer_tiles_than_programs=(128, 32, 64),
    single_element=(1, 1, 1),
)
def test_shapes(M, N, K):
    puzzle.check(*two(M, N, K))


def test_shapes_of_bad_input():
    a, b = two(8, 6, 5)
    puzzle.rejects(ValueError, a[0], b, naming="a")
    puzzle.rejects(ValueError, integers(8, 5, dtype="int32"), b, naming="a")
    puzzle.rejects(ValueError, a.double(), b.double(), naming="a")
    puzzle.rejects(ValueError, a, b[:, 0], naming="b")
    puzzle.rejects(ValueError, a, b[:4], naming="b")
    puzzle.rejects(ValueError, a, b.T, naming="b")
    puzzle.rejects(ValueError, a, b.half(), naming="b")


@cases(
    ragged_everywhere=(67, 35, 131),
    inner_size_overruns=(32, 32, 65),
    inner_size_one_short=(32, 32, 63),
    many_tiles_a_program=(83 * multiprocessors() - 2, 520, 20),
    last_group_has_fewer_rows=(600, 330, 20),
    one_row_of_tiles=(20, 1500, 40),
    one_column_of_tiles=(1500, 20, 40),
)
def test_masks(M, N, K):
    puzzle.check(*two(M, N, K, make=integers))


def test_masks_transposed_operands():
    puzzle.check(integers(56, 40).T, integers(24, 56).T)


def test_masks_all_strides_differ():
    puzzle.check(strided(integers(137, 50), 2, 3), strided(integers(50, 241), 5, 2))


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


def test_masks_six_multiprocessors():
    # Their number is no power of two on most GPUs.
    with puzzle.multiprocessors(6):
        puzzle.check(*two(330, 520, 20))


def test_masks_result_beyond_32_bits():
    x = randn(1, 1, dtype="float16")
    with puzzle.multiprocessors(2**30):
        puzzle.check_large_offsets(x.expand(2**16 + 1, 1), x.expand(1, 2**15))


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*two(45, 50, 300, dtype))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    ones = integers(1024, 16, low=1, high=2, dtype=dtype)
    puzzle.check_exactly(climbing(16, 1024, dtype), ones)


def test_numerics_range_of_float32():
    # Rounded to float16 on the way, these are inf.
    a, b = two(20, 24, 70)
    puzzle.check(a * 1e6, b)


@cases(first=0, last=69)
def test_numerics_special_values(k):
    # What one tile holds must not reach the next of the same program.
    a, b = two(300, 270, 70)
    a[3, k], a[5, k], a[7, k] = float("inf"), float("nan"), 0.0
    b[k, 4] = float("-inf")
    puzzle.check(a, b)


@cases(large=(320, 576), small=(128, 128))
def test_traffic(M, N):
    puzzle.traffic(*two(M, N, 64, "float16")).check(
        reads={"a": N // 32, "b": M // 32},
        writes=1,
        launches=1,
        sectors=1.1,
        grid_at_most=multiprocessors(),
    )


@dtypes("float16", "float32")
def test_compiles(dtype):
    puzzle.compiles(*two(64, 128, 64, dtype))


@dtypes("bfloat16", "float32")
def test_compiles_large_tiles(dtype):
    puzzle.compiles(*two(16, 1040, 64, dtype))


def test_compiles_ragged():
    puzzle.compiles(randn(35, 67, dtype="bfloat16").T, randn(35, 33, dtype="bfloat16"))


def test_speedup():
    inputs = two(4096, 4096, 4096, "bfloat16")
    puzzle.race(*inputs, at_least=0.8, operations=(2 * 4096**3, "bfloat16"))
