"""Tests of 16.1, delta, in production."""

from course.challenge import challenge
from course.inputs import HALVES, along, cases, dtypes, far_apart, offset, randn, strided
from course.values import special_values

puzzle = challenge("attention_delta")


def two(B, H, S, D, dtype="float16"):
    """out and dout."""
    return randn(B, H, S, D, dtype=dtype), randn(B, H, S, D, dtype=dtype)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_out_has_no_heads():
    out, dout = two(2, 4, 8, 16)
    puzzle.check_or_raises(out[0], dout[0], names="out")


@cases(smaller=8, no_power_of_2=24, larger=256)
def test_shapes_out_of_another_width(D):
    puzzle.check_or_raises(*two(2, 4, 8, D), names="out")


@dtypes("float32", "float64")
def test_shapes_out_of_another_dtype(dtype):
    puzzle.check_or_raises(*two(2, 4, 8, 16, dtype), names="out")


def test_shapes_dout_does_not_fit_out():
    out, dout = two(2, 4, 8, 16)
    for wrong in (dout[0], dout[:, :, :7], dout[:, :1], dout.transpose(1, 2), dout.bfloat16()):
        puzzle.check_or_raises(out, wrong, names="dout")


# Any size and layout.


def test_masks_one_short_of_two_tiles():
    puzzle.check(*two(1, 2, 127, 16))


def test_masks_heads_inside_rows():
    out, dout = two(2, 20, 4, 16)
    puzzle.check(out.transpose(1, 2), dout.transpose(1, 2))


def test_masks_one_transposed():
    out, dout = two(2, 2, 50, 32)
    puzzle.check(out, dout.mT.contiguous().mT)
    puzzle.check(out.mT.contiguous().mT, dout)


def test_masks_every_stride():
    # More than one tile, of 256 queries too.
    out, dout = two(2, 2, 300, 16)
    puzzle.check(strided(out, 2, 1, 3, 2), strided(dout, 1, 2, 2, 3))


def test_masks_unaligned():
    out, dout = two(1, 2, 40, 16)
    puzzle.check(offset(out), offset(dout, 3))


def test_masks_dout_of_a_sum():
    # The gradient that out.sum() sends back: one number, expanded.
    out, _ = two(2, 2, 20, 16)
    puzzle.check(out, randn(1, dtype="float16").expand(2, 2, 20, 16))


def test_masks_more_heads_than_axis_1_takes():
    puzzle.check_grid(*two(256, 256, 1, 16))


@cases(out=0, dout=1)
def test_masks_offsets_beyond_32_bits(which):
    for dim, size in enumerate((3, 3, 3, 16)):
        inputs = list(two(3, 3, 3, 16))
        inputs[which] = along(far_apart(randn(size, dtype="float16")), dim, 3, 3, 3, 16)
        puzzle.check(*inputs)


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(*(x.expand(8192, 4097, 64, 16) for x in two(1, 1, 1, 16)))


def test_masks_limits():
    puzzle.limits(lambda B, H, S: two(B, H, S, 16), dtypes=HALVES, B=2**17, H=2**14, S=2**17)


# Any value.


def test_numerics_range_of_bfloat16():
    # Cast to float16 on the way, these are inf.
    out, dout = two(1, 1, 64, 128, "bfloat16")
    puzzle.check(out * 1e6, dout * 1e6)


# Compilation and speed of what the first level leaves out.


test_numerics_each_special_value = special_values(puzzle, lambda: two(1, 2, 64, 32), "out dout")


def test_compiles_narrowest():
    puzzle.compiles(*two(1, 2, 130, 16))


def test_compiles_transposed():
    puzzle.compiles(*(x.mT.contiguous().mT for x in two(1, 2, 35, 32)))


def test_speedup():
    puzzle.race(*two(4, 32, 4096, 128), at_least=0.9, baseline="solution")
