"""What 03.5, Welford, is held to."""

import torch

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor

puzzle = challenge("welford", results=("mean", "variance"))


@cases(
    two_elements=(1, 2),
    one_row=(1, 1000),
    two_columns=(200, 2),
    more_rows_than_columns=(130, 7),
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
    ragged_everywhere=(37, 5000),
    last_block_of_one=(3, 2**13 + 1),
    longer_than_any_block=(1, 2**20 + 1),
)
def test_masks(M, N):
    puzzle.check(integers(M, N, low=1, high=9))


def test_masks_transposed():
    puzzle.check(integers(300, 41).T)


def test_masks_both_strides():
    puzzle.check(strided(integers(21, 130), 2, 3))


def test_masks_unaligned():
    puzzle.check(offset(integers(20, 256)))


@cases(rows=((1, 300), (20, 300)), columns=((20, 1), (20, 300)))
def test_masks_expanded(shape, to):
    puzzle.check(integers(*shape).expand(*to))


def test_masks_offsets_beyond_32_bits():
    x = far_apart(integers(3, dtype="float16"))
    puzzle.check(x.expand(2, 3).T)
    puzzle.check(x[None, :])


def test_masks_more_rows_than_axis_1_takes():
    puzzle.check_grid(integers(1, 1025, dtype="float16").expand(65537, 1025))


@cases(of_1024=1025, of_2048=2049, of_4096=4097, of_8192=8193)
def test_masks_steps_beyond_32_bits(N):
    # Only a stride times the length of a step overflows.
    puzzle.check(far_apart(integers(N, dtype="float16"))[None, :])


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(randn(17, 5000, dtype=dtype))


@cases(mean_10000=(1e4, 1.0), mean_minus_300=(-300.0, 0.5), tiny_numbers=(0.0, 1e-15))
def test_numerics_mean_far_from_zero(mean, deviation):
    puzzle.check(mean + randn(4, 9000) * deviation)


def test_numerics_mean_far_from_zero_in_a_very_long_row():
    puzzle.check(1e4 + randn(1, 200_000))


@cases(float16=("float16", 1000.25), bfloat16=("bfloat16", 100.25))
def test_numerics_mean_between_two_numbers_of_the_dtype(dtype, mean):
    puzzle.check((mean + randn(4, 9000) / 2).to(tensor([], dtype).dtype))


def test_numerics_every_block_has_another_mean():
    ramp = torch.arange(20000, device=tensor(0).device) / 1000
    puzzle.check(randn(3, 20000) * 0.1 + ramp)


def test_numerics_last_block_far_from_the_others():
    x = randn(2, 8200)
    x[:, 8190:] += 1000
    puzzle.check(x)


def test_numerics_unbiased():
    puzzle.check(tensor([[0.0, 2.0, 4.0], [1.0, -1.0, 0.0], [5.0, 5.0, 5.0]]))


def test_numerics_constant_rows():
    # The square of the last of them is beyond float32, the variance is 0.
    puzzle.check(tensor([[3.0], [1e4], [0.0], [2.0**70]]).expand(4, 5000))


@dtypes("float16", "float32")
def test_numerics_one_column_has_no_variance(dtype):
    puzzle.check(randn(5, 1, dtype=dtype))


def test_numerics_one_huge_value():
    x = randn(3, 5000)
    x[0, 4999], x[1, 0] = 1e15, -1e10
    puzzle.check(x)


@cases(short_rows=(48, 1000), long_rows=(3, 20000), very_long_rows=(1, 2**17))
def test_traffic(M, N):
    puzzle.traffic(randn(M, N)).check(reads={"x": 1}, writes=1, launches=1, sectors=1.1)


def test_traffic_transposed():
    puzzle.traffic(randn(1000, 48).T).check(reads={"x": 1}, writes=1, launches=1)


@dtypes("bfloat16", "float32")
def test_compiles(dtype):
    puzzle.compiles(randn(37, 5000, dtype=dtype))


def test_compiles_one_column():
    puzzle.compiles(randn(300, 1))


def test_compiles_transposed():
    puzzle.compiles(randn(300, 41).T)


def test_speedup():
    puzzle.race(randn(4096, 16384), at_least=1.5)
