"""Tests of 07.3, swizzled matmul."""

from course.challenge import broken_rule, challenge
from course.inputs import cases, climbing, dtypes, integers, matrices, strided

puzzle = challenge("swizzled_matmul", input_precision="tf32")

TILE, WINDOW = 32, 64


def bytes_in_row_major_order(rows, columns, K, itemsize):
    """Distinct bytes of a and b in a window of programs that take the tiles row by row."""
    starts = range(rows * columns - WINDOW + 1)
    strips = 0
    for start in starts:
        window = range(start, start + WINDOW)
        strips += len({i // columns for i in window}) + len({i % columns for i in window})
    return strips / len(starts) * TILE * K * itemsize


@cases(one_tile=(32, 32, 32), one_row=(1, 70, 40), one_column=(70, 1, 40), single_element=(1, 1, 1))
def test_shapes(M, N, K):
    puzzle.check(*matrices(M, N, K, make=integers))


@cases(
    ragged_everywhere=(67, 35, 131),
    fewer_rows_than_a_group=(70, 140, 20),
    last_group_has_fewer_rows=(330, 70, 20),
    last_group_has_fewer_columns=(70, 330, 20),
    large_tiles_in_a_row=(40, 1025, 20),
    large_tiles_in_a_column=(1025, 40, 20),
)
def test_masks(M, N, K):
    puzzle.check(*matrices(M, N, K, make=integers))


def test_masks_any_strides():
    puzzle.check(integers(56, 40).T, strided(integers(56, 24), 5, 2))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*matrices(45, 50, 300, dtype))


@dtypes("float16", "bfloat16", "float32")
def test_numerics_sums_in_float32(dtype):
    ones = integers(1024, 16, low=1, high=2, dtype=dtype)
    puzzle.check_exactly(climbing(16, 1024, dtype), ones)


def test_traffic():
    # Row by row, 64 programs need all 32 columns of tiles; column by column, all 20 rows.
    M, N, K = 640, 1024, 16
    rows, columns = M // TILE, N // TILE
    traffic = puzzle.traffic(*matrices(M, N, K, "float16"))
    traffic.check(reads={"a": columns, "b": rows}, writes=1, launches=1)
    if traffic.grid != (rows * columns, 1, 1):
        raise broken_rule(
            f"the grid is {traffic.grid} for {M} x {N}; tiles of {TILE} x {TILE} take "
            f"({rows * columns}, 1, 1)",
            "see Tiles in the spec",
        )
    distinct = traffic.window_bytes(("a", "b"), WINDOW)
    plain = bytes_in_row_major_order(rows, columns, K, itemsize=2)
    if distinct > 0.6 * plain:
        raise broken_rule(
            f"{WINDOW} consecutive programs load {distinct:.0f} distinct bytes of a and b on "
            f"average, {distinct / plain:.2f}x of row-major order, the budget is 0.6x",
            "which shape of 64 tiles has the fewest rows and columns together? And what do "
            "64 programs load that begin in the middle of such a shape?",
        )


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*matrices(16, 1040, 64, dtype))


def test_speedup():
    inputs = matrices(8192, 8192, 8192, "float16")
    puzzle.race(*inputs, at_least=0.3, operations=(2 * 8192**3, "float16"))
