"""Tests of 12.2, GEGLU with a backward pass, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, dtypes, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("geglu", gradients=True)


def three(M, N, dtype="float32"):
    """gate, up and the gradient of the result."""
    return [randn(M, N, dtype=dtype) for _ in range(3)]


def check(gate, up, dout):
    puzzle.check(gate, up, dout=dout)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_gate_is_not_of_the_spec():
    gate, up, _ = three(4, 5)
    puzzle.check_or_raises(gate[0], up[0], names="gate")
    puzzle.check_or_raises(gate[None], up[None], names="gate")
    puzzle.check_or_raises(gate.double(), up.double(), names="gate")


def test_shapes_up_is_not_like_gate():
    gate, up, _ = three(4, 5)
    puzzle.check_or_raises(gate, up.T, names="up")
    puzzle.check_or_raises(gate, up[:1], names="up")
    puzzle.check_or_raises(gate, up.half(), names="up")


# Any size and layout.


def test_masks_every_stride():
    gate, up, dout = three(7, 130)
    check(strided(gate, 2, 3), strided(up, 1, 2), strided(dout, 3, 1))


@cases(gate=0, up=1, dout=2)
def test_masks_one_transposed(which):
    inputs = three(31, 40)
    inputs[which] = inputs[which].T.contiguous().T
    check(*inputs)


@cases(gradient_of_a_sum=(1, 1), rows=(1, 40), columns=(31, 1))
def test_masks_expanded(M, N):
    gate, up, _ = three(31, 40)
    check(gate, up, randn(M, N).expand(31, 40))


def test_masks_unaligned():
    check(*(offset(x) for x in three(12, 256)))


@cases(gate=0, up=1, dout=2)
def test_masks_offsets_beyond_32_bits(which):
    inputs = [integers(3, dtype="float16") for _ in range(3)]
    inputs[which] = far_apart(inputs[which])
    check(*(x[:, None] for x in inputs))
    check(*(x[None, :] for x in inputs))


def test_masks_result_beyond_32_bits():
    x = randn(1, 1, dtype="float16").expand(2**16, 2**15 + 1)
    puzzle.check_large_offsets(x, x, dout=x)


def test_masks_more_rows_than_axis_1_takes():
    x = randn(1, 2, dtype="float16").expand(70_000, 2)
    puzzle.check_grid(x, x, dout=x)


def test_masks_limits():
    def build(M, N):
        gate, up, dout = three(M, N)
        return gate, up, {"dout": dout}

    puzzle.limits(build, dtypes=FLOATS, M=2**17, N=2**18)


# Any value.


@cases(
    float16=("float16", [-2.875, -3.125, 2.625, -1.25], [22, 43, 5, 52]),
    bfloat16=("bfloat16", [-3.375, -2.375, 0.75, -4], [5, 38, 50, 6]),
)
def test_numerics_gelu_before_rounding(dtype, gate, up):
    # The products lie near numbers of the dtype, and far from those if gelu is rounded first.
    puzzle.check_exactly(tensor([gate], dtype), tensor([up], dtype))


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    check(*three(16, 400, dtype))


def test_numerics_squares_that_overflow():
    _, up, dout = three(2, 32)
    gate = randn(2, 32)
    gate[0, 3], gate[1, 4], gate[1, 5] = 1e20, -1e20, 3e38
    check(gate, up, dout)


def test_numerics_special_values():
    inf, nan = float("inf"), float("nan")
    gate, up, dout = three(2, 32)
    gate[0, 1], up[0, 2], up[1, 3], dout[1, 4], dout[1, 5] = nan, nan, inf, nan, inf
    check(gate, up, dout)


# Of an infinite gate: its derivative is 1 or 0 in the limit, and inf * 0 as autograd multiplies.
test_numerics_each_special_value = special_values(
    puzzle,
    lambda: (*three(5, 70, "float16")[:2], {"dout": randn(5, 70, dtype="float16")}),
    "gate up dout",
    apart={"gate": ("inf", "minus_inf")},
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_halves_of_one_tensor():
    gate, up = randn(16, 256, dtype="float16").chunk(2, dim=1)
    puzzle.traffic(gate, up, dout=randn(16, 128, dtype="float16")).check(
        reads={"gate": 2, "up": 2, "dout": 1}, writes=1, launches=2, scratch=0, sectors=1.1
    )


def test_compiles_every_stride():
    gate, up, dout = three(7, 130, "float16")
    puzzle.compiles(strided(gate, 2, 3), strided(up, 1, 2), dout=strided(dout, 3, 1))


def test_compiles_one_number_for_all():
    gate, up, _ = three(7, 130, "float16")
    puzzle.compiles(gate, up, dout=tensor([[1.0]], "float16").expand(7, 130))


def test_speedup():
    M, N = 16384, 11008
    gate, up, dout = three(M, N, "bfloat16")
    puzzle.race(gate, up, dout=dout, at_least=0.9, bytes_moved=8 * M * N * 2, baseline="solution")
