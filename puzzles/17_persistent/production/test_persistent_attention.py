"""Tests of 17.4, persistent attention, in production."""

from course.challenge import challenge
from course.inputs import (
    HALVES,
    along,
    cases,
    dtypes,
    far_apart,
    heads,
    last_key_wins,
    multiprocessors,
    offset,
    randn,
    rising_scores,
    strided,
    tensor,
)
from course.values import FUSED_SCORES, special_values

puzzle = challenge("persistent_attention", rounded=True)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_q_has_no_heads():
    q, k, v = heads(2, 4, 2, 8, 6, 16)
    puzzle.check_or_raises(q[0], k, v, names="q")


@cases(smaller=8, no_power_of_2=24, larger=256)
def test_shapes_q_of_another_width(D):
    puzzle.check_or_raises(*heads(2, 4, 2, 8, 6, D), names="q")


@dtypes("float32", "float64")
def test_shapes_q_of_another_dtype(dtype):
    puzzle.check_or_raises(*heads(2, 4, 2, 8, 6, 16, dtype), names="q")


def test_shapes_k_does_not_fit_q():
    q, k, v = heads(2, 4, 2, 8, 6, 16)
    puzzle.check_or_raises(q, k[0], v, names="k")
    puzzle.check_or_raises(q, k[:1], v[:1], names="k")
    puzzle.check_or_raises(q[:, :3], k, v, names="k")
    puzzle.check_or_raises(heads(2, 4, 2, 8, 6, 32)[0], k, v, names="k")
    puzzle.check_or_raises(q, k.bfloat16(), v, names="k")


def test_shapes_v_does_not_fit_k():
    q, k, v = heads(2, 4, 2, 8, 6, 16)
    for wrong in (v[:, :, :5], v[..., :8], v[:, :1], v.transpose(1, 2), v.bfloat16()):
        puzzle.check_or_raises(q, k, wrong, names="v")


# Any size and layout.


@cases(
    one_head_of_keys=(2, 3, 1, 20, 24, 16),
    widest=(1, 2, 1, 40, 100, 128),
    two_groups_of_two=(2, 4, 2, 24, 20, 16),
    more_tiles_of_keys=(1, 3, 1, 300, 290, 16),
    whole_tiles_of_64=(1, 2, 1, 128, 128, 64),
)
def test_shapes(B, H, Hkv, S, T, D):
    inputs = heads(B, H, Hkv, S, T, D)
    puzzle.check(*inputs)
    puzzle.check(*inputs, causal=True)


@cases(past_two_tiles=(129, 129), keys_end_inside_the_diagonal=(150, 100))
def test_masks(S, T):
    inputs = heads(1, 2, 1, S, T, 16)
    puzzle.check(*inputs)
    puzzle.check(*inputs, causal=True)


@cases(more_queries=(200, 100), more_keys=(100, 200))
def test_masks_later_keys_count_for_nothing(S, T):
    # A key that is too late by one would win against all others.
    q, k, v = heads(1, 2, 1, S, T, 16)
    ramp = tensor(range(T), "float16")[:, None] / 10
    puzzle.check(q.abs() + 0.5, k / 5 + ramp, v, causal=True)


@cases(d_64=64, d_128=128)
def test_masks_diagonal(D):
    puzzle.check(*heads(1, 1, 1, 150, 150, D), causal=True)


def test_masks_keys_past_the_end_count_for_nothing_if_causal():
    q, k, v = heads(1, 1, 1, 20, 70, 16)
    puzzle.check(q.abs() + 2, -k.abs() - 2, v, causal=True)


def test_masks_heads_inside_rows():
    q, k, v = heads(2, 20, 24, 4, 4, 16)
    puzzle.check(q.transpose(1, 2), k.transpose(1, 2)[:, :2], v.transpose(1, 2)[:, :2])


def test_masks_transposed():
    q, k, v = (x.mT.contiguous().mT for x in heads(2, 2, 2, 40, 50, 32))
    puzzle.check(q, k, v)


def test_masks_every_stride():
    # More than one tile of queries and of keys.
    q, k, v = heads(2, 2, 2, 140, 150, 16)
    inputs = strided(q, 2, 1, 3, 2), strided(k, 1, 2, 2, 3), strided(v, 3, 2, 1, 2)
    puzzle.check(*inputs)
    puzzle.check(*inputs, causal=True)


def test_masks_unaligned():
    q, k, v = heads(1, 2, 2, 40, 50, 16)
    puzzle.check(offset(q), offset(k, 3), offset(v, 5))


def test_masks_one_head_expanded():
    q, k, v = heads(1, 1, 1, 20, 24, 16)
    puzzle.check(q.expand(2, 4, 20, 16), k.expand(2, 2, 24, 16), v.expand(2, 2, 24, 16))


@cases(all_keys=(False, 520, 517), causal=(True, 517, 520))
def test_masks_large(causal, S, T):
    # Where a kernel may load in another way.
    puzzle.check(*heads(1, 4, 2, S, T, 64), causal=causal)


@cases(queries=0, keys=1, values=2)
def test_masks_offsets_beyond_32_bits(which):
    for dim, size in enumerate((3, 3, 3, 16)):
        inputs = list(heads(3, 3, 3, 3, 3, 16))
        inputs[which] = along(far_apart(randn(size, dtype="float16")), dim, 3, 3, 3, 16)
        puzzle.check(*inputs)


