"""Tests of 12.2, GEGLU with a backward pass."""

from course.challenge import challenge
from course.inputs import cases, dtypes, randn, uniform

puzzle = challenge("geglu", gradients=True, rounded_on_the_way=True)


def layer(M, N, dtype="float32"):
    return randn(M, N, dtype=dtype), randn(M, N, dtype=dtype)


def check(gate, up):
    puzzle.check(gate, up, dout=randn(*gate.shape, dtype=gate.dtype))


@cases(single_element=(1, 1), one_column=(5, 1), one_row=(1, 70))
def test_shapes(M, N):
    gate, up = layer(M, N)
    puzzle.check(gate, up)
    check(gate, up)


@cases(one_short_of_a_block=(3, 1023), one_past_a_block=(3, 1025), ragged=(7, 300))
def test_masks(M, N):
    check(*layer(M, N))


def test_masks_halves_of_one_tensor():
    gate, up = randn(6, 2 * 90).chunk(2, dim=1)
    check(gate, up)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    check(*layer(20, 300, dtype))


def test_numerics_between_tanh_and_erf():
    # Around here the two forms of gelu are furthest apart.
    check(uniform(8, 200, low=1.5, high=3), randn(8, 200))


@dtypes("float16", "float32")
def test_numerics_large_gates(dtype):
    # exp of a large number is inf, and inf / inf is NaN.
    check(uniform(8, 200, low=30, high=100, dtype=dtype), randn(8, 200, dtype=dtype))


def test_traffic():
    gate, up = layer(16, 128, "float16")
    puzzle.traffic(gate, up, dout=randn(16, 128, dtype="float16")).check(
        reads={"gate": 2, "up": 2, "dout": 1}, writes=1, launches=2, scratch=0, sectors=1.1
    )


def test_traffic_kept_for_the_backward_pass():
    gate, up = layer(16, 128)
    puzzle.saved_for_backward(gate, up, dout=randn(16, 128), at_most=0)


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*layer(8, 300, dtype), dout=randn(8, 300, dtype=dtype))


def test_speedup():
    M, N = 16384, 11008
    gate, up = layer(M, N, "bfloat16")
    dout = randn(M, N, dtype="bfloat16")
    # The backward pass has to load gate and up again.
    puzzle.race(gate, up, dout=dout, at_least=1.3, bytes_moved=8 * M * N * 2)
