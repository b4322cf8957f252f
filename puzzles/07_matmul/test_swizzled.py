"""What 07.3, swizzled matmul, is held to."""

from judge.challenge import challenge
from judge.core.verdict import Wrong
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided

puzzle = challenge("swizzled_matmul", input_precision="tf32")

TILE, WINDOW = 32, 64


def two(M, N, K, dtype="float32", make=randn):
    return make(M, K, dtype=dtype), make(K, N, dtype=dtype)


def bytes_in_row_major_order(rows, columns, K, itemsize):
    """Distinct bytes of a and b in a window of programs that take the tiles row by row."""
    starts = range(rows * columns - WINDOW + 1)
    strips = 0
    for start in starts:
        window = range(start, start + WINDOW)
        strips += len({i // columns for i in window}) + len({i % columns for i in window})
    return strips / len(starts) * TILE * K * itemsize


def check_tiles(traffic, M, N):
    tiles = (M // TILE) * (N // TILE)
    if traffic.grid != (tiles, 1, 1):
        raise Wrong(
            f"the grid is {traffic.grid} for {M} x {N}; tiles of {TILE} x {TILE} take "
            f"({tiles}, 1, 1)\nhint: see Tiles in the spec"
        )


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
    last_group_has_fewer_rows=(330, 70, 20),
    last_group_has_fewer_columns=(70, 330, 20),
    fewer_rows_than_a_group=(70, 140, 20),
    tiles_of_another_size=(40, 1025, 20),
    tiles_of_another_size_in_a_column=(1025, 40, 20),
)
def test_masks(M, N, K):
    puzzle.check(*two(M, N, K, make=integers))


def test_masks_transposed_operands():
    puzzle.check(integers(56, 40).T, integers(24, 56).T)


def test_masks_all_strides_differ():
    puzzle.check(strided(integers(37, 50), 2, 3), strided(integers(50, 41), 5, 2))


def test_masks_unaligned():
    puzzle.check(offset(integers(40, 56)), offset(integers(56, 40), 3))


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


def test_masks_more_tiles_than_axis_1_takes():
    a, b = two(1, 1, 1, "float16")
    puzzle.check_grid(a, b.expand(1, 2**24 + 1))
    puzzle.check_grid(a.expand(2**23 + 1, 1), b)


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


def test_traffic():
    # 20 x 32 tiles. In either plain order 64 programs use nearly a whole row or column of them.
    M, N, K = 640, 1024, 32
    rows, columns = M // TILE, N // TILE
    traffic = puzzle.traffic(*two(M, N, K, "float16"))
    traffic.check(reads={"a": columns, "b": rows}, writes=1, launches=1)
    check_tiles(traffic, M, N)
    distinct = traffic.window_bytes(("a", "b"), WINDOW)
    plain = bytes_in_row_major_order(rows, columns, K, itemsize=2)
    if distinct > 0.6 * plain:
        raise Wrong(
            f"{WINDOW} consecutive programs load {distinct:.0f} distinct bytes of a and b on "
            f"average, {distinct / plain:.2f}x of row-major order, the budget is 0.6x\n"
            "hint: which shape of 64 tiles has the fewest rows and columns together? And what do "
            "64 programs load that begin in the middle of such a shape?"
        )


@cases(long_rows_of_a=(64, 96, 1056, "float16"), float32=(64, 96, 32, "float32"))
def test_traffic_tiles(M, N, K, dtype):
    check_tiles(puzzle.traffic(*two(M, N, K, dtype)), M, N)


def test_traffic_transposed_operands():
    puzzle.traffic(randn(40, 64).T, randn(96, 40).T).check(writes=1, launches=1)


def test_traffic_long_sums():
    puzzle.traffic(*two(16, 16, 8192, "float16")).check(writes=1, launches=1)


@dtypes("float16", "float32")
def test_compiles(dtype):
    puzzle.compiles(*two(64, 128, 64, dtype))


def test_compiles_large_tiles():
    puzzle.compiles(*two(16, 1040, 64, "float16"))


def test_compiles_ragged():
    puzzle.compiles(randn(35, 67, dtype="bfloat16").T, randn(35, 33, dtype="bfloat16"))


def test_speedup():
    inputs = two(8192, 8192, 8192, "float16")
    puzzle.race(*inputs, at_least=0.7, operations=(2 * 8192**3, "float16"))
