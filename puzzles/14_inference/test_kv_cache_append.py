"""Tests of 14.1, KV cache append."""

import torch

from course.challenge import challenge
from course.inputs import cases, dtypes, randn, tensor

puzzle = challenge("kv_cache_append", in_place=("key_cache", "value_cache", "dropped"), exact=True)


def append(slots, *, P=4, page=16, Hkv=2, D=16, dtype="float32"):
    """key, value, two empty caches, slots, and a counter that has counted before."""
    N = len(slots)
    key, value = randn(N, Hkv, D, dtype=dtype), randn(N, Hkv, D, dtype=dtype)
    caches = randn(P, page, Hkv, D, dtype=dtype), randn(P, page, Hkv, D, dtype=dtype)
    return key, value, *caches, tensor(slots, "int64"), tensor([7], "int32")


@cases(
    three_heads_of_80=(3, 80, 16),
    one_head_of_64=(1, 64, 1),
    rows_wider_than_a_block=(8, 256, 7),
    one_number=(1, 1, 3),
)
def test_shapes(Hkv, D, page):
    puzzle.check(*append([page, 0, 4 * page - 1, 2 * page], Hkv=Hkv, D=D, page=page))


def test_masks_padding_is_left_out():
    puzzle.check(*append([17, -1, 3, -1, -70, 0]))


@cases(a_row=(2, 16), rows_wider_than_a_block=(8, 256))
def test_masks_tokens_past_the_cache_are_counted_once(Hkv, D):
    puzzle.check(*append([64, 63, -1, 65, 1000, 0], Hkv=Hkv, D=D))


def test_masks_many_tokens():
    order = [(7 * n) % 130 - 1 for n in range(130)]
    puzzle.check(*append(order, P=18, page=7, Hkv=1))


def test_masks_value_is_a_slice_of_the_projection():
    # The key comes from RoPE, in memory of its own.
    key, _, *others = append([3, 40, 12])
    puzzle.check(key, randn(3, 8, 16)[:, 6:], *others)


def test_masks_caches_are_halves_of_one_tensor():
    key, value, _, _, slots, dropped = append([17, 63, 0])
    both = randn(4, 2, 16, 2, 16)
    puzzle.check(key, value, both[:, 0], both[:, 1], slots, dropped)


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*append([20, 3, 33], dtype=dtype))


def test_traffic():
    new = 20 * 2 * 64 / (4 * 16 * 2 * 64)
    puzzle.traffic(*append(list(range(10, 30)), D=64)).check(
        reads={"key": 1, "value": 1, "key_cache": 0, "value_cache": 0},
        writes={"key_cache": new, "value_cache": new, "dropped": 0},
        launches=1,
        sectors=1.1,
        scratch=0,
    )


def test_compiles():
    puzzle.compiles(*append([20, 3, 33], Hkv=8, D=128, dtype="bfloat16"))


def test_speedup():
    N, Hkv, D, P, page = 65536, 8, 128, 8192, 16
    key, value = (randn(N, Hkv, D, dtype="bfloat16") for _ in range(2))
    caches = (randn(P, page, Hkv, D, dtype="bfloat16") for _ in range(2))
    slots = torch.randperm(P * page, device=key.device)[:N]
    slots[::100] = -1
    inputs = key, value, *caches, slots, tensor([0], "int32")
    puzzle.race(*inputs, at_least=4, bytes_moved=4 * key.nbytes * 99 // 100, kept=("slots",))
