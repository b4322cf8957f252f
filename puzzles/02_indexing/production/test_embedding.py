"""Tests of 02.4, embedding, in production."""

from course.challenge import challenge
from course.inputs import (
    INDICES,
    REAL,
    cases,
    dtypes,
    far_apart,
    integers,
    offset,
    randn,
    strided,
    tensor,
)
from course.values import special_values

puzzle = challenge("embedding", exact=True)


def picks(*shape, rows, dtype="int64"):
    return integers(*shape, low=0, high=rows, dtype=dtype)


# Bad input: the error that the spec names, or the right answer. A negative index has none.


def must_be_refused(table, indices):
    puzzle.check_or_raises(table, indices, names="indices", error=IndexError, answer=False)


@cases(
    negative=(-1, 0),
    one_past_the_table=(50, 0),
    in_the_last_block=(50, 2999),
    far_out=(2**62, 1500),
    far_below=(-(2**62), 1500),
    beyond_32_bits=(2**32, 7),
)
def test_shapes_index_out_of_range(value, place):
    indices = picks(3000, rows=50)
    indices[place] = value
    must_be_refused(randn(50, 3), indices)


@cases(negative=-1, one_past_the_table=50, last_int32=2**31 - 1)
def test_shapes_index_out_of_range_in_32_bits(value):
    indices = picks(5, rows=50, dtype="int32")
    indices[4] = value
    must_be_refused(randn(50, 40), indices)


def test_shapes_index_out_of_range_in_wide_rows():
    must_be_refused(randn(4, 5000), tensor([0, 4], "int64"))


def test_shapes_right_after_a_bad_index():
    table = randn(4, 40)
    must_be_refused(table, tensor([0, 4], "int64"))
    puzzle.check(table, tensor([0, 3], "int64"))


def test_shapes_table_is_not_a_matrix():
    table, indices = randn(5, 6), picks(4, rows=5)
    puzzle.check_or_raises(table[0], indices, names="table")
    puzzle.check_or_raises(table[None], tensor([0], "int64"), names="table")


def test_shapes_table_is_complex():
    indices = picks(4, rows=5)
    puzzle.check_or_raises(randn(5, 6, dtype="complex64"), indices, names="table")
    puzzle.check_or_raises(randn(5, 6).cdouble(), indices, names="table")


def test_shapes_indices_of_another_dtype():
    table, indices = randn(5, 6), picks(4, rows=5)
    puzzle.check_or_raises(table, indices.float() / 2, names="indices", answer=False)
    puzzle.check_or_raises(table, indices == 0, names="indices", answer=False)
    puzzle.check_or_raises(table, indices.short(), names="indices")


# Any size and layout.


@cases(five_dimensions=((2, 3, 1, 2, 3),), scalar=((),), no_indices=((0,),), empty=((4, 0, 3),))
def test_shapes(shape):
    puzzle.check(randn(50, 40), picks(*shape, rows=50))


@cases(one_row=(1, 40), single_element=(1, 1))
def test_shapes_of_table(V, D):
    puzzle.check(randn(V, D), picks(30, rows=V))


def test_masks_of_the_indices_say_other():
    puzzle.check(randn(50, 129), picks(65, rows=50))


def test_masks_table_transposed():
    puzzle.check(randn(40, 50).T, picks(30, rows=50))


def test_masks_table_with_gaps():
    puzzle.check(strided(randn(50, 40), 2, 3), picks(30, rows=50))


def test_masks_table_unaligned():
    puzzle.check(offset(randn(50, 40)), offset(picks(30, rows=50)))


def test_masks_table_expanded():
    puzzle.check(randn(1, 40).expand(50, 40), picks(30, rows=50))


def test_masks_indices_with_gaps():
    puzzle.check(randn(50, 40), strided(picks(7, 5, 3, rows=50), 2, 3, 2))


