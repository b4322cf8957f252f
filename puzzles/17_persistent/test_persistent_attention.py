"""What 17.4, persistent attention, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, multiprocessors, offset, randn, strided, tensor

puzzle = challenge("persistent_attention", rounded=True)


def three(B, H, Hkv, S, T, D, dtype="float16"):
    q = randn(B, H, S, D, dtype=dtype)
    return q, randn(B, Hkv, T, D, dtype=dtype), randn(B, Hkv, T, D, dtype=dtype)


@cases(
    single_query_and_key=(1, 1, 1, 1, 1, 16),
    one_query=(1, 2, 2, 1, 70, 32),
    one_key=(1, 2, 2, 70, 1, 32),
    a_head_of_keys_each=(3, 2, 2, 20, 24, 16),
    groups_of_three=(2, 6, 2, 20, 24, 16),
    two_groups_of_two=(2, 4, 2, 24, 20, 16),
    one_head_of_keys=(2, 3, 1, 20, 24, 16),
    fewer_tiles_than_programs=(1, 3, 1, 16, 20, 16),
    one_tile_more_than_programs=(1, multiprocessors() + 1, 1, 16, 20, 16),
    many_tiles_a_program=(multiprocessors() - 1, 10, 5, 16, 20, 16),
    many_tiles_of_many_lengths=(1, 3, 1, 300, 290, 16),
    whole_tiles_of_64=(1, 2, 1, 128, 128, 64),
    widest=(1, 2, 1, 40, 100, 128),
)
def test_shapes(B, H, Hkv, S, T, D):
    inputs = three(B, H, Hkv, S, T, D)
    puzzle.check(*inputs)
    puzzle.check(*inputs, causal=True)


def test_shapes_of_bad_input():
    q, k, v = three(2, 4, 2, 8, 6, 16)
    puzzle.rejects(ValueError, q[0], k, v, naming="q")
    for D in (8, 24, 256):
        puzzle.rejects(ValueError, *three(2, 4, 2, 8, 6, D), naming="q")
    puzzle.rejects(ValueError, q.float(), k.float(), v.float(), naming="q")
    puzzle.rejects(ValueError, q, k[0], v, naming="k")
    puzzle.rejects(ValueError, q, k[:1], v[:1], naming="k")
    puzzle.rejects(ValueError, q[:, :3], k, v, naming="k")
    puzzle.rejects(ValueError, *three(2, 4, 2, 8, 6, 32)[:1], k, v, naming="k")
    puzzle.rejects(ValueError, q, k.bfloat16(), v, naming="k")
    for wrong in (v[:, :, :5], v[..., :8], v[:, :1], v.transpose(1, 2), v.bfloat16()):
        puzzle.rejects(ValueError, q, k, wrong, naming="v")


@cases(
    one_short_of_a_tile=(63, 63),
    one_past_a_tile=(65, 65),
    past_two_tiles=(129, 129),
    more_queries_than_keys=(150, 37),
    more_keys_than_queries=(37, 300),
    keys_end_inside_the_diagonal=(150, 100),
)
def test_masks(S, T):
    inputs = three(1, 2, 1, S, T, 16)
    puzzle.check(*inputs)
    puzzle.check(*inputs, causal=True)


@cases(square=(150, 150), more_queries=(200, 100), more_keys=(100, 200))
def test_masks_later_keys_count_for_nothing(S, T):
    # A key that is too late by one would win against all others.
    q, k, v = three(1, 2, 1, S, T, 16)
    ramp = tensor(range(T))[:, None] / 10
    puzzle.check(q.abs() + 0.5, (k * 0.2 + ramp).half(), v, causal=True)


@cases(d_64=64, d_128=128)
def test_masks_diagonal(D):
    puzzle.check(*three(1, 1, 1, 150, 150, D), causal=True)


def test_masks_keys_past_the_end_count_for_nothing():
    # Every score is far below 0, the score of a key of zeros.
    q, k, v = three(1, 1, 1, 20, 70, 16)
    puzzle.check(q.abs() + 2, -k.abs() - 2, v)
    puzzle.check(q.abs() + 2, -k.abs() - 2, v, causal=True)


def test_masks_scores_to_minus_infinity():
    # Below -1e9, which some take for -inf.
    q, k, v = three(1, 1, 1, 70, 70, 16)
    puzzle.check(q * 0 - 2**14, k * 0 + 2**14, v / 8 + 100, scale=1.0)
    early = (tensor(range(70), "float16") < 60)[:, None]
    puzzle.check(
        q * 0 - 2**14, k * 0 + 2**14 * early, v * 0 + 300 - 200 * early, scale=1.0, causal=True
    )


def test_masks_heads_inside_rows():
    q, k, v = three(2, 20, 24, 4, 4, 16)
    puzzle.check(q.transpose(1, 2), k.transpose(1, 2)[:, :2], v.transpose(1, 2)[:, :2])


def test_masks_transposed():
    q, k, v = (x.mT.contiguous().mT for x in three(2, 2, 2, 40, 50, 32))
    puzzle.check(q, k, v)


def test_masks_every_stride():
    # More than one tile of queries and of keys.
    q, k, v = three(2, 2, 2, 140, 150, 16)
    inputs = strided(q, 2, 1, 3, 2), strided(k, 1, 2, 2, 3), strided(v, 3, 2, 1, 2)
    puzzle.check(*inputs)
    puzzle.check(*inputs, causal=True)


def test_masks_unaligned():
    q, k, v = three(1, 2, 2, 40, 50, 16)
    puzzle.check(offset(q), offset(k, 3), offset(v, 5))


def test_masks_one_head_expanded():
    q, k, v = three(1, 1, 1, 20, 24, 16)
    puzzle.check(q.expand(2, 4, 20, 16), k.expand(2, 2, 24, 16), v.expand(2, 2, 24, 16))


def along(x, dim, *shape):
    """x (N,) along one dimension, and the same all over the others."""
    return x[tuple(slice(None) if d == dim else None for d in range(4))].expand(shape)


@cases(queries=0, keys=1, values=2)
def test_masks_offsets_beyond_32_bits(which):
    for dim, size in enumerate((3, 3, 3, 16)):
        inputs = list(three(3, 3, 3, 3, 3, 16))
        inputs[which] = along(far_apart(randn(size, dtype="float16")), dim, 3, 3, 3, 16)
        puzzle.check(*inputs)


@cases(queries=0, keys=1, values=2)
def test_masks_second_tile_beyond_32_bits(which):
    # 32, 64 or 128 strides are 2**31: one step of a tile of so many rows.
    for size in (33, 65, 129):
        inputs = list(three(1, 1, 1, size, size, 16))
        inputs[which] = along(far_apart(randn(size, dtype="float16")), 2, 1, 1, size, 16)
        puzzle.check(*inputs)


def test_masks_six_multiprocessors():
    # Their number is no power of two on most GPUs.
    with puzzle.multiprocessors(6):
        puzzle.check(*three(1, 13, 1, 16, 20, 16))


def test_masks_result_beyond_32_bits():
    with puzzle.multiprocessors(2**30):
        puzzle.check_large_offsets(
            *(x.expand(512, 513, 64, 128) for x in three(1, 1, 1, 1, 1, 128))
        )


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    inputs = three(1, 2, 1, 70, 150, 64, dtype)
    puzzle.check(*inputs)
    puzzle.check(*inputs, causal=True)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    q, k, v = three(1, 1, 1, 32, 1024, 16, dtype)
    puzzle.check(q, k / 8, v / 4 + 1)


@cases(scores_of_hundreds=1.0, negative_scale=-1.0)
def test_numerics_large_scores(scale):
    q, k, v = three(1, 2, 2, 40, 200, 16)
    puzzle.check(q * 30, k, v, scale)
    puzzle.check(q * 30, k, v, scale, True)


@cases(rising=1.0, falling=-1.0)
def test_numerics_maximum_moves(direction):
    # The maximum grows in every tile, or is in the first one.
    q, k, v = three(1, 1, 1, 20, 300, 16)
    ramp = direction * tensor(range(300))[:, None] / 50
    puzzle.check(q.abs() + 0.5, (k * 0.2 + ramp).half(), v)


def test_numerics_all_scores_far_below_0():
    q, k, v = three(1, 1, 1, 20, 100, 16)
    puzzle.check(q.abs() * 8 + 8, -k.abs() - 2, v)


def test_numerics_range_of_bfloat16():
    # Cast to float16 on the way, q and v are inf and k is 0.
    q, k, v = three(1, 2, 2, 20, 70, 16, "bfloat16")
    puzzle.check(q * 1e6, k * 1e-6, v * 1e6)


@cases(zero=0.0, large=3.0, tiny=1e-4, negative=-0.3)
def test_numerics_scale(scale):
    inputs = three(1, 2, 2, 20, 70, 16)
    puzzle.check(*inputs, scale=scale)
    puzzle.check(*inputs, scale=scale, causal=True)


def test_numerics_default_scale():
    for D in (16, 32, 128):
        puzzle.check(*three(1, 1, 1, 17, 33, D))


def test_numerics_nothing_stays_from_the_tile_before():
    # The first query of each head sees one key, of much smaller scores than the last query's.
    q, k, v = three(2, 2 * multiprocessors(), multiprocessors(), 20, 24, 16)
    ramp = tensor(range(24))[:, None]
    puzzle.check(q.abs() + 0.5, (k * 0.2 + ramp).half(), v, causal=True)


@cases(d_16=(2, 6, 2, 16), d_128=(1, 2, 1, 128))
def test_traffic(B, H, Hkv, D):
    S, T = 128, 256
    tiles = B * H * S // 64
    puzzle.traffic(*three(B, H, Hkv, S, T, D)).check(
        reads={"q": 1, "k": tiles / (B * Hkv), "v": tiles / (B * Hkv)},
        writes=1,
        launches=1,
        sectors=1.1,
        grid_at_most=multiprocessors(),
        total_writes=B * H * S * D + tiles + multiprocessors(),  # the last two: a counter of tiles
        dot_macs=2 * B * H * S * T * D,
    )


def test_traffic_causal():
    S, D = 1024, 16
    tiles = 2 * S // 64
    puzzle.traffic(*three(1, 2, 1, S, S, D), causal=True).check(
        reads={"q": 1, "k": 0.6 * tiles, "v": 0.6 * tiles},
        writes=1,
        launches=1,
        sectors=1.1,
        grid_at_most=multiprocessors(),
        total_writes=2 * S * D + tiles + multiprocessors(),
        dot_macs=0.6 * 2 * 2 * S * S * D,
    )


def test_traffic_one_tile_a_head():
    # Where long tiles go with short ones, this one is its own partner.
    puzzle.traffic(*three(1, 2, 1, 64, 64, 16), causal=True).check(reads={"q": 1}, writes=1)


@cases(d_64=("float16", 64, False), d_128_causal=("bfloat16", 128, True))
def test_compiles(dtype, D, causal):
    puzzle.compiles(*three(1, 2, 1, 128, 128, D, dtype), causal=causal)


def test_compiles_ragged():
    puzzle.compiles(*(x.mT.contiguous().mT for x in three(1, 2, 2, 35, 67, 16)))


def test_speedup():
    B, H, S, D = 1, 16, 4096, 128
    operations = 2 * B * H * S * S * D
    inputs = three(B, H, H, S, S, D)
    puzzle.race(*inputs, causal=True, at_least=4, operations=(operations, "float16"))
