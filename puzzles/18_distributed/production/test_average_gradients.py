"""Tests of 18.3, average the gradients that are finite, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    cases,
    dtypes,
    integers,
    offset,
    randn,
    ranks,
    reserve,
    spread,
    tensor,
)
from course.values import special_values

puzzle = challenge(
    "average_gradients", results=("averages", "faults"), ranks=True, alike=("averages",)
)

inf, nan = float("inf"), float("nan")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_no_grads():
    puzzle.check_or_raises([], names="grads")


def test_shapes_grads_differ():
    x = ranks(3, 6, 10)
    puzzle.check_or_raises([*x[:2], x[2][:, :5]], names="grads", answer=False)
    puzzle.check_or_raises([*x[:2], x[2][:, :1].contiguous()], names="grads", answer=False)
    puzzle.check_or_raises([x[0], x[1].view(60), x[2]], names="grads", answer=False)
    puzzle.check_or_raises([x[0], x[1].half(), x[2]], names="grads", answer=False)


@dtypes("float64", "int32")
def test_shapes_of_another_dtype(dtype):
    puzzle.check_or_raises(ranks(2, 6, dtype=dtype, make=integers), names="grads")


def test_shapes_not_contiguous():
    x = ranks(2, 40, 31)
    puzzle.check_or_raises([part.T for part in x], names="grads")
    puzzle.check_or_raises([x[0][:, ::2], x[1][:, ::2].contiguous()], names="grads")


# Any size and layout.


@cases(one_rank=(1,), three_ranks=(3,))
def test_shapes_empty(R):
    puzzle.check(ranks(R, 0))


def test_masks_off_16_bytes():
    first, *others = ranks(3, 7, 300, make=integers, dtype="float16")
    puzzle.check([first, *map(offset, others)])


def test_masks_beyond_32_bits():
    # Both are the same memory, which nobody has touched.
    x = reserve(2**31 + 77, "float16")
    puzzle.check_large_offsets([x, x])


def test_masks_limits():
    def build(R, N):
        grads = ranks(R, N, make=integers)
        grads[-1][-1] = inf
        return (grads,)

    puzzle.limits(build, dtypes=FLOATS, R=range(2, 9), N=2**20)


# Any value.


@dtypes("float32", "float16", "bfloat16")
def test_numerics_all_ranks_faulty(dtype):
    puzzle.check(spread(tensor([1.0, value, 2.0], dtype) for value in (nan, inf, -inf)))


def test_numerics_sums_beyond_float16():
    puzzle.check(spread(tensor([60000.0, -60000.0, 1.0], "float16") for _ in range(3)))


@dtypes("float32", "float16", "bfloat16")
def test_numerics_largest_numbers_are_healthy(dtype):
    largest = {"float16": 65504.0, "bfloat16": 3.0e38, "float32": 3.0e38}[dtype]
    signs = (1.0, -1.0)
    puzzle.check(spread(tensor([sign * largest, 1e-30, 1.0], dtype) for sign in signs))


@dtypes("float32", "bfloat16")
def test_numerics_eight_ranks(dtype):
    grads = ranks(8, 3000, dtype=dtype)
    grads[7][2999] = nan
    puzzle.check(grads)


# Of large gradients the sum overflows in float32, and the average need not.
test_numerics_each_special_value = special_values(
    puzzle, lambda: (ranks(3, 70),), "grads", apart={"grads": ("large",)}
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_all_ranks_faulty():
    grads = ranks(2, 4096, dtype="bfloat16")
    for x in grads:
        x[-1] = nan
    puzzle.traffic(grads).check(reads={"grads": 1}, launches=4)


@cases(one_rank=(1,), eight_ranks=(8,))
def test_compiles(R):
    puzzle.compiles([offset(x) for x in ranks(R, 1003, dtype="float16")])


def test_speedup():
    puzzle.race(
        [randn(2**25, dtype="bfloat16") for _ in range(4)], at_least=0.9, baseline="solution"
    )
