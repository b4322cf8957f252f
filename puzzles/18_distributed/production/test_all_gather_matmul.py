"""Tests of 18.4, all-gather and matmul in one launch, in production."""

from course.challenge import challenge
from course.inputs import HALVES, cases, dtypes, far_apart, integers, offset, randn, ranks, strided
from course.values import special_values

puzzle = challenge("all_gather_matmul", ranks=True)
run_twice = challenge("all_gather_matmul", ranks=True, deterministic=True)


def layer(R, M, N, K, dtype="float16", make=randn):
    return ranks(R, M, K, dtype=dtype, make=make), ranks(R, K, N, dtype=dtype, make=make)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_no_shards():
    puzzle.check_or_raises([], ranks(2, 5, 6, dtype="float16"), names="shards", answer=False)


def test_shapes_shards_differ():
    (a, b), weights = layer(2, 8, 6, 5)
    puzzle.check_or_raises([a[0], b[0]], weights, names="shards", answer=False)
    puzzle.check_or_raises([a, b[:7]], weights, names="shards", answer=False)
    puzzle.check_or_raises([a, b.bfloat16()], weights, names="shards", answer=False)


@dtypes("float64", "int32")
def test_shapes_of_another_dtype(dtype):
    shards, weights = layer(2, 8, 6, 5, dtype, make=integers)
    puzzle.check_or_raises(shards, weights, names="shards")


def test_shapes_shards_not_contiguous():
    shards, weights = layer(2, 5, 6, 8)
    puzzle.check_or_raises([strided(x, 2, 1) for x in shards], weights, names="shards")
    puzzle.check_or_raises([x.T.contiguous().T for x in shards], weights, names="shards")


def test_shapes_weights_do_not_fit():
    shards, (a, b) = layer(2, 8, 6, 5)
    puzzle.check_or_raises(shards, [a], names="weights", answer=False)
    puzzle.check_or_raises(shards, [a, b, a], names="weights", answer=False)
    puzzle.check_or_raises(shards, [a[0], b[0]], names="weights", answer=False)
    puzzle.check_or_raises(shards, [a[:4], b[:4]], names="weights")
    puzzle.check_or_raises(shards, [a, b[:, :5]], names="weights", answer=False)
    puzzle.check_or_raises(shards, [a, b.bfloat16()], names="weights", answer=False)


# Any size and layout.


def test_masks_eight_ranks():
    # At least 64 tiles, however small the matrices are.
    puzzle.check(*layer(8, 3, 17, 16, make=integers))


@cases(rows=(True,), columns=(False,))
def test_masks_strided_weights(rows):
    shards, weights = layer(2, 33, 40, 50, make=integers)
    puzzle.check(shards, [strided(x, 3, 1) if rows else strided(x, 2, 3) for x in weights])


def test_masks_off_16_bytes():
    shards, weights = layer(2, 130, 64, 64, make=integers)
    puzzle.check([offset(x) for x in shards], [offset(x) for x in weights])


@cases(aligned=(2, 128, 768, 1024), odd=(2, 131, 513, 1031))
def test_masks_large(R, M, N, K):
    puzzle.check(*layer(R, M, N, K, make=integers))


def test_masks_more_programs_than_run_at_once():
    # A GPU starts them in their order, and the last when others end.
    puzzle.check(*layer(2, 20, 256 * 33, 16, make=integers))


def test_masks_offsets_beyond_32_bits():
    far = far_apart(integers(3, dtype="float16"))
    near = integers(1, 3, dtype="float16")
    puzzle.check([near], [far[:, None]])
    puzzle.check([near[:, :1].contiguous()], [far[None, :]])


def test_masks_result_beyond_32_bits():
    M, N = 2**16, 2**15 + 1
    shards, weights = layer(1, M, 1, 16)
    puzzle.check_large_offsets(shards, [x.expand(16, N) for x in weights])


def test_masks_limits():
    # Eight, which have a case above, wait for so long that nothing is left for the other sizes.
    puzzle.limits(
        lambda R, M, N, K: layer(R, M, N, K), dtypes=HALVES, R=4, M=2**14, N=2**14, K=2**14
    )


# Any value.


def test_numerics_two_runs_agree():
    run_twice.check(*layer(2, 70, 50, 300, "bfloat16"))


def test_numerics_infinity_stays_in_its_row():
    shards, weights = layer(2, 40, 33, 64)
    shards[1][7, 3], shards[0][39, 63] = float("inf"), float("nan")
    puzzle.check(shards, weights)


test_numerics_each_special_value = special_values(
    puzzle, lambda: layer(2, 40, 33, 64), "shards weights"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_each_peer_is_fetched_once():
    puzzle.traffic(*layer(2, 300, 1024, 32)).check(
        reads_by_launch={"shards": (1024 / 64, 1)}, writes=1, launches=2, scratch=1
    )


@cases(ragged=(2, 100, 70, 33), one_rank=(1, 128, 256, 64), large=(2, 128, 768, 1024))
def test_compiles(R, M, N, K):
    puzzle.compiles(*layer(R, M, N, K))


def test_compiles_transposed():
    shards, weights = layer(3, 256, 512, 128, "bfloat16")
    puzzle.compiles(shards, [x.T.contiguous().T for x in weights])


def test_speedup():
    shards = [randn(2048, 4096, dtype="bfloat16") for _ in range(2)]
    weights = [randn(4096, 4096, dtype="bfloat16") for _ in range(2)]
    work = (2 * 2 * 4096**3, "bfloat16")
    puzzle.race(shards, weights, at_least=0.9, operations=work, baseline="solution")