@cases(queries=0, keys=1, values=2)
def test_masks_second_tile_beyond_32_bits(which):
    # 32, 64 or 128 strides are 2**31: one step of a tile of so many rows.
    for size in (33, 65, 129):
        inputs = list(heads(1, 1, 1, size, size, 16))
        inputs[which] = along(far_apart(randn(size, dtype="float16")), 2, 1, 1, size, 16)
        puzzle.check(*inputs)


def test_masks_result_beyond_32_bits():
    with puzzle.given(multiprocessors=2**30):
        puzzle.check_large_offsets(
            *(x.expand(512, 513, 64, 128) for x in heads(1, 1, 1, 1, 1, 128))
        )


# Any value.


def test_masks_scores_to_minus_infinity():
    # Below -1e9, which some take for -inf.
    q, k, v = heads(1, 1, 1, 70, 70, 16)
    puzzle.check(q * 0 - 2**14, k * 0 + 2**14, v / 8 + 100, scale=1.0)
    early = (tensor(range(70), "float16") < 60)[:, None]
    puzzle.check(
        q * 0 - 2**14, k * 0 + 2**14 * early, v * 0 + 300 - 200 * early, scale=1.0, causal=True
    )


def test_masks_limits():
    puzzle.limits(
        lambda B, Hkv, group, S, T: last_key_wins(*heads(B, Hkv * group, Hkv, S, T, 16)),
        dtypes=HALVES,
        B=2**17,
        Hkv=2**14,
        group=2**12,
        S=2**14,
        T=2**14,
    )


@dtypes("float16", "bfloat16")
def test_numerics_without_a_mask(dtype):
    puzzle.check(*heads(1, 2, 1, 70, 150, 64, dtype))


@cases(scores_of_hundreds=1.0, negative_scale=-1.0)
def test_numerics_large_scores(scale):
    q, k, v = heads(1, 2, 2, 40, 200, 16)
    puzzle.check(q * 30, k, v, scale)
    puzzle.check(q * 30, k, v, scale, True)


@cases(from_tile_to_tile=0.02, never_after_the_first_tile=-0.02)
def test_numerics_maximum_moves(slope):
    q, k, v = heads(1, 1, 1, 16, 300, 16)
    puzzle.check(*rising_scores(q, k, slope), v)


def test_numerics_all_scores_far_below_0():
    q, k, v = heads(1, 1, 1, 20, 100, 16)
    puzzle.check(q.abs() * 8 + 8, -k.abs() - 2, v)


def test_numerics_range_of_bfloat16():
    # Cast to float16 on the way, q and v are inf and k is 0.
    q, k, v = heads(1, 2, 2, 20, 70, 16, "bfloat16")
    puzzle.check(q * 1e6, k * 1e-6, v * 1e6)


@cases(zero=0.0, large=3.0, tiny=1e-4, negative=-0.3)
def test_numerics_scale(scale):
    inputs = heads(1, 2, 2, 20, 70, 16)
    puzzle.check(*inputs, scale=scale)
    puzzle.check(*inputs, scale=scale, causal=True)


@cases(d_16=16, d_32=32, d_128=128)
def test_numerics_default_scale(D):
    puzzle.check(*heads(1, 1, 1, 17, 33, D))


test_numerics_each_special_value = special_values(
    puzzle, lambda: heads(1, 2, 1, 70, 150, 64), "q k v", apart=FUSED_SCORES
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(d_16=(2, 6, 2, 16), d_128=(1, 2, 1, 128))
def test_traffic(B, H, Hkv, D):
    S, T = 128, 256
    tiles = B * H * S // 64
    puzzle.traffic(*heads(B, H, Hkv, S, T, D)).check(
        reads={"q": 1, "k": tiles / (B * Hkv), "v": tiles / (B * Hkv)},
        writes=1,
        launches=1,
        sectors=1.1,
        grid_at_most=4 * multiprocessors(),
        # The last two: a counter of tiles.
        total_writes=B * H * S * D + tiles + 4 * multiprocessors(),
        dot_macs=2 * B * H * S * T * D,
    )


def test_traffic_one_tile_a_head():
    # Where long tiles go with short ones, this one is its own partner.
    inputs = heads(1, 4 * multiprocessors() + 1, 1, 64, 64, 16)
    puzzle.traffic(*inputs, causal=True).check(reads={"q": 1}, writes=1)


def test_compiles_d_128():
    puzzle.compiles(*heads(1, 2, 1, 128, 128, 128))


def test_compiles_ragged_and_transposed():
    puzzle.compiles(*(x.mT.contiguous().mT for x in heads(1, 2, 2, 35, 67, 16)))


def test_compiles_large():
    puzzle.compiles(*heads(1, 2, 1, 520, 520, 128), causal=True)


def test_speedup():
    B, H, S, D = 1, 16, 4096, 128
    inputs = heads(B, H, H, S, S, D)
    operations = (2 * B * H * S * S * D, "float16")
    puzzle.race(*inputs, causal=True, at_least=0.9, baseline="solution", operations=operations)