@cases(transposed=(1, 0, 2), reversed=(2, 1, 0), rotated=(1, 2, 0))
def test_masks_indices_permuted(a, b, c):
    puzzle.check(randn(200, 20), picks(7, 5, 3, rows=200).permute(a, b, c))


def test_masks_indices_in_five_dimensions():
    puzzle.check(randn(80, 20), picks(2, 3, 4, 3, 2, rows=80).permute(4, 2, 0, 3, 1))


def test_masks_indices_expanded():
    puzzle.check(randn(50, 40), picks(1, 9, rows=50).expand(4, 9))


def test_masks_offsets_beyond_32_bits():
    x = far_apart(integers(3, dtype="float16"))
    puzzle.check_offsets(x[:, None], tensor([2, 0], "int32"))
    puzzle.check_offsets(x[None, :], tensor([0, 0], "int32"))


def test_masks_result_beyond_32_bits():
    indices = picks(1, rows=3, dtype="int32").expand(2**21 + 1)
    puzzle.check_large_offsets(randn(3, 1025, dtype="float16"), indices)


@cases(indices=(2**21 + 1, 1), columns=(1, 2**27 + 1))
def test_masks_more_blocks_than_axis_1_takes(N, D):
    puzzle.check_grid(integers(1, 1, dtype="int8").expand(1, D), picks(N, rows=1, dtype="int32"))


def test_masks_limits():
    def build(V, D, picked):
        # The last row of the table.
        return randn(V, D), tensor([V - 1] * picked, "int64")

    puzzle.limits(build, dtypes={"table": REAL, "indices": INDICES}, V=2**18, D=2**16, picked=2**17)


def test_masks_limits_of_dimensions():
    def build(dims):
        return randn(9, 3), strided(picks(*[2] * dims, rows=9), *[2] * dims)

    puzzle.limits(build, dims=range(10))


# Any dtype and value.


@dtypes(*("bool", "uint8", "uint16", "int8", "int16", "int32", "int64"), "float64")
def test_numerics(dtype):
    puzzle.check(integers(50, 40, low=0, high=100, dtype=dtype), picks(30, rows=50))


@cases(
    int64=([[1, 2], [2**53 + 1, 3], [-(2**62) - 1, 5]], "int64"),
    float64=([[1, 2], [1 + 2**-40, 3], [1e300, 5e-324]], "float64"),
)
def test_numerics_numbers_that_float32_cannot_hold(values, dtype):
    puzzle.check(tensor(values, dtype), tensor([1, 2, 0, 1], "int32"))


def test_numerics_special_values():
    puzzle.check(tensor([[0.0, -0.0], [float("inf"), float("nan")]]), tensor([1, 0], "int64"))


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(9, 40), picks(20, rows=9)), "table"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_wide_rows():
    puzzle.traffic(randn(32, 4096), picks(4, rows=32)).check(
        reads={"table": 1 / 8}, writes={"result": 1}, launches=2, sectors={"table": 1.1}
    )


def test_traffic_table_and_indices_transposed():
    puzzle.traffic(randn(64, 32).T, picks(8, 16, rows=32).T).check(
        reads={"table": 4}, writes={"result": 1}, launches=2
    )


def test_traffic_of_unused_rows():
    puzzle.traffic(randn(100, 64), tensor([7] * 10, "int64")).check(
        reads={"table": 0.1}, writes={"result": 1}, launches=2
    )


def test_compiles_narrow():
    puzzle.compiles(integers(50, 40, dtype="int8"), picks(30, rows=50))


def test_compiles_indices_in_32_bits():
    puzzle.compiles(randn(50, 40), picks(7, 5, 3, rows=50, dtype="int32").permute(2, 0, 1))


def test_compiles_one_index():
    puzzle.compiles(randn(50, 1), picks(rows=50))


def test_speedup():
    table, indices = randn(65536, 2048, dtype="float16"), picks(524288, rows=65536)
    puzzle.race(table, indices, at_least=0.9, baseline="solution")
