"""Tests of 18.4, all-gather and matmul in one launch."""

from course.challenge import challenge
from course.inputs import cases, climbing, dtypes, integers, randn, ranks, spread

puzzle = challenge("all_gather_matmul", ranks=True)


def layer(R, M, N, K, dtype="float16", make=randn):
    return ranks(R, M, K, dtype=dtype, make=make), ranks(R, K, N, dtype=dtype, make=make)


@cases(two_ranks=(2, 64, 70, 64), one_rank=(1, 33, 50, 64), single_elements=(3, 1, 1, 1))
def test_shapes(R, M, N, K):
    puzzle.check(*layer(R, M, N, K, make=integers))


@cases(
    ragged_everywhere=(3, 70, 50, 33),
    several_chunks=(2, 200, 33, 64),
    chunks_of_several_pieces=(2, 130, 33, 300),
    several_tiles_each_way=(2, 150, 290, 48),
)
def test_masks(R, M, N, K):
    puzzle.check(*layer(R, M, N, K, make=integers))


def test_masks_weights_transposed():
    shards, weights = ranks(2, 40, 50, dtype="float16"), ranks(2, 70, 50, dtype="float16")
    puzzle.check(shards, [weight.T for weight in weights])


def test_masks_late_ranks_are_waited_for():
    puzzle.check_late(*layer(2, 64, 33, 32, make=integers))


@cases(four_ranks=(4, 50, 64, 70))
@dtypes("float16", "bfloat16")
def test_numerics(R, M, N, K, dtype):
    puzzle.check(*layer(R, M, N, K, dtype))


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    ones = ranks(
        2, 512, 16, dtype=dtype, make=lambda *shape, dtype: randn(*shape, dtype=dtype) * 0 + 1
    )
    puzzle.check_exactly(spread(climbing(16, 512, dtype) for _ in range(2)), ones)


def test_traffic():
    puzzle.traffic(*layer(4, 128, 512, 64)).check(
        # Each peer fetches a shard once, its owner reads it once a column of tiles.
        reads_by_launch={"shards": (512 / 64, 1, 1, 1)},
        writes=1,
        launches=4,
        scratch=1,
    )


def test_compiles():
    puzzle.compiles(*layer(2, 128, 256, 64, "bfloat16"))


def test_speedup():
    # Both on one GPU, where nothing overlaps: how fast several are depends on their links.
    shards = [randn(2048, 4096, dtype="bfloat16") for _ in range(2)]
    weights = [randn(4096, 4096, dtype="bfloat16") for _ in range(2)]
    work = (2 * 2 * 4096**3, "bfloat16")
    puzzle.race(shards, weights, at_least=0.2, operations=work)
