"""Tests of 12.1, rotary position embedding, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    along,
    cases,
    dtypes,
    far_apart,
    integers,
    offset,
    randn,
    strided,
    tensor,
    uniform,
)
from course.values import special_values

puzzle = challenge("rope", results=("q_out", "k_out"))


def inputs(B, H, Hkv, S, D, dtype="float32", T=None, half=None):
    turned = uniform(T or S, half or D // 2, low=-3.1, high=3.1)
    q, k = randn(B, H, S, D, dtype=dtype), randn(B, Hkv, S, D, dtype=dtype)
    return q, k, turned.cos(), turned.sin()


# Bad input: the error that the spec names, or the right answer.


def test_shapes_q_is_not_of_the_spec():
    q, k, cos, sin = inputs(2, 3, 1, 4, 8)
    puzzle.check_or_raises(q[0], k[0], cos, sin, names="q")
    puzzle.check_or_raises(q[None], k[None], cos, sin, names="q", answer=False)
    puzzle.check_or_raises(q.double(), k.double(), cos, sin, names="q", answer=False)
    whole = integers(2, 3, 4, 8, dtype="int32")
    puzzle.check_or_raises(whole, whole, cos, sin, names="q", answer=False)


def test_shapes_d_is_odd():
    q, k, cos, sin = inputs(2, 3, 1, 4, 8)
    puzzle.check_or_raises(q[..., :7], k[..., :7], cos[:, :3], sin[:, :3], names="q")


def test_shapes_k_does_not_fit():
    q, k, cos, sin = inputs(2, 3, 2, 4, 8)
    puzzle.check_or_raises(q, k[0], cos, sin, names="k")
    puzzle.check_or_raises(q, k[:1], cos, sin, names="k")
    puzzle.check_or_raises(q, k[:, :, :3], cos, sin, names="k")
    puzzle.check_or_raises(q, k.half(), cos, sin, names="k")


def test_shapes_k_of_another_width():
    q, k, cos, sin = inputs(2, 3, 2, 4, 8)
    puzzle.check_or_raises(q, k[..., :6], cos[:, :2], sin[:, :2], names="k")


def test_shapes_cos_does_not_fit():
    q, k, cos, sin = inputs(2, 3, 1, 4, 8)
    puzzle.check_or_raises(q, k, cos[0], sin[0], names="cos")
    puzzle.check_or_raises(q, k, cos[:3], sin[:3], names="cos")
    puzzle.check_or_raises(q, k, cos[:, :0], sin[:, :0], names="cos")
    wide = cos.repeat(1, 2)
    puzzle.check_or_raises(q, k, wide, wide, names="cos", answer=False)
    puzzle.check_or_raises(q, k, cos.double(), sin.double(), names="cos", answer=False)


def test_shapes_sin_does_not_fit():
    q, k, cos, sin = inputs(2, 3, 1, 4, 8)
    puzzle.check_or_raises(q, k, cos, sin[:3], names="sin")
    puzzle.check_or_raises(q, k, cos, sin[:, :3], names="sin")
    puzzle.check_or_raises(q, k, cos, sin.half(), names="sin")


# Any size and layout.


@cases(
    longer_tables=(5, 16, 9, 8),
    features_past_r_are_copied=(5, 40, 5, 8),
    odd_half=(5, 26, 5, 9),
    one_turned_pair=(3, 48, 7, 1),
)
def test_masks(S, D, T, half):
    puzzle.check(*inputs(2, 3, 2, S, D, T=T, half=half))


def test_masks_every_stride():
    q, k, cos, sin = inputs(2, 3, 2, 7, 12, half=4)
    puzzle.check(
        strided(q, 1, 2, 3, 2), strided(k, 2, 1, 2, 3), strided(cos, 2, 3), strided(sin, 3, 2)
    )


def test_masks_permuted_and_unaligned():
    q, k, cos, sin = inputs(2, 3, 2, 7, 16)
    puzzle.check(
        q.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0), offset(k), cos, offset(sin, 3)
    )


def test_masks_expanded():
    q, k, cos, sin = inputs(2, 3, 2, 7, 16)
    puzzle.check(
        q[:1, :1].expand(2, 3, 7, 16), k[..., :1].expand(k.shape), cos[:1].expand(7, 8), sin
    )


@cases(batch=0, heads=1, tokens=2, features=3)
def test_masks_offsets_beyond_32_bits(dim):
    far = far_apart(integers(4, dtype="float16"))
    near = integers(4, dtype="float16")
    shape = [2, 2, 2, 2]
    shape[dim] = 4
    S, half = shape[2], shape[3] // 2
    cos, sin = integers(S, half, low=1), integers(S, half, low=1)
    puzzle.check(along(far, dim, *shape), along(near, dim, *shape), cos, sin)
    puzzle.check(along(near, dim, *shape), along(far, dim, *shape), cos, sin)


def test_masks_tables_beyond_32_bits():
    far, near = far_apart(integers(3, dtype="float16", low=1)), integers(3, dtype="float16", low=1)
    q = integers(1, 2, 3, 6, dtype="float16")
    puzzle.check(q, q.clone(), far[:, None].expand(3, 3), near.expand(3, 3))
    puzzle.check(q, q.clone(), near.expand(3, 3), far.expand(3, 3))


def test_masks_result_beyond_32_bits():
    q = randn(1, 1, 1, 2, dtype="float16").expand(2, 8200, 65537, 2)
    puzzle.check_large_offsets(q, q[:, :1], *(randn(1, 1).expand(65537, 1) for _ in range(2)))


def test_masks_more_tokens_than_axis_1_takes():
    q = randn(1, 1, 1, 2, dtype="float16").expand(70_000, 1, 2, 2)
    puzzle.check_grid(q, q, randn(2, 1), randn(2, 1))


def test_masks_limits():
    def build(B, Hkv, group, S, half, rest):
        return inputs(B, Hkv * group, Hkv, S, 2 * (half + rest), half=half)

    puzzle.limits(
        build,
        dtypes={"q k": FLOATS, "q k cos sin": ("float32", "bfloat16")},
        B=2**17,
        Hkv=2**12,
        group=2**12,
        S=2**17,
        half=2**14,
        rest=range(2**14),
    )


# Any value.


def test_numerics_near_the_largest_float16():
    # 60000 cos - 60000 sin: each product alone, or the result only, may be beyond float16.
    q = tensor([60000.0, 60000.0, 50000.0, -60000.0], "float16").repeat(1, 2, 3, 1)
    cos, sin = tensor([[0.8, 1.25]] * 3), tensor([[0.6, 0.5]] * 3)
    puzzle.check(q, q.clone(), cos, sin)


def test_numerics_special_values():
    q, k, cos, sin = inputs(1, 2, 2, 5, 16)
    q[0, 1, 2, 3], k[0, 0, 4, 15], cos[1, 2] = float("nan"), float("inf"), float("nan")
    puzzle.check(q, k, cos, sin)
    puzzle.check(q, k, cos, sin, True)


def test_numerics_tables_of_the_dtype_of_q():
    q, k, cos, sin = inputs(2, 3, 1, 20, 64, "bfloat16")
    puzzle.check(q, k, cos.bfloat16(), sin.bfloat16())


@dtypes("float16", "bfloat16")
def test_numerics_products_in_float32(dtype):
    # Both products are nearly equal, and so the result shows what each of them lost.
    q, k, cos, sin = inputs(1, 2, 1, 16, 32, dtype)
    cos, sin = cos.abs() + 0.5, sin.abs() + 0.5
    q[..., 16:] = (q[..., :16] * (cos / sin)).to(q.dtype)
    puzzle.check(q, k, cos.to(q.dtype), sin.to(q.dtype))


test_numerics_each_special_value = special_values(
    puzzle, lambda: inputs(1, 2, 2, 5, 16, "float16"), "q k cos sin"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_partial():
    q, k, cos, sin = inputs(2, 4, 2, 16, 64, "float16", half=16)
    puzzle.traffic(q, k, cos, sin).check(
        reads={"q": 1, "k": 1, "cos": 2, "sin": 2}, writes=1, launches=1, sectors=1.1
    )


@cases(partial_and_ragged=("float16", 26, 9), wide=("float32", 256, 128))
def test_compiles_paths(dtype, D, half):
    puzzle.compiles(*inputs(2, 3, 1, 13, D, dtype, half=half))


def test_speedup():
    puzzle.race(*inputs(4, 32, 8, 4096, 128, "bfloat16"), at_least=0.9, baseline="solution")
