"""Tests of 18.3, average the gradients that are finite."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, ranks

puzzle = challenge("average_gradients", results=("averages", "faults"), ranks=True)

inf, nan = float("inf"), float("nan")


def with_faults(R, N, faults, dtype="float32", make=integers):
    """R gradients; faults: a rank, a position and a value for each element to replace."""
    grads = ranks(R, N, dtype=dtype, make=make)
    for rank, place, value in faults:
        grads[rank][place] = value
    return grads


@cases(two_ranks=(2, 100), three_ranks=(3, 100), one_rank=(1, 100), single_elements=(4, 1))
def test_shapes(R, N):
    puzzle.check(ranks(R, N, make=integers))


@cases(several_blocks=(4, 5003), ragged=(3, 1025), fewer_elements_than_ranks=(4, 2))
def test_masks(R, N):
    puzzle.check(with_faults(R, N, [(1, N - 1, nan)]))


def test_masks_late_ranks_are_waited_for():
    puzzle.check_late(with_faults(3, 300, [(0, 7, nan), (2, 8, nan)]))


def test_masks_host_waits_for_nothing():
    puzzle.check(with_faults(3, 100, [(1, 7, nan)]), scalars=0)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(ranks(4, 1000, dtype=dtype))


@cases(nan=(nan,), infinity=(inf,), minus_infinity=(-inf,))
def test_numerics_one_fault(value):
    puzzle.check(with_faults(3, 200, [(1, 150, value)]))


def test_numerics_every_fault_counts():
    # Several in one block, and in several blocks.
    places = [0, 1, 2, 500, 2999, 3000]
    puzzle.check(with_faults(2, 3001, [(0, place, inf) for place in places]))


def test_numerics_two_faulty_ranks():
    puzzle.check(with_faults(4, 100, [(0, 3, nan), (2, 4, nan), (2, 5, -inf)], make=randn))


def test_numerics_faulty_at_two_places_that_cancel():
    puzzle.check(with_faults(3, 100, [(1, 3, inf), (1, 4, -inf)]))


def test_traffic():
    # Counts may be stored by each block, to be added by those who read them.
    R, N = 4, 8192
    puzzle.traffic(with_faults(R, N, [(1, 5000, nan)])).check(
        reads={"grads": 1 + R, "grads[1]": 1}, launches=2 * R, total_writes=R * (N + N // 16)
    )


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(ranks(3, 1000, dtype=dtype))


def test_speedup():
    # All on one GPU: how fast several are depends on the links between them.
    puzzle.race([randn(2**25, dtype="bfloat16") for _ in range(4)], at_least=2.8)
