"""Tests of 19.6, sigmoid attention, in production."""

from torch.nn import functional

from course.challenge import challenge
from course.inputs import HALVES, cases, dtypes, integers, offset, randn, strided
from course.values import special_values

puzzle = challenge("sigmoid_attention", rounded=True, capability=(9, 0), names_causes=False)


def three(H, S, T, D, dtype="float16", make=randn):
    """q, k, v."""
    return tuple(make(H, size, D, dtype=dtype) for size in (S, T, T))


# Bad input: the error that the spec names, or the right answer.


def test_shapes_q_has_four_dimensions():
    q, k, v = three(2, 8, 6, 64)
    puzzle.check_or_raises(q[None], k, v, names="q")


@cases(smaller=32, no_power_of_2=72, larger=256)
def test_shapes_q_of_another_width(D):
    puzzle.check_or_raises(*three(2, 8, 6, D), names="q")


@dtypes("float32", "float64")
def test_shapes_q_of_another_dtype(dtype):
    puzzle.check_or_raises(*three(2, 8, 6, 64, dtype), names="q")


def test_shapes_k_does_not_fit_q():
    q, k, v = three(2, 8, 6, 64)
    puzzle.check_or_raises(q, k[0], v, names="k")
    puzzle.check_or_raises(q, k[:1], v[:1], names="k")
    puzzle.check_or_raises(three(2, 8, 6, 128)[0], k, v, names="k")
    puzzle.check_or_raises(q, k.bfloat16(), v, names="k")


def test_shapes_v_does_not_fit_k():
    q, k, v = three(2, 8, 6, 128)
    for wrong in (v[:, :5], v[..., :64], v[:1], v.transpose(0, 1), v.bfloat16()):
        puzzle.check_or_raises(q, k, wrong, names="v")


# Any size and layout.


@cases(
    many_rounds_at_the_widest=(2, 130, 1000, 128),
    one_key=(2, 150, 1, 64),
    one_query=(3, 1, 400, 128),
)
def test_shapes(H, S, T, D):
    puzzle.check(*three(H, S, T, D))


@cases(past_two_tiles=(257, 257), whole_tiles=(256, 384))
def test_masks(S, T):
    puzzle.check(*three(2, S, T, 64))


def test_masks_heads_inside_rows():
    puzzle.check(*(x.transpose(0, 1) for x in three(140, 3, 3, 64)))


def test_masks_parts_of_larger_tensors():
    q, k, v = three(5, 200, 300, 128)
    puzzle.check(q[1:, 7:147, 64:], k[1:, 9:, :64], v[:4, :291, 8:72])


def test_masks_unaligned_by_whole_16_bytes():
    q, k, v = three(2, 140, 150, 64)
    puzzle.check(offset(q, 8), offset(k, 16), offset(v, 24))


@cases(
    transposed=lambda x: x.mT.contiguous().mT,
    not_aligned=lambda x: offset(x, 4),
    gaps_in_the_rows=lambda x: strided(x, 1, 1, 2),
    rows=lambda x: functional.pad(x, (0, 4))[..., :64],
    one_head_expanded=lambda x: x[:1].expand(x.shape),
)
def test_masks_what_tma_cannot_address(change):
    inputs = three(2, 40, 40, 64)
    for number, name in enumerate("qkv"):
        changed = list(inputs)
        changed[number] = change(inputs[number])
        puzzle.check_or_raises(*changed, names=name)


def test_masks_limits():
    def build(H, S, T):
        q, k, v = three(H, S, T, 64)
        # Only the last key counts.
        k[..., :-1, :] = -100
        k[..., -1, :] = 100
        return q.abs() + 1, k, v

    puzzle.limits(build, dtypes=HALVES, H=2**17, S=2**14, T=2**14)


@cases(**{f"many_rounds_{number}": number for number in range(12)})
def test_masks_other_orders(number):
    puzzle.check(*three(2, 130 + number, 900, 64))


# Any value.


def test_numerics_large_scores():
    q, k, v = three(2, 40, 300, 64)
    puzzle.check(q * 100, k, v)


@cases(far_above=1, far_below=-1)
def test_numerics_all_scores_on_one_side(sign):
    q, k, v = three(1, 20, 200, 64)
    puzzle.check(q.abs() * 8 + 8, sign * (k.abs() + 2), v)


def test_numerics_range_of_bfloat16():
    # Cast to float16 on the way, q and v are inf and k is 0.
    q, k, v = three(2, 20, 140, 64, "bfloat16")
    puzzle.check(q * 1e6, k * 1e-6, v * 1e6)


def test_numerics_every_weight_counts():
    q, k, v = three(2, 140, 1300, 64, make=integers)
    puzzle.check(q * 0, k, v)


test_numerics_each_special_value = special_values(puzzle, lambda: three(2, 70, 150, 64), "q k v")


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_widest():
    H, S, T, D = 1, 128, 256, 128
    puzzle.traffic(*three(H, S, T, D)).check(
        reads={"q": 1, "k": S / 64, "v": S / 64},
        writes=1,
        launches=1,
        sectors=1.1,
        total_writes=H * S * D,
        dot_macs=2 * H * S * T * D,
    )


@cases(small=(2, 64, 128, 64), ragged=(3, 67, 133, 128), long=(2, 1024, 1024, 64))
def test_compiles(H, S, T, D):
    asked = ["TMA loads", "wgmma in flight", "overlap of most exponentials with wgmma"]
    inputs = three(H, S, T, D, "bfloat16")
    puzzle.compiles(*inputs, targets=["sm_90"], asked=asked, spills=0)


@cases(d_64=64, d_128=128)
def test_speedup(D):
    inputs = three(16, 4096, 4096, D, "bfloat16")
    operations = (4 * 16 * 4096**2 * D, "bfloat16")
    puzzle.race(*inputs, at_least=0.9, baseline="solution", operations=operations)
