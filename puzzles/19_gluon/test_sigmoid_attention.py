"""Tests of 19.6, sigmoid attention."""

from course.challenge import broken_rule, challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("sigmoid_attention", rounded=True, capability=(9, 0), names_causes=False)


def three(H, S, T, D, dtype="float16", make=randn):
    """q, k, v."""
    return tuple(make(H, size, D, dtype=dtype) for size in (S, T, T))


@cases(d_64=("float16", 64), d_128=("bfloat16", 128))
def test_compiles(dtype, D):
    asked = ["TMA loads", "mbarriers", "wgmma", "wgmma in flight"]
    asked.append("overlap of most exponentials with wgmma")
    puzzle.compiles(*three(16, 4096, 4096, D, dtype), targets=["sm_90"], asked=asked, spills=0)


@cases(
    many_blocks=(1, 128, 1100, 64),
    many_tiles=(3, 300, 200, 64),
    widest=(1, 200, 700, 128),
    single_query_and_key=(1, 1, 1, 64),
)
def test_shapes(H, S, T, D):
    puzzle.check(*three(H, S, T, D))


@cases(one_short=(127, 127), one_past=(129, 129), more_queries=(300, 70), more_keys=(70, 300))
def test_masks(S, T):
    puzzle.check(*three(1, S, T, 64))


@cases(**{f"many_rounds_{number}": number for number in range(6)})
def test_masks_other_orders(number):
    # Another case runs in another order: copies land, and products end, at other times.
    puzzle.check(*three(2, 130 + number, 900, 64))


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    q, k, v = three(2, 70, 300, 64, dtype)
    puzzle.check(q * 3, k, v)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    q, k, v = three(1, 16, 1024, 64, dtype)
    puzzle.check(q, k / 8, v / 4 + 1)


def test_numerics_every_weight_counts():
    q, k, v = three(1, 40, 600, 64, make=integers)
    puzzle.check(q * 0, k, v)


def test_traffic():
    H, S, T, D = 2, 256, 512, 64
    traffic = puzzle.traffic(*three(H, S, T, D))
    keys = S / 64
    traffic.check(reads={"q": 1, "k": keys, "v": keys}, writes=1, launches=1, sectors=1.1)
    traffic.check(total_writes=H * S * D, dot_macs=2 * H * S * T * D)
    if not traffic.ahead:
        raise broken_rule("no copy is under way while a product is computed")


def test_speedup():
    inputs = three(16, 4096, 4096, 128, "bfloat16")
    puzzle.race(*inputs, at_least=2, operations=(4 * 16 * 4096**2 * 128, "bfloat16"))
