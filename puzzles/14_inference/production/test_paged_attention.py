"""Tests of 14.3, paged attention, in production."""

from course.challenge import challenge
from course.inputs import (
    HALVES,
    cases,
    dtypes,
    offset,
    paged_cache,
    randn,
    reserve,
    strided,
    tensor,
)
from course.values import FUSED_SCORES, special_values

puzzle = challenge("paged_attention", rounded=True, deterministic=True)


def paged(lengths, *, page=16, H=4, Hkv=2, D=16, dtype="float16", **how):
    """q, key_cache, value_cache, block_tables and lengths; unused rows hold NaN."""
    q = randn(len(lengths), H, D, dtype=dtype)
    return q, *paged_cache(lengths, page, Hkv, D, dtype, **how)


def wrong(names, **changed):
    """Check that a call with these arguments changed raises an error that names one of them."""
    order = ("q", "key_cache", "value_cache", "block_tables", "lengths")
    inputs = dict(zip(order, paged([17, 3], fill=0.0), strict=True)) | changed
    puzzle.check_or_raises(*inputs.values(), names=names, answer=False)


# Bad input.


def test_shapes_q():
    wrong("q", q=randn(2, 64, dtype="float16"))
    for D, dtype in ((24, "float16"), (256, "float16"), (16, "float32")):
        inputs = paged([17, 3], D=D, dtype=dtype, fill=0.0)
        puzzle.check_or_raises(*inputs, names="q")


def test_shapes_key_cache():
    wrong("key_cache", key_cache=randn(80, 2, 16, dtype="float16"))
    wrong("key_cache", key_cache=randn(5, 16, 3, 16, dtype="float16"))
    wrong("key_cache", key_cache=randn(5, 16, 2, 32, dtype="float16"))
    wrong("key_cache", key_cache=randn(5, 16, 2, 16, dtype="bfloat16"))


def test_shapes_value_cache():
    wrong("value_cache", value_cache=randn(4, 16, 2, 16, dtype="float16"))
    wrong("value_cache", value_cache=randn(5, 16, 2, 16, dtype="bfloat16"))


def test_shapes_block_tables():
    wrong("block_tables", block_tables=tensor([1, 3], "int32"))
    wrong("block_tables", block_tables=tensor([[1, 3]], "int32"))
    wrong("block_tables", block_tables=tensor([[1.0, 3.0], [2.0, 0.0]]))


def test_shapes_lengths():
    wrong("lengths", lengths=tensor([17], "int32"))
    wrong("lengths", lengths=tensor([[17], [3]], "int32"))
    wrong("lengths", lengths=tensor([17.0, 3.0]))


# Any size and layout.


@cases(groups_of_5=(10, 2), groups_of_20=(20, 1), groups_of_64=(64, 1))
def test_shapes(H, Hkv):
    puzzle.check(*paged([40, 300], H=H, Hkv=Hkv))


@cases(pages_of_1=1, pages_of_3=3, pages_of_24=24, pages_of_500=500)
def test_masks_pages_of_any_size(page):
    puzzle.check(*paged([70, 1, 310], page=page))


@cases(one=([0, 40],), of_several_splits=([0, 300, 0],), all_of_them=([0, 0],))
def test_masks_sequences_of_no_keys(lengths):
    puzzle.check(*paged(lengths))


def test_masks_integers_of_64_bits():
    *inputs, tables, lengths = paged([70, 300])
    puzzle.check(*inputs, tables.long(), lengths.long())


def test_masks_halves_of_one_tensor():
    q, keys, values, *others = paged([70, 300])
    both = randn(len(keys), 2, 16, 2, 16, dtype="float16")
    puzzle.check(q, both[:, 0].copy_(keys), both[:, 1].copy_(values), *others)


def test_masks_heads_before_places():
    q, keys, values, *others = paged([70, 300])
    keys, values = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (keys, values))
    puzzle.check(q, keys, values, *others)


def test_masks_every_stride():
    q, keys, values, tables, lengths = paged([70, 300])
    keys, values = strided(keys, 2, 1, 3, 2), strided(values, 1, 3, 2, 1)
    puzzle.check(strided(q, 2, 1, 3), keys, values, strided(tables, 2, 3), strided(lengths, 2))


