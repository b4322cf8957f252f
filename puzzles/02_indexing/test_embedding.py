"""Tests of 02.4, embedding."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor

puzzle = challenge("embedding", exact=True)


@cases(vector=((100,),), matrix=((7, 13),), three_dimensions=((3, 1, 17),), one_index=((1,),))
def test_shapes(shape):
    puzzle.check(integers(50, 40), integers(*shape, low=0, high=50, dtype="int64"))


@cases(
    ragged_everywhere=(37, 300),
    one_past_a_block=(65, 129),
    one_short_of_a_block=(63, 127),
    many_indices=(2100, 3),
    wide_rows=(3, 5000),
    one_column=(30, 1),
)
def test_masks(N, D):
    puzzle.check(randn(50, D), integers(N, low=0, high=50, dtype="int64"))


def test_masks_first_and_last_row():
    puzzle.check(randn(50, 40), tensor([0, 49, 49, 0, 0], "int64"))


def test_numerics_indices_in_32_bits():
    puzzle.check(randn(50, 40), integers(30, low=0, high=50, dtype="int32"))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(50, 40, dtype=dtype), integers(30, low=0, high=50, dtype="int64"))


def test_traffic():
    indices = integers(128, low=0, high=32, dtype="int64")
    puzzle.traffic(randn(32, 64), indices).check(
        reads={"table": 128 / 32}, writes={"result": 1}, launches=2, sectors={"table": 1.1}
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(50, 40, dtype=dtype), integers(30, low=0, high=50, dtype="int64"))


def test_speedup():
    indices = integers(524288, low=0, high=65536, dtype="int64")
    puzzle.race(randn(65536, 2048, dtype="float16"), indices, at_least=0.3)
