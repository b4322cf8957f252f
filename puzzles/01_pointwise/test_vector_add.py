"""What 01.2, vector addition, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor

puzzle = challenge("vector_add")


@cases(empty=0, single_element=1, one_past_a_block=1025, ragged=5000)
def test_shapes(N):
    puzzle.check(randn(N), randn(N))


def test_shapes_of_bad_input():
    puzzle.rejects(ValueError, randn(4, 4), randn(4, 4), naming="x")
    puzzle.rejects(ValueError, randn(), randn(), naming="x")
    puzzle.rejects(ValueError, randn(4), randn(5), naming="y")
    puzzle.rejects(ValueError, randn(4), randn(1), naming="y")
    puzzle.rejects(ValueError, randn(4), randn(2, 2), naming="y")
    puzzle.rejects(ValueError, randn(4), randn(4, dtype="float16"), naming="y")


@cases(single_element=1, one_short_of_a_block=1023, last_block_of_one=129, ragged=1279)
def test_masks(N):
    puzzle.check(integers(N), integers(N))


def test_masks_strided():
    puzzle.check(strided(integers(300), 3), offset(integers(300)))


def test_masks_both_strides_differ():
    puzzle.check(strided(integers(300), 2), strided(integers(300), 5))


def test_masks_one_element_repeated():
    puzzle.check(integers(1).expand(300), integers(300))


def test_masks_the_same_tensor_twice():
    x = integers(300)
    puzzle.check(x, x)


def test_masks_offsets_beyond_32_bits():
    x, y = integers(3, dtype="float16"), integers(3, dtype="float16")
    puzzle.check_offsets(far_apart(x), y)
    puzzle.check_offsets(x, far_apart(y))


def test_masks_result_beyond_32_bits():
    x = randn(1, dtype="float16").expand(2**31 + 77)
    puzzle.check_large_offsets(x, x)


@dtypes("float16", "bfloat16", "float32", "int32")
def test_numerics(dtype):
    x, y = randn(3000) * 100, randn(3000) * 100
    puzzle.check(x.to(tensor([], dtype).dtype), y.to(tensor([], dtype).dtype))


def test_numerics_integers_that_float32_cannot_hold():
    puzzle.check(tensor([2**24 + 1, 2**30 + 1, -(2**31)], "int32"), tensor([0, 2, 5], "int32"))


def test_numerics_special_values():
    inf, nan = float("inf"), float("nan")
    puzzle.check(tensor([inf, inf, nan, 3e38, -0.0]), tensor([1.0, -inf, 1.0, 3e38, -0.0]))


def test_traffic():
    puzzle.traffic(randn(5000), randn(5000)).check(
        reads={"x": 1, "y": 1}, writes=1, launches=1, sectors=1.1
    )


def test_traffic_strided():
    puzzle.traffic(strided(randn(5000), 2), strided(randn(5000), 3)).check(
        reads={"x": 1, "y": 1}, writes=1, launches=1
    )


def test_compiles():
    puzzle.compiles(randn(5000), randn(5000))


def test_compiles_strided():
    puzzle.compiles(strided(randn(500), 3), randn(500))


def test_speedup():
    puzzle.race(randn(2**26), randn(2**26), at_least=0.9)
