"""Tests of 14.1, KV cache append, in production."""

import torch

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    cases,
    dtypes,
    far_apart,
    integers,
    offset,
    randn,
    reserve,
    strided,
    tensor,
)
from course.values import special_values

puzzle = challenge("kv_cache_append", in_place=("key_cache", "value_cache", "dropped"), exact=True)


def append(slots, *, P=4, page=16, Hkv=2, D=16, dtype="float32", index="int64"):
    """key, value, two empty caches, slots, and a counter that has counted before."""
    N = len(slots)
    key, value = randn(N, Hkv, D, dtype=dtype), randn(N, Hkv, D, dtype=dtype)
    caches = randn(P, page, Hkv, D, dtype=dtype), randn(P, page, Hkv, D, dtype=dtype)
    return key, value, *caches, tensor(slots, index), tensor([7], "int32")


def wrong(names, **changed):
    """Check that a call with these arguments changed raises an error that names one of them."""
    order = ("key", "value", "key_cache", "value_cache", "slots", "dropped")
    inputs = dict(zip(order, append([17, 3, 40]), strict=True)) | changed
    puzzle.check_or_raises(*inputs.values(), names=names, answer=False)


# Bad input.


def test_shapes_key():
    wrong("key", key=randn(3, 32))
    whole = append([17, 3, 40], dtype="float64")
    puzzle.check_or_raises(*whole, names="key", answer=False)


def test_shapes_value():
    wrong("value", value=randn(3, 1, 16))
    wrong("value", value=randn(3, 2, 16, dtype="float16"))


def test_shapes_key_cache():
    wrong("key_cache", key_cache=randn(64, 2, 16))
    wrong("key_cache", key_cache=randn(4, 16, 3, 16))
    wrong("key_cache", key_cache=randn(4, 16, 2, 32))
    wrong("key_cache", key_cache=randn(4, 16, 2, 16, dtype="bfloat16"))


def test_shapes_value_cache():
    wrong("value_cache", value_cache=randn(3, 16, 2, 16))
    wrong("value_cache", value_cache=randn(4, 16, 2, 16, dtype="float16"))


def test_shapes_slots():
    wrong("slots", slots=tensor([17, 3], "int64"))
    wrong("slots", slots=tensor([[17], [3], [40]], "int64"))
    wrong("slots", slots=tensor([17.0, 3.0, 40.0]))


def test_shapes_dropped():
    wrong("dropped", dropped=tensor(0, "int32"))
    wrong("dropped", dropped=tensor([0], "int64"))


# What a server asks for.


@cases(stored=([17, 3, 40],), padded_and_dropped=([17, -1, 64, 3],), padding_alone=([-1, -1],))
def test_masks_the_launcher_reads_nothing_back(slots):
    puzzle.check(*append(slots), scalars=0)


def test_shapes_no_tokens():
    key, value, *caches, _, dropped = append([1])
    puzzle.check(key[:0], value[:0], *caches, tensor([], "int64"), dropped)


def test_masks_more_tokens_than_axis_1_takes():
    slots = integers(70_000, low=-1, high=0, dtype="int64")
    new = randn(1, 1, 1).expand(70_000, 1, 1)
    puzzle.check_grid(new, new, *append([0], Hkv=1, D=1)[2:4], slots, tensor([0], "int32"))


def test_masks_many_programs_drop_tokens():
    # However many tokens a program takes, several count at once.
    puzzle.check(*append(list(range(10**6, 10**6 + 2048)), Hkv=1, D=4))


# Any slot and layout.


def test_masks_slots_in_32_bits():
    puzzle.check(*append([17, -1, 3, 64, 63], index="int32"))


def test_masks_slots_beyond_32_bits():
    # In 32 bits these are 0 and 5.
    puzzle.check(*append([2**40, -(2**40), 2**32 + 5, 2**62, 9]))


def test_masks_slots_of_a_matrix():
    *inputs, _, dropped = append([17, 40, 3, -1])
    puzzle.check(*inputs, strided(tensor([17, 40, 3, -1], "int64"), 3), dropped)


