"""Tests of 09.1, split-K matmul."""

from course.challenge import challenge
from course.inputs import cases, climbing, dtypes, integers, matrices, strided

puzzle = challenge("split_k_matmul", input_precision="tf32", deterministic=True)


@cases(
    one_tile=(32, 32, 1024),
    one_row=(1, 70, 600),
    one_column=(70, 1, 600),
    too_short_to_split=(32, 32, 20),
    single_element=(1, 1, 1),
)
def test_shapes(M, N, K):
    puzzle.check(*matrices(M, N, K, make=integers))


@cases(
    ragged_everywhere=(67, 35, 331),
    last_piece_is_short=(33, 40, 1025),
    one_element_in_the_last_step=(16, 16, 2049),
    several_tiles=(130, 150, 520),
    more_tiles_than_multiprocessors=(300, 550, 40),
)
def test_masks(M, N, K):
    puzzle.check(*matrices(M, N, K, make=integers))


@cases(steps_that_7_does_not_divide=1025, fewer_steps_than_multiprocessors=200)
def test_masks_seven_multiprocessors(K):
    with puzzle.given(multiprocessors=7):
        puzzle.check(*matrices(30, 20, K, make=integers))


def test_masks_any_strides():
    puzzle.check(integers(560, 40).T, strided(integers(560, 24), 5, 2))


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*matrices(33, 40, 1000, dtype))


@dtypes("float16", "bfloat16")
def test_numerics_pieces_in_float32(dtype):
    # The sum of each piece needs more bits than the dtype has; that of all of them needs few.
    ones = integers(4096, 16, low=1, high=2, dtype=dtype)
    puzzle.check_exactly(climbing(16, 4096, dtype, by=40), ones)


def test_traffic_one_tile_for_16_multiprocessors():
    with puzzle.given(multiprocessors=16):
        traffic = puzzle.traffic(*matrices(32, 32, 6000, "float16"))
    traffic.check(
        programs_at_least=16,
        largest_share=1.1,
        reads={"a": 1, "b": 1},
        writes=1,
        launches=2,
        sectors=1.1,
    )


def test_traffic_tiles_enough():
    with puzzle.given(multiprocessors=2):
        traffic = puzzle.traffic(*matrices(256, 256, 256, "float16"))
    traffic.check(reads={"a": 8, "b": 8}, writes=1, launches=1, sectors=1.1, scratch=0)


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*matrices(128, 256, 4096, dtype))


def test_speedup():
    inputs = matrices(512, 512, 131072, "bfloat16")
    puzzle.race(*inputs, at_least=0.35, operations=(2 * 512 * 512 * 131072, "bfloat16"))
