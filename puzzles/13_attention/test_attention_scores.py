"""What 13.1, attention scores, is held to."""

import math

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor

puzzle = challenge("attention_scores")


def two(B, H, Hkv, S, T, D, dtype="float16"):
    return randn(B, H, S, D, dtype=dtype), randn(B, Hkv, T, D, dtype=dtype)


@cases(
    single_query_and_key=(1, 1, 1, 1, 1, 16),
    one_query=(1, 2, 2, 1, 70, 32),
    one_key=(1, 2, 2, 70, 1, 32),
    batches_and_heads=(3, 2, 2, 20, 24, 16),
    grouped_heads=(2, 6, 2, 20, 24, 16),
    one_head_of_keys=(2, 3, 1, 20, 24, 16),
    whole_tiles_of_64=(1, 1, 1, 128, 128, 64),
    widest=(1, 1, 1, 40, 100, 128),
)
def test_shapes(B, H, Hkv, S, T, D):
    puzzle.check(*two(B, H, Hkv, S, T, D))


def test_shapes_of_bad_input():
    q, k = two(2, 4, 2, 8, 6, 16)
    puzzle.rejects(ValueError, q[0], k, naming="q")
    for D in (8, 24, 256):
        puzzle.rejects(ValueError, *two(2, 4, 2, 8, 6, D), naming="q")
    puzzle.rejects(ValueError, q.float(), k.float(), naming="q")
    puzzle.rejects(ValueError, q, k[0], naming="k")
    puzzle.rejects(ValueError, q, k[:1], naming="k")
    puzzle.rejects(ValueError, q[:, :3], k, naming="k")
    puzzle.rejects(ValueError, q, two(2, 4, 2, 8, 6, 32)[1], naming="k")
    puzzle.rejects(ValueError, q, k.bfloat16(), naming="k")


@cases(
    one_short_of_a_tile=(63, 63),
    one_past_a_tile=(65, 65),
    past_two_tiles=(129, 129),
    more_queries_than_keys=(150, 37),
    more_keys_than_queries=(37, 300),
)
def test_masks(S, T):
    puzzle.check(*two(1, 2, 1, S, T, 16))


def test_masks_keys_past_the_end_count_for_nothing():
    # Every score is far below 0, the score of a key of zeros.
    q, k = two(1, 1, 1, 20, 70, 16)
    puzzle.check(q.abs() + 2, -k.abs() - 2)


def test_masks_scores_to_minus_infinity():
    # Every score is -2**34, a power of 2 and so exact, and below what some take for -inf.
    q, k = two(1, 1, 1, 20, 66, 16)
    puzzle.check_exactly(q * 0 - 2**15, k * 0 + 2**15, scale=1.0)


def test_masks_heads_inside_rows():
    q, k = two(2, 20, 24, 4, 4, 16)
    puzzle.check(q.transpose(1, 2), k.transpose(1, 2)[:, :2])


def test_masks_transposed():
    puzzle.check(*(x.mT.contiguous().mT for x in two(2, 2, 2, 40, 50, 32)))


def test_masks_every_stride():
    # More than one tile of queries and of keys.
    q, k = two(2, 2, 2, 140, 150, 16)
    puzzle.check(strided(q, 2, 1, 3, 2), strided(k, 1, 2, 2, 3))


def test_masks_unaligned():
    q, k = two(1, 2, 2, 40, 50, 16)
    puzzle.check(offset(q), offset(k, 3))


def test_masks_one_head_expanded():
    q, k = two(1, 1, 1, 20, 24, 16)
    puzzle.check(q.expand(2, 4, 20, 16), k.expand(2, 4, 24, 16))


def test_masks_more_heads_than_axis_1_takes():
    puzzle.check_grid(*two(256, 256, 256, 1, 1, 16))


@cases(queries=0, keys=1)
def test_masks_offsets_beyond_32_bits(which):
    inputs = list(two(3, 3, 3, 3, 3, 16))
    shape = inputs[which].shape
    for axis in range(4):
        far = far_apart(randn(shape[axis], dtype="float16"))
        inputs[which] = far.view([-1 if i == axis else 1 for i in range(4)]).expand(shape)
        puzzle.check(*inputs)


