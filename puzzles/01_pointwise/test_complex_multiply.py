"""What 01.6, complex multiplication, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, far_apart, integers, offset, randn, reserve, strided

puzzle = challenge("complex_multiply")


def two(*shape, make=randn):
    return make(*shape, dtype="complex64"), make(*shape, dtype="complex64")


def gaussian_integers(*shape, dtype="complex64"):
    return (integers(*shape) + 1j * integers(*shape)).to(integers(0, dtype=dtype).dtype)


@cases(
    scalar=((),),
    vector=((1000,),),
    matrix=((33, 41),),
    three_dimensions=((5, 6, 37),),
    four_dimensions=((3, 1, 5, 77),),
    empty=((0,),),
)
def test_shapes(shape):
    puzzle.check(*two(*shape))


def test_shapes_of_bad_input():
    x, y = two(4, 5)
    puzzle.rejects(ValueError, *two(1, 2, 1, 2, 1), naming="x")
    puzzle.rejects(ValueError, x.real, y.real, naming="x")
    puzzle.rejects(ValueError, x.cdouble(), y.cdouble(), naming="x")
    puzzle.rejects(ValueError, x, y.real, naming="y")
    puzzle.rejects(ValueError, x, y[:1], naming="y")
    puzzle.rejects(ValueError, x, y.T, naming="y")


@cases(single_element=1, one_short_of_a_block=1023, one_past_a_block=1025, ragged=1279)
def test_masks(N):
    puzzle.check(*two(N, make=gaussian_integers))


def test_masks_transposed():
    x, y = two(40, 31, make=gaussian_integers)
    puzzle.check(x.T, y.T.contiguous())
    puzzle.check(x.T.contiguous(), y.T)


def test_masks_all_strides_differ():
    x, y = two(3, 4, 5, 21, make=gaussian_integers)
    puzzle.check(strided(x, 2, 1, 3, 2), offset(y).permute(0, 2, 1, 3).transpose(1, 2))


def test_masks_expanded():
    x, y = gaussian_integers(1, 30), gaussian_integers(20, 30)
    puzzle.check(x.expand(20, 30), y)


@cases(matrix=((70_000, 2),), four_dimensions=((300, 300, 1, 2),))
def test_masks_more_rows_than_axis_1_takes(shape):
    puzzle.check_grid(*two(*shape))


def test_masks_offsets_beyond_32_bits():
    # Half as many complex numbers are as many floats.
    x, y = two(3, make=gaussian_integers)
    puzzle.check_offsets(far_apart(x, 2**30), y)
    puzzle.check_offsets(x, far_apart(y, 2**30))


def test_masks_result_beyond_32_bits():
    # Half as many complex numbers are as many floats.
    x = reserve(2**30 + 77, "complex64")
    puzzle.check_large_offsets(x, x)


def test_numerics():
    puzzle.check(*two(3000))


def test_numerics_of_each_part():
    i, one = 1j * integers(50, low=1), integers(50, low=1)
    puzzle.check(i, i)
    puzzle.check(i, one.to(i.dtype))


def test_traffic():
    puzzle.traffic(*two(5000)).check(reads={"x": 1, "y": 1}, writes=1, launches=1, sectors=1.1)


def test_traffic_transposed():
    puzzle.traffic(*(x.T for x in two(40, 48))).check(reads={"x": 1, "y": 1}, writes=1, launches=1)


def test_compiles():
    puzzle.compiles(*two(5000))


def test_compiles_strided():
    x, y = two(3, 4, 5, 21)
    puzzle.compiles(strided(x, 2, 1, 3, 2), y)


def test_speedup():
    puzzle.race(*two(2**25), at_least=0.9)
