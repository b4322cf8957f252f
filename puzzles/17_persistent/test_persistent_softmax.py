"""What 17.1, persistent softmax, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, multiprocessors, offset, randn, strided

puzzle = challenge("persistent_softmax")


@cases(
    single_element=(1, 1),
    one_row=(1, 1000),
    one_column=(1000, 1),
    a_row_for_each_program=(multiprocessors(), 9000),
    fewer_rows_than_programs=(multiprocessors() - 1, 9000),
)
def test_shapes(M, N):
    puzzle.check(randn(M, N))


def test_shapes_of_bad_input():
    puzzle.rejects(ValueError, randn(10), naming="x")
    puzzle.rejects(ValueError, randn(2, 3, 4), naming="x")
    puzzle.rejects(ValueError, integers(4, 5, dtype="int32"), naming="x")
    puzzle.rejects(ValueError, randn(1, 2**16 + 1), naming="x")


@cases(
    one_row_more_than_programs=(multiprocessors() + 1, 9000),
    last_turn_of_some_programs=(3 * multiprocessors() - 1, 5000),
    many_turns=(11 * multiprocessors() + 1, 2000),
    short_rows_last_tile_ragged=(1237, 37),
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    longest_rows=(2, 2**16),
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


def test_masks_six_multiprocessors():
    # Their number is no power of two on most GPUs.
    with puzzle.multiprocessors(6):
        puzzle.check(randn(67, 5000))


def test_masks_result_beyond_32_bits():
    with puzzle.multiprocessors(2**30):
        puzzle.check_large_offsets(randn(1, 1, dtype="float16").expand(2**16 + 1, 2**15))


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


def test_numerics_each_row_has_its_own_maximum():
    # What is carried from one row to the next of the same program shows.
    x = randn(37, 3000)
    x[::2] += 1000
    puzzle.check(x)


def test_numerics_special_values_stay_where_they_are():
    inf, nan = float("inf"), float("nan")
    x = randn(14, 5000)
    x[0, 3], x[1, 4999], x[2, 700] = inf, -inf, nan
    x[3, 0], x[3, 1] = inf, -inf
    x[4] = -inf
    puzzle.check(x)


def test_numerics_special_values_in_short_rows():
    inf, nan = float("inf"), float("nan")
    x = randn(37, 50)
    x[0, 3], x[1, 49], x[2, 7] = inf, -inf, nan
    x[3, 0], x[3, 1] = inf, -inf
    x[4] = -inf
    puzzle.check(x)


@cases(short_rows=(3000, 48), long_rows=(11, 5000))
def test_traffic(M, N):
    puzzle.traffic(randn(M, N)).check(
        reads=1, writes=1, launches=1, sectors=1.1, grid_at_most=multiprocessors()
    )


@dtypes("bfloat16", "float32")
def test_compiles(dtype):
    puzzle.compiles(randn(37, 5000, dtype=dtype))


def test_compiles_one_column():
    puzzle.compiles(randn(300, 1))


def test_compiles_transposed():
    puzzle.compiles(randn(300, 41).T)


def test_compiles_longest_rows():
    puzzle.compiles(randn(1, 2**16))


def test_speedup():
    puzzle.race(randn(16384, 4096, dtype="bfloat16"), at_least=3)