def test_masks_unaligned():
    q, keys, values, *others = paged([70, 300])
    puzzle.check(offset(q), offset(keys, 3), offset(values, 5), *others)


def test_masks_more_heads_than_axis_1_takes():
    q, *others = paged([1, 1], H=1, Hkv=1)
    tables, lengths = (x[:1].expand(70_000, *x.shape[1:]) for x in others[2:])
    puzzle.check_grid(q[:1].expand(70_000, 1, 16), *others[:2], tables, lengths)


@cases(keys=1, values=2)
def test_masks_pages_beyond_32_bits(which):
    inputs = list(paged([40], page=16))
    far, P = 2**30, len(inputs[which])
    memory = reserve((P - 1) * far + 512, "float16")
    inputs[which] = memory.as_strided((P, 16, 2, 16), (far, 32, 16, 1)).copy_(inputs[which])
    puzzle.check(*inputs)


def test_masks_limits():
    def build(B, Hkv, group, T, page):
        q, keys, *others = paged([T] * B, page=page, H=Hkv * group, Hkv=Hkv)
        # The last key wins.
        keys[others[1][:, (T - 1) // page].long(), (T - 1) % page] = 2
        return q.abs() + 0.5, keys, *others

    puzzle.limits(
        build,
        dtypes=HALVES,
        B=2**12,
        Hkv=2**12,
        group=2**12,
        T=2**16,
        page=range(16, 2**12),
    )


# Any value.


def test_numerics_parts_are_merged_in_their_order():
    q, keys, values, tables, lengths = paged([1024, 2000])
    puzzle.check(q * 4, keys, values, tables, lengths)


def test_numerics_many_splits():
    # A launcher that asks how many multiprocessors there are, by this name, is told of a GPU's.
    q, *others = paged([6000], page=64, H=2, Hkv=1)
    with puzzle.given(multiprocessors=64):
        puzzle.check(q * 4, *others)


@cases(zero=0.0, tiny=1e-4, large=30.0, negative=-0.3)
def test_numerics_scale(scale):
    puzzle.check(*paged([70, 300]), scale=scale)


def test_numerics_range_of_bfloat16():
    # Cast to float16 on the way, q and v are inf and k is 0.
    q, keys, values, *others = paged([70, 300], dtype="bfloat16")
    puzzle.check(q * 1e6, keys * 1e-6, values * 1e6, *others)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    q, keys, values, *others = paged([2000], dtype=dtype)
    puzzle.check(q, keys / 8, values / 4 + 1, *others)


test_numerics_each_special_value = special_values(
    puzzle, lambda: paged([17, 300]), "q key_cache value_cache", apart=FUSED_SCORES
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(pages_of_64=(64, 4, 1, 64), widest=(16, 8, 2, 128))
def test_traffic(page, H, Hkv, D):
    q, keys, *others = paged([100, 33, 500], page=page, H=H, Hkv=Hkv, D=D)
    part = sum(-(-n // page) for n in (100, 33, 500)) / len(keys)
    puzzle.traffic(q, keys, *others).check(
        reads={"key_cache": part, "value_cache": part}, writes=1, launches=2, scratch=0.2
    )


def test_compiles_groups_of_64():
    puzzle.compiles(*paged([100, 700], H=64, Hkv=1, D=64))


def test_compiles_heads_before_places():
    q, keys, values, *others = paged([100, 700], H=8, D=128, dtype="bfloat16")
    keys, values = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (keys, values))
    puzzle.compiles(q, keys, values, *others)


def test_compiles_sizes_of_1():
    puzzle.compiles(*paged([1], page=1, H=1, Hkv=1))


def test_speedup():
    B, Hkv, D, page = 32, 8, 128, 16
    lengths = [1 + n * 4095 // (B - 1) for n in range(B)]
    inputs = paged(lengths, page=page, H=32, Hkv=Hkv, D=D, dtype="bfloat16", fill=0.0)
    puzzle.race(
        *inputs,
        at_least=0.9,
        baseline="solution",
        bytes_moved=4 * sum(lengths) * Hkv * D,
        kept=("block_tables", "lengths"),
    )