def test_masks_heads_before_places():
    key, value, _, _, slots, dropped = append([17, 3, 40, 63])
    caches = (randn(4, 2, 16, 16).transpose(1, 2) for _ in range(2))
    puzzle.check(key, value, *caches, slots, dropped)


@cases(contiguous_heads=(1,), strided_heads=(2,))
def test_masks_every_stride(step):
    key, value, key_cache, value_cache, slots, dropped = append([17, 3, 40, 64, -1])
    puzzle.check(
        strided(key, 2, 3, step),
        strided(value, 3, 1, step),
        strided(key_cache, 2, 1, 2, step),
        strided(value_cache, 1, 2, 3, step),
        slots,
        dropped,
    )


def test_masks_unaligned():
    *inputs, slots, dropped = append([17, 3, 40], dtype="float16")
    puzzle.check(*(offset(x, n) for n, x in enumerate(inputs, 1)), slots, dropped)


@cases(key=0, value=1)
def test_masks_tokens_beyond_32_bits(which):
    inputs = list(append([17, 3, 40], Hkv=1, D=1, dtype="float16"))
    inputs[which] = far_apart(randn(3, dtype="float16"))[:, None, None]
    puzzle.check(*inputs)


@cases(key_cache=2, value_cache=3)
def test_masks_pages_beyond_32_bits(which):
    inputs = list(append([5, 0, 3], P=3, page=2, dtype="float16", index="int32"))
    far = 2**30 + 1
    memory = reserve(2 * far + 64, "float16")
    inputs[which] = memory.as_strided((3, 2, 2, 16), (far, 32, 16, 1)).copy_(inputs[which])
    puzzle.check(*inputs)


def test_masks_limits():
    def build(N, pages, page, Hkv, D):
        P = max(pages, -(-N // page))
        return append(list(range(P * page - N, P * page)), P=P, page=page, Hkv=Hkv, D=D)

    puzzle.limits(build, dtypes=FLOATS, N=2**17, pages=2**17, page=2**12, Hkv=2**12, D=2**14)


# Any value.


@dtypes("float16", "bfloat16", "float32")
def test_numerics_bits_are_kept(dtype):
    key, value, *others = append([17, 3, 40], dtype=dtype)
    special = tensor([float("nan"), -0.0, float("inf"), 1e-7], dtype).repeat(4)
    puzzle.check(key * 0 + special, value * 0 - special, *others)


test_numerics_each_special_value = special_values(
    puzzle, lambda: append([17, 3, 40]), "key value key_cache value_cache"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_padding_is_not_loaded():
    puzzle.traffic(*append([-1, 5, -1, 64, -1, 9], D=64)).check(
        reads={"key": 1 / 3, "value": 1 / 3, "key_cache": 0, "value_cache": 0},
        writes={"key_cache": 2 / 64, "value_cache": 2 / 64},
        launches=1,
        scratch=0,
    )


def test_compiles_heads_before_places():
    key, value, _, _, slots, dropped = append([17, 3], Hkv=8, D=128, dtype="bfloat16")
    caches = (randn(4, 8, 16, 128, dtype="bfloat16").transpose(1, 2) for _ in range(2))
    puzzle.compiles(key, value, *caches, slots, dropped)


def test_compiles_ragged():
    puzzle.compiles(*append([17, 3], Hkv=3, D=80, dtype="float16", index="int32"))


def test_compiles_sizes_of_1():
    puzzle.compiles(*append([0], P=1, page=1, Hkv=1, D=1))


def test_speedup():
    N, Hkv, D, P, page = 65536, 8, 128, 8192, 16
    key, value = (randn(N, Hkv, D, dtype="bfloat16") for _ in range(2))
    caches = (randn(P, page, Hkv, D, dtype="bfloat16") for _ in range(2))
    slots = torch.randperm(P * page, device=key.device)[:N]
    slots[::100] = -1
    puzzle.race(
        *(key, value, *caches, slots, tensor([0], "int32")),
        at_least=0.9,
        baseline="solution",
        bytes_moved=4 * key.nbytes * 99 // 100,
        kept=("slots",),
    )
