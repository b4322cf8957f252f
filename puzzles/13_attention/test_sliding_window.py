"""What 13.5, sliding window attention, is held to."""

import math

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, offset, randn, strided, tensor

puzzle = challenge("sliding_window_attention", rounded=True)


def three(B, H, Hkv, S, D, dtype="float16"):
    q = randn(B, H, S, D, dtype=dtype)
    return q, randn(B, Hkv, S, D, dtype=dtype), randn(B, Hkv, S, D, dtype=dtype)


@cases(
    single_query=(1, 1, 1, 1, 16, 1),
    batches_and_heads=(3, 2, 2, 20, 16, 5),
    grouped_heads=(2, 6, 2, 20, 16, 7),
    one_head_of_keys=(2, 3, 1, 20, 16, 19),
    grouped_heads_of_many_tiles=(1, 4, 2, 150, 16, 100),
    whole_tiles_of_64=(1, 1, 1, 256, 64, 64),
    widest=(1, 1, 1, 70, 128, 30),
)
def test_shapes(B, H, Hkv, S, D, window):
    puzzle.check(*three(B, H, Hkv, S, D), window)


def test_shapes_of_bad_input():
    q, k, v = three(2, 4, 2, 8, 16)
    puzzle.rejects(ValueError, q[0], k, v, 3, naming="q")
    for D in (8, 24, 256):
        puzzle.rejects(ValueError, *three(2, 4, 2, 8, D), 3, naming="q")
    puzzle.rejects(ValueError, q.float(), k.float(), v.float(), 3, naming="q")
    puzzle.rejects(ValueError, q, k[0], v, 3, naming="k")
    puzzle.rejects(ValueError, q, k[:1], v[:1], 3, naming="k")
    puzzle.rejects(ValueError, q[:, :3], k, v, 3, naming="k")
    puzzle.rejects(ValueError, q, k[:, :, :7], v[:, :, :7], 3, naming="k")
    puzzle.rejects(ValueError, *three(2, 4, 2, 8, 32)[:1], k, v, 3, naming="k")
    puzzle.rejects(ValueError, q, k.bfloat16(), v, 3, naming="k")
    for bad in (v[:, :1], v[:, :, :5], v[..., :8], v.transpose(1, 2)):
        puzzle.rejects(ValueError, q, k, bad, 3, naming="v")
    puzzle.rejects(ValueError, q, k, v.bfloat16(), 3, naming="v")
    puzzle.rejects(ValueError, q, k, v, 0, naming="window")
    puzzle.rejects(ValueError, q, k, v, -3, naming="window")


@cases(
    one_short_of_a_tile=(63, 20),
    one_past_a_tile=(65, 20),
    window_of_one=(150, 1),
    window_of_two=(150, 2),
    window_one_short_of_a_tile=(300, 63),
    window_of_a_tile=(300, 64),
    window_one_past_a_tile=(300, 65),
    window_of_two_tiles=(300, 128),
    window_past_two_tiles=(300, 129),
    whole_tiles_inside_the_window=(400, 270),
    window_one_short_of_all=(150, 149),
    window_of_all=(150, 150),
    window_larger_than_all=(150, 10**10),
    window_of_the_last_int32=(150, 2**31 - 1),
    window_beyond_64_bits=(150, 2**70),
)
def test_masks(S, window):
    puzzle.check(*three(1, 2, 1, S, 16), window)


@cases(d_32=32, d_64=64, d_128=128)
def test_masks_both_edges(D):
    puzzle.check(*three(1, 1, 1, 200, D), 90)


@cases(later=1.0, earlier=-1.0)
def test_masks_keys_outside_count_for_nothing(direction):
    # A key that is too late, or too early, by one would win against all others.
    q, k, v = three(1, 1, 1, 300, 16)
    ramp = direction * tensor(range(300))[:, None] / 10
    puzzle.check(q.abs() + 0.5, (k * 0.2 + ramp).half(), v, 70)


@cases(narrow=1, less_than_a_tile=20, more_than_a_tile=150)
def test_masks_tiles_in_which_a_row_sees_nothing(window):
    # The maximum of such a row is -inf, and -inf less -inf is NaN.
    q, k, v = three(1, 1, 1, 400, 16)
    puzzle.check(q.abs() * 8 + 8, -k.abs() - 2, v, window)


def test_masks_scores_to_minus_infinity():
    # Early scores are -2**34, a power of 2 and so exact, and below what some take for -inf.
    q, k, v = three(1, 1, 1, 70, 16)
    early = (tensor(range(70)) < 60)[:, None]
    puzzle.check(q * 0 - 2**15, (k * 0 + 2**15) * early, v / 64 + 100 * early, 30, 1.0)


def test_masks_heads_inside_rows():
    q, k, v = three(2, 20, 20, 4, 16)
    puzzle.check(q.transpose(1, 2), k.transpose(1, 2)[:, :2], v.transpose(1, 2)[:, :2], 7)


