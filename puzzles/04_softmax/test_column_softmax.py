"""What 04.2, column softmax, is held to."""

import torch

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor

puzzle = challenge("column_softmax")


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
    one_short_of_a_block=(1023, 5),
    one_past_a_block=(1025, 5),
    last_block_of_columns_ragged=(48, 67),
    ragged_everywhere=(500, 131),
    taller_than_a_program_can_keep=(9001, 37),
    one_very_tall_column=(2**18 + 1, 1),
)
def test_masks(M, N):
    puzzle.check(randn(M, N))


def test_masks_all_far_below_zero():
    # A masked lane that counts as 0 would be the largest.
    puzzle.check(randn(37, 43) - 200)
    puzzle.check(randn(9001, 5) - 200)


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
    puzzle.check_offsets(far_apart(integers(5000, dtype="float16"))[:, None])


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1025, 1, dtype="float16").expand(1025, 2**21 + 1))


@cases(rows=(2**23 + 1, 1), columns=(1, 2**23 + 1))
def test_masks_more_blocks_than_axis_1_takes(M, N):
    puzzle.check_grid(integers(M, N, dtype="float16"))


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(randn(*(3000, 17), dtype=dtype) * 3)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_half_precision(dtype):
    # 3000 ones stop at 256 in bfloat16, and at 2048 in float16.
    for M in (2000, 3000, 20000):
        puzzle.check(randn(M, 3, dtype=dtype) / 64)


@dtypes("float16", "bfloat16", "float32")
def test_numerics_large_values_do_not_overflow(dtype):
    puzzle.check(randn(700, 5, dtype=dtype) * 1000)


def test_numerics_one_row_is_1():
    puzzle.check_exactly(randn(1, 50) * 10)


@cases(far_above=1e4, far_below=-1e4)
def test_numerics_mean_far_from_zero(mean):
    puzzle.check(randn(700, 5) + mean)


def test_numerics_one_huge_value():
    x = randn(4, 9000).T
    x[3, 0], x[8999, 1], x[5000, 2] = 1e30, 3e38, -3e38
    puzzle.check(x)


@dtypes("float16", "bfloat16", "float32")
def test_numerics_columns_of_the_lowest_number(dtype):
    # Where a mask is made of it, and all is masked.
    x = randn(3, 5000, dtype=dtype)
    x[:] = torch.finfo(x.dtype).min
    puzzle.check(x[:, :300].T)
    puzzle.check(x.T)


def test_numerics_special_values_stay_where_they_are():
    inf, nan = float("inf"), float("nan")
    x = randn(6, 9000)
    x[0, 3], x[1, 8999], x[2, 700] = inf, -inf, nan
    x[3, 0], x[3, 1] = inf, -inf
    x[4] = -inf
    puzzle.check(x.T)


@cases(first_half=(0, 5000), last_half=(5000, 9000), all_but_the_last=(0, 8999))
def test_numerics_minus_infinity_in_whole_blocks(begin, end):
    x = randn(3, 9000)
    x[:, begin:end] = float("-inf")
    puzzle.check(x.T)


@cases(rising=1, falling=-1)
def test_numerics_maximum_grows_from_block_to_block(slope):
    ramp = slope * torch.arange(9000, device=tensor(0).device) / 300
    puzzle.check((randn(3, 9000) + ramp).T)


@cases(flat=(48, 1000), tall=(2048, 48))
def test_traffic(M, N):
    puzzle.traffic(randn(M, N)).check(reads=1, writes=1, launches=1, sectors=1.1)


def test_traffic_half_precision():
    puzzle.traffic(randn(2048, 64, dtype="bfloat16")).check(
        reads=1, writes=1, launches=1, sectors=1.1
    )


@dtypes("bfloat16", "float32")
def test_traffic_taller_than_a_program_can_keep(dtype):
    puzzle.traffic(randn(20000, 32, dtype=dtype)).check(
        reads={"x": 2}, writes={"result": 1}, sectors={"x": 1.1, "result": 1.1}
    )


def test_traffic_a_little_taller_than_a_program_can_keep():
    puzzle.traffic(randn(9001, 32)).check(reads={"x": 2}, writes={"result": 1})


def test_traffic_transposed():
    puzzle.traffic(randn(48, 1000).T).check(reads=1, writes=1, launches=1)


@dtypes("bfloat16", "float32")
def test_compiles(dtype):
    puzzle.compiles(randn(500, 131, dtype=dtype))


def test_compiles_one_column():
    puzzle.compiles(randn(300, 1))


def test_compiles_transposed():
    puzzle.compiles(randn(300, 41).T)


def test_compiles_tall():
    puzzle.compiles(randn(9001, 64, dtype="bfloat16"))


def test_speedup():
    puzzle.race(randn(2048, 32768), at_least=2)


def test_speedup_tall():
    puzzle.race(randn(2**20, 64), at_least=2)
