"""Tests of 19.4, Gluon matmul."""

from course.challenge import broken_rule, challenge
from course.inputs import cases, climbing, dtypes, integers, matrices

puzzle = challenge("gluon_matmul", capability=(9, 0))
INF, NAN = float("inf"), float("nan")


@cases(
    many_steps=(64, 64, 1024),
    one_step=(64, 64, 64),
    one_row=(1, 72, 40),
    fewest_columns=(70, 8, 40),
    smallest=(1, 8, 8),
)
def test_shapes(M, N, K):
    puzzle.check(*matrices(M, N, K, "float16"))


@cases(
    ragged_everywhere=(67, 40, 136),
    inner_size_overruns=(32, 32, 520),
    inner_size_one_short=(32, 32, 504),
    many_tiles=(600, 520, 72),
    one_row_of_tiles=(20, 1504, 40),
    one_column_of_tiles=(1500, 24, 40),
)
def test_masks(M, N, K):
    puzzle.check(*matrices(M, N, K, "float16", make=integers))


@cases(**{f"many_rounds_{number}": number for number in range(6)})
def test_masks_other_orders(number):
    # Another case runs in another order: copies land, and products end, at other times.
    puzzle.check(*matrices(40 + number, 136, 1000, "float16", make=integers))


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*matrices(45, 56, 304, dtype))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    ones = integers(1024, 16, low=1, high=2, dtype=dtype)
    puzzle.check_exactly(climbing(16, 1024, dtype), ones)


def test_numerics_special_values_stay_in_their_row():
    a, b = matrices(300, 272, 72, "float16")
    a[3, 0], a[5, 71] = INF, NAN
    puzzle.check(a, b)


@cases(large=(640, 576), small=(128, 128))
def test_traffic(M, N):
    traffic = puzzle.traffic(*matrices(M, N, 192, "float16"))
    traffic.check(reads={"a": N // 64, "b": M // 64}, writes=1, launches=1, sectors=1.1)


def test_traffic_tiles_come_ahead():
    if not puzzle.traffic(*matrices(64, 64, 1024, "float16")).ahead:
        raise broken_rule(
            "no copy is under way while a product is computed: tiles are fetched when needed",
            "start the copies of a later step into another slot before you wait for this product",
        )


@dtypes("float16", "bfloat16")
def test_compiles(dtype):
    asked = ["TMA loads", "mbarriers", "wgmma", "wgmma in flight"]
    puzzle.compiles(*matrices(4096, 4096, 4096, dtype), targets=["sm_90"], asked=asked, spills=0)


def test_speedup():
    inputs = matrices(4096, 4096, 4096, "bfloat16")
    puzzle.race(*inputs, at_least=0.3, operations=(2 * 4096**3, "bfloat16"))
