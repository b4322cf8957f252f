"""What 16.1, delta, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided

puzzle = challenge("attention_delta")


def two(B, H, S, D, dtype="float16"):
    return randn(B, H, S, D, dtype=dtype), randn(B, H, S, D, dtype=dtype)


@cases(
    single_query=(1, 1, 1, 16),
    one_query_a_head=(2, 3, 1, 32),
    batches_and_heads=(3, 2, 20, 16),
    whole_tiles=(1, 2, 256, 64),
    widest=(1, 2, 70, 128),
)
def test_shapes(B, H, S, D):
    puzzle.check(*two(B, H, S, D))


def test_shapes_of_bad_input():
    out, dout = two(2, 4, 8, 16)
    puzzle.rejects(ValueError, out[0], dout[0], naming="out")
    for D in (8, 24, 256):
        puzzle.rejects(ValueError, *two(2, 4, 8, D), naming="out")
    puzzle.rejects(ValueError, out.float(), dout.float(), naming="out")
    for wrong in (dout[0], dout[:, :, :7], dout[:, :1], dout.transpose(1, 2), dout.bfloat16()):
        puzzle.rejects(ValueError, out, wrong, naming="dout")


@cases(one_short=63, one_past=65, one_short_of_two=127, past_many=1025)
def test_masks(S):
    puzzle.check(*two(1, 2, S, 16))


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
    inputs = list(two(3, 3, 3, 16))
    shape = inputs[which].shape
    for axis in range(4):
        far = far_apart(randn(shape[axis], dtype="float16"))
        inputs[which] = far.view([-1 if i == axis else 1 for i in range(4)]).expand(shape)
        puzzle.check(*inputs)


def test_masks_result_beyond_32_bits():
    out, dout = two(1, 1, 1, 16)
    puzzle.check_large_offsets(out.expand(8192, 4097, 64, 16), dout.expand(8192, 4097, 64, 16))


@dtypes("float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*two(1, 2, 100, 128, dtype))


@dtypes("float16", "bfloat16")
def test_numerics_products_in_float32(dtype):
    # Products of 16-bit numbers have more digits than 16-bit numbers.
    out, dout = two(1, 1, 64, 128, dtype)
    puzzle.check(out / 8 + 1, dout / 8 + 1)


def test_numerics_products_beyond_the_range_of_float16():
    out, dout = two(1, 1, 64, 128)
    puzzle.check(out * 1000, dout * 1000)


def test_numerics_range_of_bfloat16():
    # Cast to float16 on the way, these are inf.
    out, dout = two(1, 1, 64, 128, "bfloat16")
    puzzle.check(out * 1e6, dout * 1e6)


def test_numerics_whole_numbers():
    out, dout = (integers(1, 2, 64, 64, low=-99, high=100, dtype="float16") for _ in range(2))
    puzzle.check_exactly(out, dout)


def test_traffic():
    puzzle.traffic(*two(2, 2, 256, 64)).check(reads=1, writes=1, launches=1, sectors=1.1)


@cases(d_16=("float16", 16), d_128=("bfloat16", 128))
def test_compiles(dtype, D):
    puzzle.compiles(*two(1, 2, 130, D, dtype))


def test_speedup():
    puzzle.race(*two(4, 32, 4096, 128), at_least=1.5)
