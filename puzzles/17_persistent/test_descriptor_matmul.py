"""What 17.3, descriptor matmul, is held to."""

from judge.challenge import challenge
from judge.core.verdict import Wrong
from judge.inputs import cases, dtypes, integers, multiprocessors, offset, randn, strided

puzzle = challenge("descriptor_matmul", input_precision="tf32")


def two(M, N, K, dtype="float32", make=randn):
    return make(M, K, dtype=dtype), make(K, N, dtype=dtype)


def climbing(M, K, dtype):
    """Rows that sum up to 4096 on their way to a small sum: 16 bits lose odd numbers up there."""
    a = integers(M, K, dtype=dtype)
    a[:, : K // 2] += 8
    a[:, K // 2 :] -= 8
    return a


def right_or_rejected(*inputs, naming):
    """What TMA cannot address gives the right answer all the same, or ValueError."""
    try:
        puzzle.check(*inputs)
    except Wrong as wrong:
        if not isinstance(wrong.__cause__, (ValueError, AssertionError)):
            raise
        puzzle.rejects(ValueError, *inputs, naming=naming)


@cases(
    one_row=(1, 72, 40),
    fewest_columns=(70, 4, 40),
    shortest_inner_size=(40, 72, 4),
    fewer_tiles_than_programs=(128, 32, 64),
    smallest=(1, 4, 4),
)
def test_shapes(M, N, K):
    puzzle.check(*two(M, N, K))


def test_shapes_of_bad_input():
    a, b = two(8, 8, 4)
    puzzle.rejects(ValueError, a[0], b, naming="a")
    puzzle.rejects(ValueError, integers(8, 4, dtype="int32"), b, naming="a")
    puzzle.rejects(ValueError, a.double(), b.double(), naming="a")
    puzzle.rejects(ValueError, a, b[:, 0], naming="b")
    puzzle.rejects(ValueError, a, b[:3], naming="b")
    puzzle.rejects(ValueError, a, b.T, naming="b")
    puzzle.rejects(ValueError, a, b.half(), naming="b")


@cases(
    ragged_everywhere=(67, 36, 132),
    inner_size_overruns=(32, 32, 68),
    inner_size_one_short=(32, 32, 60),
    many_tiles_a_program=(83 * multiprocessors() - 2, 520, 20),
    last_group_has_fewer_rows=(600, 332, 20),
    one_row_of_tiles=(20, 1500, 40),
    one_column_of_tiles=(1500, 20, 40),
)
def test_masks(M, N, K):
    puzzle.check(*two(M, N, K, make=integers))


def test_masks_rows_of_larger_matrices():
    a, b = integers(50, 96)[:, :40], integers(60, 128)[8:48, 16:86]
    puzzle.check(a, b[:, :68])


def test_masks_unaligned_by_whole_16_bytes():
    puzzle.check(offset(integers(40, 56), 4), offset(integers(56, 40), 8))


@cases(
    a_transposed=(lambda a, b: (a.T.contiguous().T, b), "a"),
    b_transposed=(lambda a, b: (a, b.T.contiguous().T), "b"),
    a_not_aligned=(lambda a, b: (offset(a), b), "a"),
    b_not_aligned=(lambda a, b: (a, offset(b, 3)), "b"),
    gaps_in_the_rows_of_a=(lambda a, b: (strided(a, 1, 2), b), "a"),
    gaps_in_the_rows_of_b=(lambda a, b: (a, strided(b, 1, 4)), "b"),
    one_row_repeated=(lambda a, b: (a[:1].expand(a.shape), b), "a"),
    rows_of_b_overlap=(lambda a, b: (a, integers(336).as_strided((72, 48), (4, 1))), "b"),
    one_column_repeated=(lambda a, b: (a, b[:, :1].expand(b.shape)), "b"),
    odd_rows_of_a=(lambda a, b: (integers(40, 71), b[:71]), "a"),
    odd_rows_of_b=(lambda a, b: (a, integers(72, 47)), "b"),
    odd_rows_of_c=(lambda a, b: (a, integers(47, 72).T), "b"),
)
def test_masks_what_tma_cannot_address(change, naming):
    right_or_rejected(*change(*two(40, 48, 72, make=integers)), naming=naming)


@cases(
    a_not_aligned=(lambda a, b: (offset(a, 4), b), "a"),
    b_not_aligned=(lambda a, b: (a, offset(b, 4)), "b"),
    rows_of_a=(lambda a, b: (a[:, :68].contiguous(), b[:68]), "a"),
    rows_of_b=(lambda a, b: (a, b[:, :44].contiguous()), "b"),
    rows_of_c=(lambda a, b: (a, b.T.contiguous()[:44].T), "b"),
)
def test_masks_what_tma_cannot_address_in_16_bits(change, naming):
    right_or_rejected(*change(*two(40, 48, 72, "float16", make=integers)), naming=naming)


def test_masks_six_multiprocessors():
    # Their number is no power of two on most GPUs.
    with puzzle.multiprocessors(6):
        puzzle.check(*two(330, 520, 24))


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*two(45, 56, 304, dtype))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    ones = integers(1024, 16, low=1, high=2, dtype=dtype)
    puzzle.check_exactly(climbing(16, 1024, dtype), ones)


def test_numerics_range_of_float32():
    # Rounded to float16 on the way, these are inf.
    a, b = two(20, 24, 72)
    puzzle.check(a * 1e6, b)


@cases(first=0, last=71)
def test_numerics_special_values(k):
    # What one tile holds must not reach the next of the same program.
    a, b = two(300, 272, 72)
    a[3, k], a[5, k], a[7, k] = float("inf"), float("nan"), 0.0
    b[k, 4] = float("-inf")
    puzzle.check(a, b)


@cases(large=(320, 576), small=(128, 128))
def test_traffic(M, N):
    traffic = puzzle.traffic(*two(M, N, 64, "float16"))
    traffic.check(
        reads={"a": N // 32, "b": M // 32},
        writes=1,
        launches=1,
        sectors=1.1,
        grid_at_most=multiprocessors(),
    )
    for name in ("a", "b", "result"):
        moved = traffic.tensor(name)
        for number in (*moved.loaded.lines, *moved.stored.lines):
            site = traffic.sites[number]
            if site.call("load", "store").startswith(("tl.load(", "tl.store(")):
                raise Wrong(
                    f"{site.describe('load', 'store')}  is not by a descriptor\n"
                    "hint: make a TensorDescriptor in the launcher, and use its .load and .store"
                )


@dtypes("float16", "float32")
def test_compiles(dtype):
    puzzle.compiles(*two(64, 128, 64, dtype))


@dtypes("bfloat16", "float32")
def test_compiles_large_tiles(dtype):
    puzzle.compiles(*two(16, 1040, 64, dtype))


def test_compiles_ragged():
    puzzle.compiles(*two(67, 40, 40, "bfloat16"))


def test_speedup():
    inputs = two(4096, 4096, 4096, "bfloat16")
    puzzle.race(*inputs, at_least=0.9, operations=(2 * 4096**3, "bfloat16"))
