"""Tests of 14.2, flash decoding, in production."""

import torch

from course.challenge import challenge
from course.inputs import (
    HALVES,
    along,
    cases,
    dtypes,
    far_apart,
    integers,
    offset,
    randn,
    strided,
    tensor,
)
from course.values import FUSED_SCORES, special_values

puzzle = challenge("flash_decoding", rounded=True, deterministic=True)


def decode(B, H, Hkv, T, D, dtype="float16", make=randn):
    """q (B, H, D), k and v (B, Hkv, T, D)."""
    q = make(B, H, D, dtype=dtype)
    return q, make(B, Hkv, T, D, dtype=dtype), make(B, Hkv, T, D, dtype=dtype)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_q_has_no_heads():
    q, k, v = decode(2, 4, 2, 6, 16)
    puzzle.check_or_raises(q[0], k, v, names="q")
    puzzle.check_or_raises(q[:, :, None], k, v, names="q")


@cases(smaller=8, no_power_of_2=24, larger=256)
def test_shapes_q_of_another_width(D):
    puzzle.check_or_raises(*decode(2, 4, 2, 6, D), names="q")


@dtypes("float32", "float64")
def test_shapes_q_of_another_dtype(dtype):
    puzzle.check_or_raises(*decode(2, 4, 2, 6, 16, dtype), names="q")


def test_shapes_k_does_not_fit_q():
    q, k, v = decode(2, 4, 2, 6, 16)
    puzzle.check_or_raises(q, k[0], v[0], names="k")
    puzzle.check_or_raises(q, k[:1], v[:1], names="k", answer=False)
    puzzle.check_or_raises(q[:, :3], k, v, names="k")
    puzzle.check_or_raises(q, *decode(2, 4, 2, 6, 32)[1:], names="k")
    puzzle.check_or_raises(q, k.bfloat16(), v, names="k")


def test_shapes_v_is_not_like_k():
    q, k, v = decode(2, 4, 2, 6, 16)
    for bad in (v[:, :1], v[:, :, :5], v[..., :8], v.transpose(1, 2), v.bfloat16()):
        puzzle.check_or_raises(q, k, bad, names="v", answer=False)


# Any size and layout.


@cases(groups_of_5=(1, 10, 2), groups_of_20=(1, 20, 1), groups_of_64=(1, 64, 1))
def test_shapes(B, H, Hkv):
    puzzle.check(*decode(B, H, Hkv, 300, 16))


@cases(d_32=32, d_64=64, d_128=128)
def test_shapes_of_d(D):
    puzzle.check(*decode(2, 4, 2, 150, D, "bfloat16"))


def test_masks_transposed():
    q, k, v = decode(2, 4, 2, 150, 32)
    puzzle.check(q.mT.contiguous().mT, k.mT.contiguous().mT, v.mT.contiguous().mT)


def test_masks_every_stride():
    q, k, v = decode(2, 4, 2, 150, 16)
    puzzle.check(strided(q, 2, 1, 3), strided(k, 1, 2, 2, 3), strided(v, 3, 2, 1, 2))


def test_masks_unaligned():
    q, k, v = decode(1, 4, 2, 150, 16)
    puzzle.check(offset(q), offset(k, 3), offset(v, 5))


def test_masks_keys_expanded():
    q, k, v = decode(1, 2, 1, 100, 16)
    puzzle.check(q.expand(2, 2, 16), k.expand(2, 2, 100, 16), v.expand(2, 2, 100, 16))


def test_masks_more_heads_than_axis_1_takes():
    puzzle.check_grid(*decode(256, 257, 257, 1, 16))


@cases(queries=0, keys=1, values=2)
def test_masks_offsets_beyond_32_bits(which):
    sizes = (3, 3, 16) if which == 0 else (3, 3, 3, 16)
    for dim, size in enumerate(sizes):
        inputs = list(decode(3, 3, 3, 3, 16))
        inputs[which] = along(far_apart(randn(size, dtype="float16")), dim, *sizes)
        puzzle.check(*inputs)


