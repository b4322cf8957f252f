"""Tests of 09.5, pruned matmul."""

from course.challenge import broken_rule, challenge
from course.inputs import cases, dtypes, integers, matrices, strided

# check goes through every configuration that is kept.
puzzle = challenge("pruned_matmul", input_precision="tf32")


def traffic_of_each(M, N, K, multiprocessors):
    with puzzle.given(multiprocessors=multiprocessors):
        inputs = matrices(M, N, K, "float16")
        for config in range(puzzle.configs(*inputs)):
            yield puzzle.traffic(*inputs, config=config)


@cases(one_tile=(32, 32, 32), one_row=(1, 70, 40), one_column=(70, 1, 40), single_element=(1, 1, 1))
def test_shapes(M, N, K):
    puzzle.check(*matrices(M, N, K, make=integers))


def test_shapes_twelve_configurations():
    count = puzzle.declared_configs(*matrices(16, 16, 16))
    if count < 12:
        raise broken_rule(f"the kernel has {count} different configurations, the spec asks for 12")


@dtypes("float16", "float32")
@cases(single_element=(1, 1, 1), flat=(16, 999, 64), large=(999, 1200, 20), long_sums=(64, 64, 999))
def test_shapes_four_are_kept(M, N, K, dtype):
    for count in (4, 132):
        with puzzle.given(multiprocessors=count):
            kept = puzzle.configs(*matrices(M, N, K, dtype))
        if kept > 4:
            raise broken_rule(
                f"{kept} configurations are kept for {M} x {N} x {K} on {count} multiprocessors, "
                "the spec asks for 1 to 4",
                "top_k takes those of the least perf_model",
            )


@cases(ragged_everywhere=(67, 35, 131), many_rows=(257, 40, 20), many_columns=(40, 290, 20))
def test_masks(M, N, K):
    puzzle.check(*matrices(M, N, K, make=integers))


def test_masks_any_strides():
    puzzle.check(integers(56, 40).T, strided(integers(56, 24), 5, 2))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*matrices(33, 40, 300, dtype))


@cases(flat=(16, 1024), tall=(1024, 16))
def test_traffic_no_work_for_nothing(M, N):
    for traffic in traffic_of_each(M, N, 64, multiprocessors=64):
        traffic.check(writes=1, launches=1, dot_macs=4 * M * N * 64)


def test_traffic_large_tiles():
    for traffic in traffic_of_each(512, 512, 16, multiprocessors=4):
        traffic.check(reads={"a": 512 / 64, "b": 512 / 64}, writes=1, launches=1)


def test_traffic_work_for_all():
    for traffic in traffic_of_each(512, 512, 16, multiprocessors=64):
        traffic.check(programs_at_least=32, writes=1, launches=1)


# Every configuration that is kept, for two GPUs; production has other shapes.
def test_compiles():
    with puzzle.given(multiprocessors=2):
        puzzle.compiles(*matrices(256, 256, 64, "float32"), every_config=True)


def test_speedup_square():
    inputs = matrices(4096, 4096, 4096, "float16")
    puzzle.race(*inputs, at_least=0.6, operations=(2 * 4096**3, "float16"))


def test_speedup_flat():
    puzzle.race(*matrices(16, 16384, 16384, "float16"), at_least=0.5)
