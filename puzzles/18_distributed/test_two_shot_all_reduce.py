"""Tests of 18.2, all-reduce in two shots."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, ranks, spread, tensor

puzzle = challenge("two_shot_all_reduce", ranks=True, alike=True)


@cases(
    two_ranks=(2, 100),
    no_multiple_of_the_ranks=(3, 100),
    fewer_elements_than_ranks=(4, 2),
    one_rank=(1, 100),
)
def test_shapes(R, N):
    puzzle.check(ranks(R, N, make=integers))


def test_shapes_of_any_rank():
    puzzle.check(ranks(2, 7, 33, make=integers))


@cases(several_blocks=(4, 5003), ragged=(3, 1025), eight_ranks=(8, 41))
def test_masks(R, N):
    puzzle.check(ranks(R, N, make=integers))


@cases(two_ranks=(2,), three_ranks=(3,))
def test_masks_late_ranks_are_waited_for(R):
    puzzle.check_late(ranks(R, 300, make=integers))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(ranks(4, 1000, dtype=dtype))


@cases(
    float16_overflows=("float16", [60000, 30000, -60000, -29000]),
    bfloat16_loses_halves=("bfloat16", [256, 0.75, 0.75, -256]),
)
def test_numerics_sums_in_float32(dtype, values):
    puzzle.check_exactly(spread(tensor([value] * 5, dtype) for value in values))


def test_traffic():
    puzzle.traffic(ranks(4, 8192)).check(
        reads={"shards": 1, "result": (4 - 1) / 4}, writes=1, launches=8, sectors=1.1, scratch=0
    )


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(ranks(4, 1000, dtype=dtype))


def test_speedup():
    # All on one GPU: how fast several are depends on the links between them.
    puzzle.race([randn(2**25, dtype="bfloat16") for _ in range(4)], at_least=10)
