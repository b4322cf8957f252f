"""What 02.4, embedding, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor

puzzle = challenge("embedding", exact=True)


def picks(*shape, rows, dtype="int64"):
    return integers(*shape, low=0, high=rows, dtype=dtype)


@cases(
    scalar=((),),
    single_index=((1,),),
    vector=((100,),),
    matrix=((7, 13),),
    three_dimensions=((3, 1, 17),),
    five_dimensions=((2, 3, 1, 2, 3),),
    no_indices=((0,),),
    empty_dimension=((4, 0, 3),),
)
def test_shapes(shape):
    puzzle.check(randn(50, 40), picks(*shape, rows=50))


@cases(one_row=(1, 40), one_column=(40, 1), single_element=(1, 1))
def test_shapes_of_table(V, D):
    puzzle.check(randn(V, D), picks(30, rows=V))


def test_shapes_of_bad_input():
    table, indices = randn(5, 6), picks(4, rows=5)
    puzzle.rejects(ValueError, table[0], indices, naming="table")
    puzzle.rejects(ValueError, table[None], indices, naming="table")
    puzzle.rejects(ValueError, randn(5, 6, dtype="complex64"), indices, naming="table")
    puzzle.rejects(ValueError, randn(5, 6).cdouble(), indices, naming="table")
    puzzle.rejects(ValueError, table, indices.float(), naming="indices")
    puzzle.rejects(ValueError, table, indices.short(), naming="indices")
    puzzle.rejects(ValueError, table, indices == 0, naming="indices")


@cases(
    negative=(-1, 0),
    one_past_the_table=(50, 0),
    in_the_last_block=(50, 2999),
    far_out=(2**62, 1500),
    far_below=(-(2**62), 1500),
    beyond_32_bits=(2**32, 7),
)
def test_shapes_of_bad_index(value, place):
    indices = picks(3000, rows=50)
    indices[place] = value
    puzzle.rejects(IndexError, randn(50, 3), indices, naming="indices")


@cases(negative=-1, one_past_the_table=50, last_int32=2**31 - 1)
def test_shapes_of_bad_index_in_32_bits(value):
    indices = picks(5, rows=50, dtype="int32")
    indices[4] = value
    puzzle.rejects(IndexError, randn(50, 40), indices, naming="indices")


def test_shapes_of_bad_index_in_wide_rows():
    puzzle.rejects(IndexError, randn(4, 5000), tensor([0, 4], "int64"), naming="indices")


@cases(
    one_short_of_a_block=(63, 127),
    one_past_a_block=(65, 129),
    wide_rows=(3, 5000),
    many_indices=(1025, 3),
    ragged_everywhere=(37, 300),
)
def test_masks(N, D):
    puzzle.check(randn(50, D), picks(N, rows=50))


def test_masks_first_and_last_row():
    puzzle.check(randn(50, 40), tensor([0, 49, 49, 0, 0], "int64"))


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


@dtypes(
    *("bool", "uint8", "uint16", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64"),
)
def test_numerics(dtype):
    puzzle.check(integers(50, 40, low=0, high=100, dtype=dtype), picks(30, rows=50))


@cases(
    int64=([[1, 2], [2**53 + 1, 3], [-(2**62) - 1, 5]], "int64"),
    float64=([[1, 2], [1 + 2**-40, 3], [1e300, 5e-324]], "float64"),
)
def test_numerics_numbers_that_float32_cannot_hold(values, dtype):
    puzzle.check(tensor(values, dtype), tensor([1, 2, 0, 1], "int32"))


def test_numerics_indices_in_32_bits():
    puzzle.check(randn(50, 40), picks(30, rows=50, dtype="int32"))


def test_numerics_special_values():
    puzzle.check(tensor([[0.0, -0.0], [float("inf"), float("nan")]]), tensor([1, 0], "int64"))


@cases(vectors=(128, 64), wide_rows=(4, 4096))
def test_traffic(N, D):
    puzzle.traffic(randn(32, D), picks(N, rows=32)).check(
        reads={"table": N / 32}, writes={"result": 1}, launches=2, sectors={"table": 1.1}
    )


def test_traffic_table_and_indices_transposed():
    puzzle.traffic(randn(64, 32).T, picks(8, 16, rows=32).T).check(
        reads={"table": 4}, writes={"result": 1}, launches=2
    )


def test_traffic_counts_unused_rows():
    puzzle.traffic(randn(100, 64), tensor([7] * 10, "int64")).check(
        reads={"table": 0.1}, writes={"result": 1}, launches=2
    )


@dtypes("int8", "bfloat16", "float32")
def test_compiles(dtype):
    puzzle.compiles(integers(50, 40, dtype=dtype), picks(30, rows=50))


def test_compiles_indices_in_32_bits():
    puzzle.compiles(randn(50, 40), picks(7, 5, 3, rows=50, dtype="int32").permute(2, 0, 1))


def test_compiles_one_index():
    puzzle.compiles(randn(50, 1), picks(rows=50))


def test_speedup():
    puzzle.race(randn(65536, 2048, dtype="float16"), picks(524288, rows=65536), at_least=0.9)
