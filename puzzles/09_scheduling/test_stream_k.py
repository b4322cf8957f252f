"""Tests of 09.2, stream-K matmul."""

from course.challenge import broken_rule, challenge
from course.inputs import cases, climbing, dtypes, integers, matrices, strided

puzzle = challenge("stream_k_matmul", input_precision="tf32", deterministic=True)


@cases(one_tile=(32, 32, 1024), one_row=(1, 70, 600), one_column=(70, 1, 600), single=(1, 1, 1))
def test_shapes(M, N, K):
    puzzle.check(*matrices(M, N, K, make=integers))


@cases(
    a_tile_for_12_programs=(12, 32, 30, 2000),
    shares_end_in_the_middle=(7, 150, 70, 500),
    whole_tiles_and_parts=(5, 200, 140, 130),
    fewer_shared_steps_than_programs=(4, 300, 60, 40),
    share_of_the_last_step_of_a_tile=(9, 100, 40, 250),
    fewer_steps_than_programs=(12, 30, 20, 100),
    tiles_that_are_dealt_out_evenly=(4, 256, 256, 70),
    one_program=(1, 70, 100, 131),
)
def test_masks(P, M, N, K):
    with puzzle.given(multiprocessors=P):
        puzzle.check(*matrices(M, N, K, make=integers))


def test_masks_any_strides():
    puzzle.check(integers(560, 40).T, strided(integers(560, 24), 5, 2))


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*matrices(33, 40, 1000, dtype))


@dtypes("float16", "bfloat16")
def test_numerics_parts_in_float32(dtype):
    # The sum of each part needs more bits than the dtype has; that of all of them needs few.
    ones = integers(4096, 16, low=1, high=2, dtype=dtype)
    puzzle.check_exactly(climbing(16, 4096, dtype, by=40), ones)


@cases(five=5, twelve=12)
def test_traffic(P):
    with puzzle.given(multiprocessors=P):
        traffic = puzzle.traffic(*matrices(96, 96, 3072, "float16"))
    if traffic.programs != P:
        raise broken_rule(f"{traffic.programs} programs do the work, the spec asks for {P}")
    traffic.check(reads={"a": 3, "b": 3}, writes=1, launches=2, scratch=1, largest_share=1.1)
    traffic.check(sectors={"a": 1.1, "b": 1.1, "result": 1.1}, scratch=1)


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*matrices(128, 1040, 1024, dtype))


def test_speedup():
    inputs = matrices(1536, 3072, 16384, "bfloat16")
    puzzle.race(*inputs, at_least=0.4, operations=(2 * 1536 * 3072 * 16384, "bfloat16"))
