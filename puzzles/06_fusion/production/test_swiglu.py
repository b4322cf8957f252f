"""Tests of 06.1, SwiGLU, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    backwards,
    cases,
    far_apart,
    integers,
    offset,
    randn,
    strided,
    tensor,
)
from course.values import special_values

puzzle = challenge("swiglu")


def two(*shape, dtype="float32", make=randn):
    return make(*shape, dtype=dtype), make(*shape, dtype=dtype)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_gate_is_not_of_the_spec():
    puzzle.check_or_raises(*two(1, 2, 1, 2, 1), names="gate")
    puzzle.check_or_raises(*two(4, 5, dtype="int32", make=integers), names="gate")
    puzzle.check_or_raises(*two(4, 5, dtype="float64"), names="gate")


def test_shapes_up_is_not_like_gate():
    gate, up = two(4, 5)
    puzzle.check_or_raises(gate, up.T, names="up")
    puzzle.check_or_raises(gate, up[:1], names="up")
    puzzle.check_or_raises(gate, up.half(), names="up")


# Any size and layout.


@cases(
    scalar=((),),
    vector=((1000,),),
    three_dimensions=((5, 6, 37),),
    four_dimensions=((3, 1, 5, 77),),
    empty_dimension=((4, 0, 3),),
)
def test_shapes(shape):
    puzzle.check(*two(*shape))


def test_masks_halves_of_one_tensor():
    gate, up = randn(20, 3, 74).chunk(2, dim=-1)
    puzzle.check(gate, up)


def test_masks_one_transposed():
    gate, up = two(40, 31)
    puzzle.check(gate.T, up.T.contiguous())
    puzzle.check(gate.T.contiguous(), up.T)


def test_masks_all_strides_differ():
    gate, up = two(3, 4, 5, 21)
    puzzle.check(strided(gate, 2, 1, 3, 2), up.permute(0, 2, 1, 3).contiguous().transpose(1, 2))


def test_masks_permuted():
    gate, up = two(3, 4, 5, 21)
    puzzle.check(gate.permute(3, 1, 0, 2), offset(up.permute(3, 1, 0, 2)))


def test_masks_both_transposed():
    # Both have the same layout in memory, but the result is contiguous.
    gate, up = two(40, 31)
    puzzle.check(gate.T, up.T)


def test_masks_expanded():
    puzzle.check(randn(1, 30).expand(20, 30), randn(20, 1).expand(20, 30))


def test_masks_offsets_beyond_32_bits():
    far, near = far_apart(integers(3, dtype="float16")), integers(3, dtype="float16")
    puzzle.check(far, near)
    puzzle.check(near, far)


def test_masks_result_beyond_32_bits():
    x = randn(1, dtype="float16").expand(2**31 + 77)
    puzzle.check_large_offsets(x, x)


@cases(matrix=((70_000, 2),), four_dimensions=((300, 300, 1, 2),))
def test_masks_more_rows_than_axis_1_takes(shape):
    puzzle.check_grid(*two(*shape))


def test_masks_limits():
    puzzle.limits(
        lambda A, B, C, D: backwards(*two(D, C, B, A)),
        dtypes=FLOATS,
        A=2**18,
        B=2**17,
        C=2**12,
        D=2**12,
    )


# Any value.


def test_numerics_sigmoid_in_float32():
    # The sigmoid alone is less than half of float16's smallest step.
    gate, up = tensor([-17.5, -18.0], "float16"), tensor([30000.0, 60000.0], "float16")
    puzzle.check(gate, up)


@cases(
    float16=("float16", [-24, -22, -20, -18], [60000, 50000, 20000, 30000]),
    bfloat16=("bfloat16", [-4.125, -1.25, 0.75, 1.375], [15, 53, 52, 27]),
)
def test_numerics_silu_before_rounding(dtype, gate, up):
    # The products lie near numbers of the dtype, and far from those if silu is rounded first.
    puzzle.check_exactly(tensor(gate, dtype), tensor(up, dtype))


def test_numerics_special_values():
    inf, nan = float("inf"), float("nan")
    gate = tensor([inf, nan, 1.0, -104.0, 0.0, 3e38, -inf, -inf])
    puzzle.check(gate, tensor([1.0, 1.0, nan, 1.0, inf, 1.0, 1.0, 0.0]))


test_numerics_each_special_value = special_values(
    puzzle, lambda: two(5, 70, dtype="float16"), "gate up"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    gate, up = two(40, 48)
    puzzle.traffic(gate.T, up.T).check(reads={"gate": 1, "up": 1}, writes=1, launches=1)


def test_compiles_permuted():
    gate, up = two(3, 4, 5, 21)
    puzzle.compiles(gate.permute(3, 2, 1, 0), up.permute(3, 2, 1, 0))


def test_speedup():
    puzzle.race(*two(16384, 4096, dtype="bfloat16"), at_least=0.9, baseline="solution")
