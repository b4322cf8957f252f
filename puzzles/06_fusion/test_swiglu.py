"""Tests of 06.1, SwiGLU."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor, uniform

# Shipped kernels, and PyTorch itself, round silu(gate) to the dtype before the product.
puzzle = challenge("swiglu", rounded_on_the_way=True)


def two(*shape, dtype="float32", make=randn):
    return make(*shape, dtype=dtype), make(*shape, dtype=dtype)


@cases(several_rows=(33, 41), one_block=(1, 1024), one_column=(300, 1), single_element=(1, 1))
def test_shapes(M, N):
    puzzle.check(*two(M, N, make=integers))


@cases(
    one_short_of_a_block=(1, 1023),
    one_past_a_block=(5, 205),
    more_rows_than_columns=(37, 17),
    more_than_one_program=(2, 10001),
)
def test_masks(M, N):
    puzzle.check(*two(M, N, make=integers))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*two(30, 100, dtype=dtype))


@dtypes("float32", "float16", "bfloat16")
def test_numerics_large_gates_do_not_overflow(dtype):
    gate = uniform(20, 100, low=-1000, high=1000, dtype=dtype)
    puzzle.check(gate, randn(20, 100, dtype=dtype))


def test_numerics_product_in_float32():
    # gate * up is -inf in float16; times the sigmoid it is not.
    gate, up = tensor([[-9.0, -9.5]], "float16"), tensor([[30000.0, 60000.0]], "float16")
    puzzle.check(gate, up)


def test_traffic():
    puzzle.traffic(*two(5, 1000)).check(
        reads={"gate": 1, "up": 1}, writes=1, launches=1, sectors=1.1
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*two(5, 1000, dtype=dtype))


def test_speedup():
    puzzle.race(*two(16384, 4096, dtype="bfloat16"), at_least=0.5)
