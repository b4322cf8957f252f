"""What 04.4, cross entropy, is held to."""

import torch

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor

puzzle = challenge("cross_entropy")


def case(M, V, dtype="float32", index="int64"):
    return randn(M, V, dtype=dtype) * 3, integers(M, low=0, high=V, dtype=index)


@cases(
    single_element=(1, 1),
    one_row=(1, 1000),
    one_class=(200, 1),
    more_rows_than_classes=(130, 7),
)
def test_shapes(M, V):
    puzzle.check(*case(M, V))


def test_shapes_of_bad_input():
    logits, targets = case(4, 5)
    puzzle.rejects(ValueError, logits[0], targets, naming="logits")
    puzzle.rejects(ValueError, logits[None], targets, naming="logits")
    puzzle.rejects(ValueError, integers(4, 5, dtype="int32"), targets, naming="logits")
    puzzle.rejects(ValueError, logits, targets[:3], naming="targets")
    puzzle.rejects(ValueError, logits, targets[:, None], naming="targets")
    puzzle.rejects(ValueError, logits, targets.float(), naming="targets")
    puzzle.rejects(ValueError, logits, targets.short(), naming="targets")


@cases(
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    last_block_of_rows_ragged=(67, 48),
    ragged_everywhere=(37, 5000),
    last_block_of_one=(3, 2**14 + 1),
    longer_than_any_block=(1, 2**18 + 1),
)
def test_masks(M, V):
    puzzle.check(*case(M, V))


def test_masks_all_far_below_zero():
    # A masked lane that counts as 0 would be the largest.
    logits, targets = case(37, 43)
    puzzle.check(logits - 200, targets)


def test_masks_targets_at_the_edges_of_blocks():
    logits, _ = case(8, 9000)
    puzzle.check(logits, tensor([0, 1023, 1024, 4095, 4096, 8191, 8192, 8999], "int64"))


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


def test_masks_more_rows_than_axis_1_takes():
    logits = integers(1, 1025, dtype="float16").expand(65537, 1025)
    puzzle.check_grid(logits, tensor([7], "int64").expand(65537))


@cases(of_1024=1025, of_2048=2049, of_4096=4097, of_8192=8193)
def test_masks_steps_beyond_32_bits(N):
    # Only a stride times the length of a step overflows.
    puzzle.check(far_apart(integers(N, dtype="float16"))[None, :], tensor([N - 1], "int64"))


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*case(40, 3000, dtype))


def test_numerics_targets_in_32_bits():
    puzzle.check(*case(40, 300, index="int32"))


@dtypes("int32", "int64")
def test_numerics_ignored_targets(dtype):
    logits, targets = case(40, 300, index=dtype)
    targets[::3] = -100
    puzzle.check(logits, targets)


def test_numerics_everything_ignored():
    logits, targets = case(5, 300)
    puzzle.check(logits, targets * 0 - 100)


def test_numerics_ignored_rows_may_hold_anything():
    logits, targets = case(5, 9000)
    logits[0], logits[1], logits[2, 3] = float("-inf"), float("nan"), float("inf")
    targets[:3] = -100
    puzzle.check(logits, targets)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_half_precision(dtype):
    logits, targets = case(20, 9000, dtype)
    puzzle.check(logits / 64, targets)


@dtypes("float16", "bfloat16", "float32")
def test_numerics_large_values_do_not_overflow(dtype):
    logits, targets = case(20, 700, dtype)
    puzzle.check(logits * 500, targets)


def test_numerics_one_class_costs_0():
    puzzle.check_exactly(*case(50, 1))


@dtypes("float16", "bfloat16")
def test_numerics_small_loss(dtype):
    logits, targets = case(40, 300, dtype)
    logits[range(40), targets] += 12
    puzzle.check(logits, targets)


@cases(far_above=1e4, far_below=-1e4)
def test_numerics_mean_far_from_zero(mean):
    logits, targets = case(20, 700)
    puzzle.check(logits + mean, targets)


def test_numerics_equal_logits():
    puzzle.check(tensor([[3.0], [-1e4], [0.0]]).expand(3, 1024), tensor([0, 9, 1023], "int64"))


def test_numerics_lowest_logits():
    puzzle.check(tensor([[-3e38, -2e38], [-3e38, -2e38]]), tensor([0, 1], "int64"))


def test_numerics_special_values_stay_in_their_row():
    inf = float("inf")
    logits, targets = case(7, 9000)
    logits[0, 3], logits[1, 8999], logits[2, 700] = inf, -inf, float("nan")
    logits[3] = -inf
    logits[4, 50], targets[4] = -inf, 50
    logits[5, 8000] = 1e30
    puzzle.check(logits, targets)


@cases(first_half=(0, 5000), last_half=(5000, 9000), all_but_the_last=(0, 8999))
def test_numerics_minus_infinity_in_whole_blocks(begin, end):
    logits, targets = case(3, 9000)
    logits[:, begin:end] = float("-inf")
    puzzle.check(logits, targets * 0 + 5 if begin else targets * 0 + 8999)


@cases(rising=1, falling=-1)
def test_numerics_maximum_grows_from_block_to_block(slope):
    logits, targets = case(3, 9000)
    ramp = slope * torch.arange(9000, device=tensor(0).device) / 300
    puzzle.check(logits + ramp, targets)


@cases(
    small_vocabulary=(48, 1000),
    large_vocabulary=(2, 20000),
    very_large_vocabulary=(1, 2**17),
)
def test_traffic(M, V):
    puzzle.traffic(*case(M, V)).check(
        reads={"logits": 1 + 1 / V, "targets": 1}, writes=1, launches=1
    )


def test_traffic_in_whole_sectors():
    # The targets' logits are single elements, each a sector of its own.
    puzzle.traffic(*case(4, 8192)).check(sectors={"logits": 1.1})


def test_traffic_transposed():
    logits, targets = case(1000, 48)
    puzzle.traffic(logits.T, targets[:48]).check(
        reads={"logits": 1.001, "targets": 1}, writes=1, launches=1
    )


@dtypes("bfloat16", "float32")
def test_compiles(dtype):
    puzzle.compiles(*case(37, 5000, dtype))


def test_compiles_one_class():
    puzzle.compiles(*case(200, 1))


def test_compiles_transposed():
    logits, targets = case(300, 41, index="int32")
    puzzle.compiles(logits.T, targets[:41])


def test_speedup():
    puzzle.race(*case(8192, 32768, "bfloat16"), at_least=3)
