"""Tests of 04.2, column softmax, in production."""

import torch

from course.challenge import challenge
from course.inputs import FLOATS, cases, dtypes, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("column_softmax")
INF, NAN = float("inf"), float("nan")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    puzzle.check_or_raises(randn(10), names="x")
    puzzle.check_or_raises(randn(2, 3, 4), names="x")


def test_shapes_x_is_of_integers():
    # Probabilities rounded to integers mean nothing, so no answer is right.
    puzzle.check_or_raises(integers(4, 5, dtype="int32"), names="x", answer=False)


# Any size and layout.


@cases(a_little=(3000, 17), many_columns=(9001, 37), one_column=(2**18 + 1, 1))
def test_masks_taller_than_a_program_can_keep(M, N):
    puzzle.check(randn(M, N))


def test_masks_tall_and_far_below_zero():
    puzzle.check(randn(9001, 5) - 200)


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


def test_masks_limits():
    puzzle.limits(lambda M, N: (randn(M, N),), dtypes=FLOATS, M=2**18, N=2**17)


# Any value.


def test_numerics_one_row_is_exactly_1():
    puzzle.check_exactly(randn(1, 50) * 10)


@dtypes("float16", "bfloat16", "float32")
def test_numerics_tall(dtype):
    puzzle.check(randn(5000, 17, dtype=dtype) * 3)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32_of_tall_columns(dtype):
    # A sum of terms near 1 in float16 stops growing at 2048.
    puzzle.check(randn(3000, 3, dtype=dtype) / 64)
    puzzle.check(randn(20000, 3, dtype=dtype) / 64)


@cases(far_above=1e4, far_below=-1e4)
def test_numerics_mean_far_from_zero(mean):
    puzzle.check(randn(700, 5) + mean)


def test_numerics_one_huge_value():
    x = randn(3, 9000).T
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
    x = randn(6, 9000)
    x[0, 3], x[1, 8999], x[2, 700] = INF, -INF, NAN
    x[3, 0], x[3, 1] = INF, -INF
    x[4] = -INF
    puzzle.check(x.T)


@cases(first_half=(0, 5000), last_half=(5000, 9000), all_but_the_last=(0, 8999))
def test_numerics_minus_infinity_in_whole_blocks(begin, end):
    x = randn(3, 9000)
    x[:, begin:end] = -INF
    puzzle.check(x.T)


@cases(rising=1, falling=-1)
def test_numerics_maximum_grows_from_block_to_block(slope):
    ramp = slope * torch.arange(9000, device=tensor(0).device) / 300
    puzzle.check((randn(3, 9000) + ramp).T)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(70, 20, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


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


def test_compiles_one_column():
    puzzle.compiles(randn(300, 1))


def test_compiles_transposed():
    puzzle.compiles(randn(300, 41).T)


def test_compiles_tall():
    puzzle.compiles(randn(9001, 64, dtype="bfloat16"))


def test_speedup():
    puzzle.race(randn(2048, 32768), at_least=0.9, baseline="solution")


def test_speedup_tall():
    puzzle.race(randn(2**20, 64), at_least=0.9, baseline="solution")
