"""What 02.1, outer addition, must do to be solved."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, integers, randn

puzzle = challenge("outer_add")


def two(M, N, dtype="float32", make=randn):
    return make(M, dtype=dtype), make(N, dtype=dtype)


@cases(whole_tiles=(64, 256), one_row=(1, 3000), one_column=(3000, 1), single_element=(1, 1))
def test_shapes(M, N):
    puzzle.check(*two(M, N, make=integers))


@cases(
    ragged_everywhere=(67, 131),
    one_past_a_block=(65, 257),
    one_short_of_a_block=(63, 255),
    many_rows=(2100, 20),
    many_columns=(20, 2100),
)
def test_masks(M, N):
    puzzle.check(*two(M, N, make=integers))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*two(100, 200, dtype))


def test_traffic():
    puzzle.traffic(*two(256, 256)).check(
        reads={"x": 16, "y": 16}, writes=1, launches=1, sectors={"result": 1.1}
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*two(67, 131, dtype))


def test_speedup():
    puzzle.race(*two(16384, 16384), at_least=0.8)