@cases(keys=1, values=2)
def test_masks_later_keys_beyond_32_bits(which):
    # A stride times the length of a tile overflows: of 64 keys, or more.
    inputs = list(decode(2, 8, 8, 100, 16))
    rows = far_apart(randn(100, dtype="float16"), last=2**32)
    inputs[which] = along(rows, 2, 2, 8, 100, 16)
    puzzle.check(*inputs)


def test_masks_limits():
    puzzle.limits(
        lambda B, Hkv, group, T: decode(B, Hkv * group, Hkv, T, 16),
        dtypes=HALVES,
        B=2**17,
        Hkv=2**14,
        group=2**12,
        T=2**18,
    )


# Any value.


def test_numerics_parts_are_merged_in_their_order():
    # The parts nearly cancel, so that another order of the sum shows in the bits of the result.
    q, k, v = decode(1, 4, 2, 1024, 16)
    puzzle.check(q, k.repeat(1, 1, 2, 1), torch.cat((v + 300, v - 300), dim=2))


def test_numerics_many_splits():
    # A launcher that asks how many multiprocessors there are, by this name, is told of a GPU's.
    q, k, v = decode(1, 2, 1, 6000, 16)
    with puzzle.given(multiprocessors=64):
        puzzle.check(q * 4, k, v)


@cases(zero=0.0, tiny=1e-4, large=30.0, negative=-0.3)
def test_numerics_scale(scale):
    puzzle.check(*decode(1, 4, 2, 300, 16), scale=scale)


def test_numerics_scores_to_minus_infinity():
    # Scores are -2**34, a power of 2 and so exact, and below what some take for -inf.
    q, k, v = decode(1, 2, 1, 300, 16)
    puzzle.check(q * 0 - 2**15, k * 0 + 2**15, v / 8 + 100, scale=1.0)


def test_numerics_range_of_bfloat16():
    # Cast to float16 on the way, q and v are inf and k is 0.
    q, k, v = decode(1, 4, 2, 300, 16, "bfloat16")
    puzzle.check(q * 1e6, k * 1e-6, v * 1e6)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # The same 16 keys again and again, so that a narrow sum is rounded to the same side each time.
    q, k, v = decode(1, 4, 2, 16, 16, dtype)
    puzzle.check(q, (k / 8).repeat(1, 1, 128, 1), (v / 4 + 1).repeat(1, 1, 128, 1))


def test_numerics_one_key_wins():
    q, k, v = decode(1, 2, 1, 1025, 16, make=integers)
    wins = (tensor(range(1025)) == 700)[:, None]
    puzzle.check(q.abs() + 1, (k - k + 60) * wins, v)


test_numerics_each_special_value = special_values(
    puzzle, lambda: decode(1, 2, 1, 300, 16), "q k v", apart=FUSED_SCORES
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(batches=(2, 6, 2, 2048, 16), widest=(1, 8, 1, 4096, 128))
def test_traffic(B, H, Hkv, T, D):
    q, k, v = decode(B, H, Hkv, T, D)
    puzzle.traffic(q, k, v).check(
        reads={"k": 1, "v": 1},
        writes=1,
        launches=2,
        sectors={"q": 1.1, "k": 1.1, "v": 1.1},
        programs_at_least=16,
        scratch=0.2,
    )


def test_compiles_groups_of_64():
    puzzle.compiles(*decode(1, 64, 1, 1000, 64, "bfloat16"))


def test_compiles_ragged_and_transposed():
    q, k, v = decode(1, 3, 1, 333, 16)
    puzzle.compiles(q, k.mT.contiguous().mT, v.mT.contiguous().mT)


def test_compiles_sizes_of_1():
    puzzle.compiles(*decode(1, 1, 1, 1, 128))


def test_speedup():
    q, k, v = decode(1, 32, 8, 65536, 128)
    puzzle.race(q, k, v, at_least=0.9, baseline="solution", bytes_moved=2 * k.nbytes)
