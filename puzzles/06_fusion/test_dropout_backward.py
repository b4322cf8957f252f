"""What 06.4, dropout, backward, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor

puzzle = challenge("dropout_backward")


@cases(
    scalar=((),),
    vector=((1000,),),
    matrix=((33, 41),),
    three_dimensions=((5, 6, 37),),
    four_dimensions=((3, 1, 5, 77),),
    empty=((0,),),
)
def test_shapes(shape):
    puzzle.check(randn(*shape), 0.4, 5)


def test_shapes_of_bad_input():
    dy = randn(4, 5)
    puzzle.rejects(ValueError, randn(1, 2, 1, 2, 1), 0.5, 1, naming="dy")
    puzzle.rejects(ValueError, integers(4, dtype="int32"), 0.5, 1, naming="dy")
    puzzle.rejects(ValueError, dy.double(), 0.5, 1, naming="dy")
    puzzle.rejects(ValueError, dy, -0.1, 1, naming="p")
    puzzle.rejects(ValueError, dy, 1.1, 1, naming="p")
    puzzle.rejects(ValueError, dy, float("nan"), 1, naming="p")


@cases(single_element=1, one_short_of_a_block=1023, one_past_a_block=1025, ragged=1279)
def test_masks(N):
    puzzle.check(integers(N, low=1), 0.5, 11)


def test_masks_gradient_lies_otherwise_than_the_output():
    # The mask goes by an element's number, not by its place in memory.
    dy = integers(41, 33, low=1)
    puzzle.check(dy.T, 0.5, 3)
    puzzle.check(dy.T.contiguous(), 0.5, 3)


def test_masks_all_strides_differ():
    puzzle.check(strided(randn(3, 4, 5, 21), 2, 1, 3, 2), 0.3, 9)


def test_masks_permuted():
    puzzle.check(offset(randn(3, 4, 5, 21)).permute(3, 1, 0, 2), 0.3, 9)


def test_masks_expanded():
    # One element in memory, many numbers: some are dropped and some are not.
    puzzle.check(integers(1, low=1).expand(300), 0.5, 9)


def test_masks_offsets_beyond_32_bits():
    puzzle.check(far_apart(integers(3, low=1, dtype="float16")), 0.1, 9)


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, dtype="float16").expand(2**31 + 77), 0.5, 1)


@cases(matrix=((70_000, 2),), four_dimensions=((300, 300, 1, 2),))
def test_masks_more_rows_than_axis_1_takes(shape):
    puzzle.check_grid(randn(*shape), 0.5, 1)


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(randn(3000, dtype=dtype), 0.1, 42)


@cases(nothing=0.0, whole_numbers_too=0, a_quarter=0.25, most=0.9, everything=1.0, all_of_it=1)
def test_numerics_probability(p):
    puzzle.check(randn(500), p, 2)


@cases(zero=0, one=1, sixteen=16, two_words=2**62 + 3, low_word_only=3, negative=-1)
def test_numerics_seed(seed):
    puzzle.check(integers(500, low=1), 0.5, seed)


@dtypes("bfloat16")
def test_numerics_scale_in_float32(dtype):
    # 1 / (1 - p) lies in the middle between two numbers of bfloat16.
    puzzle.check(randn(500, dtype=dtype), 0.01158, 2)


def test_numerics_number_that_equals_p():
    # tl.rand(7, 5) to the last bit: not greater than p, so number 5 is dropped.
    number = 0.6772258281707764
    puzzle.check(integers(8, low=1), number, 7)
    puzzle.check(integers(8, low=1), number - 2**-24, 7)


def test_numerics_what_is_dropped_is_zero():
    inf, nan = float("inf"), float("nan")
    dy = tensor([inf, nan, -inf, 1.0] * 20)
    puzzle.check(dy, 0.5, 1)
    puzzle.check(dy, 1.0, 1)


def test_traffic():
    puzzle.traffic(randn(5000), 0.5, 1).check(
        reads={"dy": 1}, writes=1, launches=1, sectors=1.1, total_writes=5000
    )


def test_traffic_transposed():
    puzzle.traffic(randn(40, 48).T, 0.5, 1).check(reads={"dy": 1}, writes=1, launches=1)


def test_compiles():
    puzzle.compiles(randn(5000, dtype="bfloat16"), 0.5, 123)


def test_compiles_permuted():
    puzzle.compiles(randn(3, 4, 5, 21).permute(3, 2, 1, 0), 0.5, 2**40)


def test_speedup():
    puzzle.race(randn(2**26), 0.5, 123, at_least=1.5, baseline="eager_dropout")
