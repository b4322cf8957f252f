"""What 13.2, FlashAttention, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor

puzzle = challenge("flash_attention", results=("out", "lse"), rounded=True)


def three(B, H, Hkv, S, T, D, dtype="float16"):
    q = randn(B, H, S, D, dtype=dtype)
    return q, randn(B, Hkv, T, D, dtype=dtype), randn(B, Hkv, T, D, dtype=dtype)


@cases(
    single_query_and_key=(1, 1, 1, 1, 1, 16),
    one_query=(1, 2, 2, 1, 70, 32),
    one_key=(1, 2, 2, 70, 1, 32),
    batches_and_heads=(3, 2, 2, 20, 24, 16),
    grouped_heads=(2, 6, 2, 20, 24, 16),
    one_head_of_keys=(2, 3, 1, 20, 24, 16),
    grouped_heads_of_many_tiles=(1, 4, 2, 70, 150, 16),
    whole_tiles_of_64=(1, 1, 1, 128, 128, 64),
    widest=(1, 1, 1, 40, 100, 128),
)
def test_shapes(B, H, Hkv, S, T, D):
    puzzle.check(*three(B, H, Hkv, S, T, D))


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
    for bad in (v[:, :1], v[:, :, :5], v[..., :8], v.transpose(1, 2)):
        puzzle.rejects(ValueError, q, k, bad, naming="v")
    puzzle.rejects(ValueError, q, k, v.bfloat16(), naming="v")


@cases(
    one_short_of_a_tile=(63, 63),
    one_past_a_tile=(65, 65),
    past_two_tiles=(129, 129),
    more_queries_than_keys=(150, 37),
    more_keys_than_queries=(37, 300),
)
def test_masks(S, T):
    puzzle.check(*three(1, 2, 1, S, T, 16))


def test_masks_keys_past_the_end_count_for_nothing():
    # Every score is far below 0, the score of a key of zeros.
    q, k, v = three(1, 1, 1, 20, 70, 16)
    puzzle.check(q.abs() + 2, -k.abs() - 2, v)


def test_masks_scores_to_minus_infinity():
    # Every score is -2**34, a power of 2 and so exact, and below what some take for -inf.
    q, k, v = three(1, 1, 1, 20, 70, 16)
    puzzle.check(q * 0 - 2**15, k * 0 + 2**15, v / 8 + 100, scale=1.0)


def test_masks_heads_inside_rows():
    q, k, v = three(2, 20, 24, 4, 4, 16)
    puzzle.check(q.transpose(1, 2), k.transpose(1, 2)[:, :2], v.transpose(1, 2)[:, :2])


def test_masks_transposed():
    q, k, v = (x.mT.contiguous().mT for x in three(2, 2, 2, 40, 50, 32))
    puzzle.check(q, k, v)


def test_masks_every_stride():
    # More than one tile of queries and of keys.
    q, k, v = three(2, 2, 2, 140, 150, 16)
    puzzle.check(strided(q, 2, 1, 3, 2), strided(k, 1, 2, 2, 3), strided(v, 3, 2, 1, 2))


def test_masks_unaligned():
    q, k, v = three(1, 2, 2, 40, 50, 16)
    puzzle.check(offset(q), offset(k, 3), offset(v, 5))


def test_masks_one_head_expanded():
    q, k, v = three(1, 1, 1, 20, 24, 16)
    puzzle.check(q.expand(2, 4, 20, 16), k.expand(2, 4, 24, 16), v.expand(2, 4, 24, 16))


def test_masks_more_heads_than_axis_1_takes():
    puzzle.check_grid(*three(256, 256, 256, 1, 1, 16))


@cases(queries=0, keys=1, values=2)
def test_masks_offsets_beyond_32_bits(which):
    inputs = list(three(3, 3, 3, 3, 3, 16))
    shape = inputs[which].shape
    for axis in range(4):
        far = far_apart(randn(shape[axis], dtype="float16"))
        inputs[which] = far.view([-1 if i == axis else 1 for i in range(4)]).expand(shape)
        puzzle.check(*inputs)


@cases(queries=0, keys=1, values=2)
def test_masks_second_tile_beyond_32_bits(which):
    # 32, 64 or 128 strides are 2**31: one step of a tile of so many rows.
    for size in (33, 65, 129):
        inputs = list(three(1, 1, 1, size, size, 16))
        far = far_apart(randn(size, dtype="float16"))[None, None, :, None]
        inputs[which] = far.expand(1, 1, size, 16)
        puzzle.check(*inputs)


def test_masks_result_beyond_32_bits():
    inputs = [x.expand(512, 513, 64, 128) for x in three(1, 1, 1, 1, 1, 128)]
    puzzle.check_large_offsets(*inputs)


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*three(1, 2, 1, 70, 150, 64, dtype))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    q, k, v = three(1, 1, 1, 32, 1024, 16, dtype)
    puzzle.check(q, k / 8, v / 4 + 1)


@cases(scores_of_hundreds=1.0, negative_scale=-1.0)
def test_numerics_large_scores(scale):
    q, k, v = three(1, 2, 2, 40, 200, 16)
    puzzle.check(q * 30, k, v, scale)


@cases(rising=1.0, falling=-1.0)
def test_numerics_maximum_moves(direction):
    # The maximum grows in every tile, or is in the first one.
    q, k, v = three(1, 1, 1, 20, 300, 16)
    ramp = direction * tensor(range(300))[:, None] / 50
    puzzle.check(q.abs() + 0.5, (k * 0.2 + ramp).half(), v)


def test_numerics_all_scores_far_below_0():
    q, k, v = three(1, 1, 1, 20, 100, 16)
    puzzle.check(q.abs() * 8 + 8, -k.abs() - 2, v)


@dtypes("float16", "bfloat16")
def test_numerics_scores_cancel(dtype):
    # To 0, unless q is rounded once more.
    q, k, v = three(1, 1, 1, 40, 100, 16, dtype)
    q[..., 0::2], q[..., 1::2] = 3, 5
    factor = integers(1, 1, 100, 8, low=-50, high=51, dtype=dtype)
    k[..., 0::2], k[..., 1::2] = 5 * factor, -3 * factor
    puzzle.check(q, k, v, scale=0.7)


def test_numerics_range_of_bfloat16():
    # Cast to float16 on the way, q and v are inf and k is 0.
    q, k, v = three(1, 2, 2, 20, 70, 16, "bfloat16")
    puzzle.check(q * 1e6, k * 1e-6, v * 1e6)


@cases(zero=0.0, large=3.0, tiny=1e-4, negative=-0.3)
def test_numerics_scale(scale):
    puzzle.check(*three(1, 2, 2, 20, 70, 16), scale=scale)


def test_numerics_default_scale():
    for D in (16, 32, 128):
        puzzle.check(*three(1, 1, 1, 17, 33, D))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32_of_d_128(dtype):
    q, k, v = three(1, 1, 1, 32, 512, 128, dtype)
    puzzle.check(q, k / 8, v / 4 + 1)


@cases(batches_and_heads=(2, 2, 16), d_128=(1, 1, 128))
def test_traffic(B, H, D):
    S, T = 256, 256
    puzzle.traffic(*three(B, H, H, S, T, D)).check(
        reads={"q": 1, "k": S // 64, "v": S // 64},
        writes=1,
        launches=1,
        sectors=1.1,
        largest_write=B * H * S * D,
        total_writes=B * H * S * (D + 1),
        dot_macs=2 * B * H * S * T * D,
    )


@cases(d_64=("float16", 64), d_128=("bfloat16", 128))
def test_compiles(dtype, D):
    puzzle.compiles(*three(1, 2, 1, 128, 128, D, dtype))


def test_compiles_ragged():
    puzzle.compiles(*(x.mT.contiguous().mT for x in three(1, 2, 2, 35, 67, 16)))


def test_speedup():
    B, H, S, D = 1, 16, 4096, 128
    puzzle.race(*three(B, H, H, S, S, D), at_least=4, operations=(4 * B * H * S * S * D, "float16"))