def test_masks_second_tile_beyond_32_bits():
    # 64 strides are 2**31, one step of a tile of 64 keys; 128 are that for tiles of 128.
    q, _ = two(1, 1, 1, 3, 1, 16)
    for T in (65, 129):
        k = far_apart(randn(T, dtype="float16"))[None, None, :, None]
        puzzle.check(q, k.expand(1, 1, T, 16))


def test_masks_result_beyond_32_bits():
    q, k = two(1, 1, 1, 1, 1, 16)
    puzzle.check_large_offsets(q.expand(2**15 + 1, 1, 256, 16), k.expand(2**15 + 1, 1, 256, 16))


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*two(1, 2, 1, 70, 150, 64, dtype))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    q, k = two(1, 1, 1, 32, 1024, 16, dtype)
    puzzle.check(q, k / 8)


@cases(scores_of_hundreds=1.0, negative_scale=-1.0)
def test_numerics_large_scores(scale):
    q, k = two(1, 2, 2, 40, 200, 16)
    puzzle.check(q * 30, k, scale)


@cases(rising=1.0, falling=-1.0)
def test_numerics_maximum_moves(direction):
    # The maximum grows in every tile, or is in the first one.
    q, k = two(1, 1, 1, 20, 300, 16)
    ramp = direction * tensor(range(300))[:, None] / 50
    puzzle.check(q.abs() + 0.5, (k * 0.2 + ramp).half())


def test_numerics_all_scores_far_below_0():
    q, k = two(1, 1, 1, 20, 100, 16)
    puzzle.check(q.abs() * 8 + 8, -k.abs() - 2)


@dtypes("float16", "bfloat16")
def test_numerics_scores_cancel(dtype):
    # To 0, unless q is rounded once more.
    q, k = two(1, 1, 1, 40, 100, 16, dtype)
    q[..., 0::2], q[..., 1::2] = 3, 5
    factor = integers(1, 1, 100, 8, low=-50, high=51, dtype=dtype)
    k[..., 0::2], k[..., 1::2] = 5 * factor, -3 * factor
    puzzle.check(q, k, scale=0.7)


@cases(float16=("float16", 2048), bfloat16=("bfloat16", 256))
def test_numerics_scores_not_rounded(dtype, large):
    # large + 1 takes a bit more than dtype has. p is 17/32 and 15/32.
    q, k = two(1, 1, 1, 3, 2, 16, dtype)
    k[..., 0], k[..., 1], k[..., 2:] = large, tensor([1, 0], dtype), 0
    puzzle.check_exactly(q * 0 + 1, k, scale=math.log(17 / 15))


@cases(few_keys=9, more_keys=17)
def test_numerics_rounded_once(T):
    # No p lies near the middle between two numbers of float16.
    q, k = two(1, 1, 1, 1, T, 16)
    k[..., 0], k[..., 1:] = tensor(range(T)) / -8, 0
    puzzle.check_exactly(q * 0 + 1, k, scale=math.log(2))


def test_numerics_range_of_bfloat16():
    # Cast to float16 on the way, q is inf and k is 0.
    q, k = two(1, 2, 2, 20, 70, 16, "bfloat16")
    puzzle.check(q * 1e6, k * 1e-6)


@cases(zero=0.0, large=3.0, tiny=1e-4, negative=-0.3)
def test_numerics_scale(scale):
    puzzle.check(*two(1, 2, 2, 20, 70, 16), scale=scale)


def test_numerics_default_scale():
    for D in (16, 32, 128):
        puzzle.check(*two(1, 1, 1, 17, 33, D))


@cases(batches_and_heads=(2, 2, 16), d_128=(1, 1, 128))
def test_traffic(B, H, D):
    S, T = 256, 192
    puzzle.traffic(*two(B, H, H, S, T, D)).check(
        reads={"q": 1, "k": 2 * S // 64, "result": 0},
        writes=1,
        launches=1,
        sectors=1.1,
        total_writes=B * H * S * T,
    )


@cases(d_64=("float16", 64), d_128=("bfloat16", 128))
def test_compiles(dtype, D):
    puzzle.compiles(*two(1, 2, 1, 128, 128, D, dtype))


def test_compiles_ragged():
    puzzle.compiles(*(x.mT.contiguous().mT for x in two(1, 2, 2, 35, 67, 16)))


def test_speedup():
    B, H, S, D = 1, 16, 4096, 64
    puzzle.race(*two(B, H, H, S, S, D), at_least=2, bytes_moved=2 * B * H * S * (S + 2 * D))
