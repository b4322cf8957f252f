"""What 04.3, online softmax, is held to."""

import torch

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor

puzzle = challenge("online_softmax")


@cases(
    single_element=(1, 1),
    one_row=(1, 1000),
    one_column=(1000, 1),
    more_rows_than_columns=(130, 7),
    more_columns_than_rows=(7, 130),
)
def test_shapes(M, N):
    puzzle.check(randn(M, N))


def test_shapes_of_bad_input():
    puzzle.rejects(ValueError, randn(10), naming="x")
    puzzle.rejects(ValueError, randn(2, 3, 4), naming="x")
    puzzle.rejects(ValueError, integers(4, 5, dtype="int32"), naming="x")


@cases(
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    last_block_of_rows_ragged=(67, 48),
    many_short_rows=(600, 48),
    ragged_everywhere=(37, 5000),
    last_block_of_one=(3, 2**14 + 1),
    longer_than_any_block=(1, 2**18 + 1),
)
def test_masks(M, N):
    puzzle.check(randn(M, N))


def test_masks_all_far_below_zero():
    # A masked lane that counts as 0 would be the largest.
    puzzle.check(randn(37, 43) - 200)


def test_masks_equal_shares():
    puzzle.check(integers(1, 1).expand(67, 48).contiguous())


def test_masks_transposed():
    puzzle.check(randn(300, 41).T)


def test_masks_both_strides():
    puzzle.check(strided(randn(21, 130), 2, 3))


def test_masks_unaligned():
    puzzle.check(offset(randn(20, 256)))


@cases(rows=((1, 300), (20, 300)), columns=((20, 1), (20, 300)))
def test_masks_expanded(shape, to):
    puzzle.check(randn(*shape).expand(*to))


def test_masks_offsets_beyond_32_bits():
    x = far_apart(integers(3, dtype="float16"))
    puzzle.check_offsets(x[:, None])
    puzzle.check_offsets(x[None, :])


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, 1025, dtype="float16").expand(2**21 + 1, 1025))


def test_masks_more_rows_than_axis_1_takes():
    puzzle.check_grid(integers(1, 1025, dtype="float16").expand(65537, 1025))


@cases(of_1024=1025, of_2048=2049, of_4096=4097, of_8192=8193)
def test_masks_steps_beyond_32_bits(N):
    # Only a stride times the length of a step overflows.
    puzzle.check(far_apart(integers(N, dtype="float16"))[None, :])


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(randn(*(17, 3000), dtype=dtype) * 3)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_half_precision(dtype):
    # 3000 ones stop at 256 in bfloat16, and at 2048 in float16.
    puzzle.check(randn(*(3, 3000), dtype=dtype) / 64)


@dtypes("float16", "bfloat16", "float32")
def test_numerics_large_values_do_not_overflow(dtype):
    puzzle.check(randn(5, 700, dtype=dtype) * 1000)


@cases(far_above=1e4, far_below=-1e4)
def test_numerics_mean_far_from_zero(mean):
    puzzle.check(randn(5, 700) + mean)


def test_numerics_one_huge_value():
    x = randn(4, 40000)
    x[0, 3], x[1, 39999], x[2, 20000] = 1e30, 3e38, -3e38
    puzzle.check(x)


@dtypes("float16", "bfloat16", "float32")
def test_numerics_rows_of_the_lowest_number(dtype):
    # Where a mask is made of it, and all is masked.
    x = randn(3, 300, dtype=dtype)
    x[:] = torch.finfo(x.dtype).min
    puzzle.check(x)


def test_numerics_special_values_stay_where_they_are():
    inf, nan = float("inf"), float("nan")
    x = randn(6, 40000)
    x[0, 3], x[1, 39999], x[2, 7000] = inf, -inf, nan
    x[3, 0], x[3, 1] = inf, -inf
    x[4] = -inf
    puzzle.check(x)


@cases(first_half=(0, 20000), last_half=(20000, 40000), all_but_the_last=(0, 39999))
def test_numerics_minus_infinity_in_whole_blocks(begin, end):
    x = randn(3, 40000)
    x[:, begin:end] = float("-inf")
    puzzle.check(x)


@cases(rising=1, falling=-1)
def test_numerics_maximum_grows_from_block_to_block(slope):
    ramp = slope * torch.arange(40000, device=tensor(0).device) / 1000
    puzzle.check(randn(3, 40000) + ramp)


@cases(short_rows=(48, 1000), long_rows=(2, 20000), very_long_rows=(1, 2**17))
def test_traffic(M, N):
    puzzle.traffic(randn(M, N)).check(
        reads={"x": 2}, writes=1, launches=1, sectors={"x": 1.1, "result": 1.1}
    )


def test_traffic_transposed():
    puzzle.traffic(randn(1000, 48).T).check(reads={"x": 2}, writes=1, launches=1)


@dtypes("bfloat16", "float32")
def test_compiles(dtype):
    puzzle.compiles(randn(37, 5000, dtype=dtype))


def test_compiles_one_column():
    puzzle.compiles(randn(300, 1))


def test_compiles_transposed():
    puzzle.compiles(randn(300, 41).T)


def test_speedup():
    puzzle.race(randn(1024, 131072), at_least=2)
