"""Tests of 12.1, rotary position embedding."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, uniform

puzzle = challenge("rope", results=("q_out", "k_out"))


def angles(S, half):
    """The cosines and sines of angles that have nothing to do with one another."""
    turned = uniform(S, half, low=-3.1, high=3.1)
    return turned.cos(), turned.sin()


def inputs(B, H, Hkv, S, D, dtype="float32", make=randn):
    return make(B, H, S, D, dtype=dtype), make(B, Hkv, S, D, dtype=dtype), *angles(S, D // 2)


def whole_numbers(B, H, Hkv, S, D):
    """Tables of whole numbers turn nothing, but the results are exact."""
    q, k, _, _ = inputs(B, H, Hkv, S, D, make=integers)
    return q, k, integers(S, D // 2, low=1), integers(S, D // 2, low=1)


@cases(
    one_head_one_token=(1, 1, 1, 1, 8),
    one_pair=(1, 1, 1, 3, 2),
    angles_belong_to_the_position=(3, 2, 2, 5, 16),
    fewer_heads_in_k=(2, 6, 2, 5, 32),
)
def test_shapes(B, H, Hkv, S, D):
    puzzle.check(*whole_numbers(B, H, Hkv, S, D))


@cases(
    d_no_power_of_two=(1, 3, 1, 37, 48),
    heads_no_power_of_two=(2, 5, 3, 9, 96),
    many_tokens=(1, 1, 1, 131, 16),
)
def test_masks(B, H, Hkv, S, D):
    puzzle.check(*whole_numbers(B, H, Hkv, S, D))


def test_masks_heads_inside_rows():
    q, k, cos, sin = whole_numbers(2, 4, 2, 11, 16)
    q, k = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k))
    puzzle.check(q, k, cos, sin)


@cases(float32=("float32", False), float16=("float16", False), bfloat16_inverse=("bfloat16", True))
def test_numerics(dtype, inverse):
    puzzle.check(*inputs(2, 3, 1, 20, 64, dtype), inverse)


def test_traffic():
    B, H, Hkv, S, D = 2, 4, 2, 32, 64
    puzzle.traffic(*inputs(B, H, Hkv, S, D, "float16")).check(
        reads={"q": 1, "k": 1, "cos": B, "sin": B}, writes=1, launches=1, sectors=1.1
    )


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*inputs(2, 4, 2, 40, 64, dtype))


def test_speedup():
    puzzle.race(*inputs(4, 32, 8, 4096, 128, "bfloat16"), at_least=7)