def test_masks_transposed():
    puzzle.check(*(x.mT.contiguous().mT for x in three(2, 2, 2, 50, 32)), 11)


# Tiles that the window cuts, tiles inside, tiles that the diagonal cuts; and one of all kinds.
@cases(window_of_tiles=(300, 200), window_within_a_tile=(20, 6))
def test_masks_every_stride(S, window):
    q, k, v = three(2, 2, 2, S, 16)
    puzzle.check(strided(q, 2, 1, 3, 2), strided(k, 1, 2, 2, 3), strided(v, 3, 2, 1, 2), window)


def test_masks_unaligned():
    q, k, v = three(1, 2, 2, 40, 16)
    puzzle.check(offset(q), offset(k, 3), offset(v, 5), 9)


def test_masks_one_head_expanded():
    puzzle.check(*(x.expand(2, 4, 20, 16) for x in three(1, 1, 1, 20, 16)), 6)


def test_masks_more_heads_than_axis_1_takes():
    puzzle.check_grid(*three(256, 256, 256, 1, 16), 1)


@cases(queries=0, keys=1, values=2)
def test_masks_offsets_beyond_32_bits(which):
    inputs = list(three(3, 3, 3, 3, 16))
    shape = inputs[which].shape
    for axis in range(4):
        far = far_apart(randn(shape[axis], dtype="float16"))
        inputs[which] = far.view([-1 if i == axis else 1 for i in range(4)]).expand(shape)
        puzzle.check(*inputs, 2)


@cases(queries=0, keys=1, values=2)
def test_masks_second_tile_beyond_32_bits(which):
    # 32, 64 or 128 strides are 2**31: one step of a tile of so many rows.
    for size in (33, 65, 129):
        inputs = list(three(1, 1, 1, size, 16))
        far = far_apart(randn(size, dtype="float16"))[None, None, :, None]
        inputs[which] = far.expand(1, 1, size, 16)
        puzzle.check(*inputs, 100)


def test_masks_result_beyond_32_bits():
    inputs = [x.expand(512, 513, 64, 128) for x in three(1, 1, 1, 1, 128)]
    puzzle.check_large_offsets(*inputs, 1)


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*three(1, 2, 1, 200, 64, dtype), 90)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    q, k, v = three(1, 1, 1, 600, 16, dtype)
    puzzle.check(q, k / 8, v / 4 + 1, 520)


@cases(scores_of_hundreds=1.0, negative_scale=-1.0)
def test_numerics_large_scores(scale):
    q, k, v = three(1, 2, 2, 150, 16)
    puzzle.check(q * 30, k, v, 70, scale)


def test_numerics_range_of_bfloat16():
    # Cast to float16 on the way, q and v are inf and k is 0.
    q, k, v = three(1, 2, 2, 70, 16, "bfloat16")
    puzzle.check(q * 1e6, k * 1e-6, v * 1e6, 30)


@cases(zero=0.0, large=3.0, tiny=1e-4, negative=-0.3)
def test_numerics_scale(scale):
    puzzle.check(*three(1, 2, 2, 70, 16), 30, scale=scale)


def test_numerics_default_scale():
    for D in (16, 32, 128):
        puzzle.check(*three(1, 1, 1, 33, D), 10)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32_of_d_128(dtype):
    q, k, v = three(1, 1, 1, 300, 128, dtype)
    puzzle.check(q, k / 8, v / 4 + 1, 280)


@cases(batches_of_d_128=(2, 2, 128, 128, 1), many_tiles=(1, 1, 1024, 16, 0.25))
def test_traffic(B, H, S, D, part):
    traffic = puzzle.traffic(*three(B, H, H, S, D), 128)
    programs = sum(map(math.prod, traffic.grids)) / (B * H)
    traffic.check(
        reads={"q": 1, "k": part * programs, "v": part * programs},
        writes=1,
        launches=1,
        sectors=1.1,
        grid_at_most=B * H * S // 64,
        total_writes=B * H * S * D,
        dot_macs=part * 2 * B * H * S * S * D,
    )


def test_traffic_window_of_all():
    S, D = 1024, 16
    traffic = puzzle.traffic(*three(1, 1, 1, S, D), S)
    programs = sum(map(math.prod, traffic.grids))
    traffic.check(
        reads={"q": 1, "k": 0.6 * programs, "v": 0.6 * programs},
        writes=1,
        launches=1,
        dot_macs=0.6 * 2 * S * S * D,
    )


@cases(d_64=("float16", 64), d_128=("bfloat16", 128))
def test_compiles(dtype, D):
    puzzle.compiles(*three(1, 2, 1, 128, D, dtype), 50)


def test_compiles_ragged():
    puzzle.compiles(*(x.mT.contiguous().mT for x in three(1, 2, 2, 35, 16)), 9)


def test_speedup():
    B, H, S, D, window = 1, 16, 4096, 128, 512
    seen = S * window - window * (window - 1) // 2
    puzzle.race(
        *three(B, H, H, S, D), window, at_least=6, operations=(4 * B * H * seen * D, "float16")
    )
