"""Tests of 04.4, cross entropy, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    INDICES,
    cases,
    far_apart,
    integers,
    offset,
    randn,
    strided,
    tensor,
)
from course.values import special_values

puzzle = challenge("cross_entropy")
INF, NAN = float("inf"), float("nan")


def case(M, V, index="int64"):
    return randn(M, V) * 3, integers(M, low=0, high=V, dtype=index)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_logits_are_not_a_matrix():
    logits, targets = case(4, 5)
    puzzle.check_or_raises(logits[0], targets, names="logits")
    puzzle.check_or_raises(logits[None], targets, names="logits")


def test_shapes_logits_are_integers():
    # A loss rounded to an integer means nothing, so no answer is right.
    _, targets = case(4, 5)
    puzzle.check_or_raises(integers(4, 5, dtype="int32"), targets, names="logits", answer=False)


def test_shapes_targets_do_not_fit():
    logits, targets = case(4, 5)
    puzzle.check_or_raises(logits, targets[:3], names="targets")
    puzzle.check_or_raises(logits, targets[:, None], names="targets")


def test_shapes_targets_of_another_dtype():
    logits, targets = case(4, 5)
    puzzle.check_or_raises(logits, targets.float(), names="targets", answer=False)
    puzzle.check_or_raises(logits, targets.short(), names="targets")


# Any size and layout.


def test_shapes_more_rows_than_classes():
    puzzle.check(*case(130, 7))


@cases(ragged_everywhere=(37, 5000), very_large_vocabulary=(1, 2**18 + 1))
def test_masks(M, V):
    puzzle.check(*case(M, V))


def test_masks_transposed():
    logits, targets = case(300, 41)
    puzzle.check(logits.T, targets[:41])


def test_masks_every_stride():
    logits, targets = case(21, 130)
    puzzle.check(strided(logits, 2, 3), strided(targets, 5))


def test_masks_unaligned():
    logits, targets = case(20, 256)
    puzzle.check(offset(logits), offset(targets))


@cases(rows=((1, 300), (20, 300)), columns=((20, 1), (20, 300)))
def test_masks_expanded(shape, to):
    puzzle.check(randn(*shape).expand(*to), tensor([7], "int64").expand(20))


def test_masks_offsets_beyond_32_bits():
    x = far_apart(integers(3, dtype="float16"))
    puzzle.check_offsets(x[:, None], tensor([0, 0, 0], "int32"))
    puzzle.check_offsets(x[None, :], tensor([2], "int32"))


@cases(of_1024=1025, of_2048=2049, of_4096=4097, of_8192=8193)
def test_masks_steps_beyond_32_bits(V):
    # Only a stride times the length of a step overflows.
    puzzle.check(far_apart(integers(V, dtype="float16"))[None, :], tensor([V - 1], "int64"))


def test_masks_more_rows_than_axis_1_takes():
    logits = integers(1, 1025, dtype="float16").expand(65537, 1025)
    puzzle.check_grid(logits, tensor([7], "int64").expand(65537))


def test_masks_limits():
    def build(M, V):
        logits, targets = case(M, V)
        logits[:, -1] += 9
        return logits, targets

    puzzle.limits(build, dtypes={"logits": FLOATS, "targets": INDICES}, M=2**17, V=2**18)


# Any value.


def test_numerics_targets_in_32_bits():
    logits, targets = case(40, 300, index="int32")
    targets[::3] = -100
    puzzle.check(logits, targets)


def test_numerics_everything_ignored():
    logits, targets = case(5, 300)
    puzzle.check(logits, targets * 0 - 100)


def test_numerics_ignored_rows_may_hold_anything():
    logits, targets = case(5, 9000)
    logits[0], logits[1], logits[2, 3] = -INF, NAN, INF
    targets[:3] = -100
    puzzle.check(logits, targets)


def test_numerics_one_class_costs_exactly_0():
    puzzle.check_exactly(*case(50, 1))


@cases(rising=1, falling=-1)
def test_numerics_maximum_from_block_to_block(slope):
    logits, targets = case(3, 9000)
    puzzle.check(logits + slope * tensor(range(9000)) / 300, targets)


@cases(far_above=1e4, far_below=-1e4)
def test_numerics_mean_far_from_zero(mean):
    logits, targets = case(20, 700)
    puzzle.check(logits + mean, targets)


def test_numerics_equal_logits_in_expanded_rows():
    puzzle.check(tensor([[3.0], [-1e4], [0.0]]).expand(3, 1024), tensor([0, 9, 1023], "int64"))


def test_numerics_lowest_logits():
    puzzle.check(tensor([[-3e38, -2e38], [-3e38, -2e38]]), tensor([0, 1], "int64"))


def test_numerics_special_values_stay_in_their_row():
    logits, targets = case(7, 9000)
    logits[0, 3], logits[1, 8999], logits[2, 700] = INF, -INF, NAN
    logits[3] = -INF
    logits[4, 50], targets[4] = -INF, 50
    logits[5, 8000] = 1e30
    puzzle.check(logits, targets)


@cases(first_half=(0, 5000), last_half=(5000, 9000), all_but_the_last=(0, 8999))
def test_numerics_minus_infinity_in_whole_blocks(begin, end):
    logits, targets = case(3, 9000)
    logits[:, begin:end] = -INF
    puzzle.check(logits, targets * 0 + (5 if begin else 8999))


test_numerics_each_special_value = special_values(
    puzzle,
    lambda: (randn(6, 300, dtype="float16"), integers(6, low=0, high=300, dtype="int64")),
    "logits",
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(
    small_vocabulary=(48, 1000),
    large_vocabulary=(2, 20000),
    very_large_vocabulary=(1, 2**17),
)
def test_traffic(M, V):
    puzzle.traffic(*case(M, V)).check(
        reads={"logits": 1 + 1 / V, "targets": 1}, writes=1, launches=1
    )


def test_traffic_transposed():
    logits, targets = case(1000, 48)
    puzzle.traffic(logits.T, targets[:48]).check(
        reads={"logits": 1.001, "targets": 1}, writes=1, launches=1
    )


def test_compiles_one_class():
    puzzle.compiles(*case(200, 1))


def test_compiles_transposed():
    logits, targets = case(300, 41, index="int32")
    puzzle.compiles(logits.T, targets[:41])


def test_speedup():
    logits = randn(8192, 32768, dtype="bfloat16") * 3
    targets = integers(8192, low=0, high=32768, dtype="int64")
    puzzle.race(logits, targets, at_least=0.9, baseline="solution")
