"""What 07.6, autotuned matmul, is held to."""

from triton.runtime.autotuner import Autotuner

from judge.challenge import challenge
from judge.core.verdict import Wrong
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided
from judge.subject.autotuning import ConfigSweep

# check and compiles go through every configuration.
puzzle = challenge("autotuned_matmul", input_precision="tf32")


def two(M, N, K, dtype="float32", make=randn):
    return make(M, K, dtype=dtype), make(K, N, dtype=dtype)


def climbing(M, K, dtype):
    """Rows that sum up to 4096 on their way to a small sum: 16 bits lose odd numbers up there."""
    a = integers(M, K, dtype=dtype)
    a[:, : K // 2] += 8
    a[:, K // 2 :] -= 8
    return a


@cases(one_row=(1, 70, 40), one_column=(70, 1, 40), single_element=(1, 1, 1))
def test_shapes(M, N, K):
    puzzle.check(*two(M, N, K))


def test_shapes_of_bad_input():
    a, b = two(8, 6, 5)
    puzzle.rejects(ValueError, a[0], b, naming="a")
    puzzle.rejects(ValueError, a[None], b, naming="a")
    puzzle.rejects(ValueError, a.double(), b.double(), naming="a")
    puzzle.rejects(ValueError, integers(8, 5, dtype="int32"), b, naming="a")
    puzzle.rejects(ValueError, a, b[:, 0], naming="b")
    puzzle.rejects(ValueError, a, b[:, :, None], naming="b")
    puzzle.rejects(ValueError, a, b[:4], naming="b")
    puzzle.rejects(ValueError, a, b.T, naming="b")
    puzzle.rejects(ValueError, a, b.half(), naming="b")


def test_shapes_of_the_configurations():
    puzzle.check(*two(16, 16, 16))
    found = [v for v in puzzle.subject.__globals__.values() if isinstance(v, Autotuner)]
    count = max([len({str(c) for c in tuner.configs}) for tuner in found], default=0)
    if count < 4:
        raise Wrong(
            f"the kernel has {count} different configurations, the spec asks for 4 at least\n"
            "hint: @triton.autotune(configs=[triton.Config({...}, num_warps=8), ...], key=[...])"
        )


def test_shapes_each_tuned_anew():
    # Parts of the same matrices: only the sizes tell these products apart.
    a, b = two(64, 64, 64)
    sizes = [(32, 32, 32), (64, 32, 32), (32, 64, 32), (32, 32, 64)]
    for M, N, K in sizes:
        puzzle.check(a[:M, :K], b[:K, :N])
    with ConfigSweep(0) as sweep:
        for M, N, K in sizes:
            puzzle.subject(a[:M, :K], b[:K, :N])
    if sweep.keys < len(sizes):
        raise Wrong(
            f"the products (M, N, K) = {sizes} are tuned {sweep.keys} times, the spec asks for a "
            "choice for each\nhint: key=[...] names the arguments that tell them apart"
        )


@cases(
    ragged_everywhere=(67, 35, 131),
    several_tiles_each_way=(150, 270, 40),
    no_multiple_of_a_large_step=(20, 24, 130),
)
def test_masks(M, N, K):
    puzzle.check(*two(M, N, K, make=integers))


def test_masks_all_strides_differ():
    puzzle.check(strided(integers(50, 37), 2, 3).T, strided(offset(integers(50, 41)), 5, 2))


def test_masks_offsets_beyond_32_bits():
    far, near = far_apart(integers(3, dtype="float16")), integers(3, dtype="float16")
    puzzle.check(far[:, None], near[None, :])
    puzzle.check(near[:, None], far[None, :])
    puzzle.check(far[None, :], near[:, None])
    puzzle.check(near[None, :], far[:, None])


def test_masks_steps_beyond_32_bits():
    # Only a stride times the length of a step overflows: 65 is one past the first step.
    far, near = far_apart(integers(65, dtype="float16")), integers(65, dtype="float16")
    puzzle.check(far[None, :], near[:, None])
    puzzle.check(near[None, :], far[:, None])


def test_masks_result_beyond_32_bits():
    a, b = randn(1, 16, dtype="float16"), randn(16, 1, dtype="float16")
    puzzle.check_large_offsets(a.expand(2**16, 16), b.expand(16, 2**15 + 1))


def test_masks_one_size_after_another():
    # What was tuned for one problem must not break the next.
    a, b = two(40, 40, 40, make=integers)
    puzzle.check(a, b)
    puzzle.check(a[:, :3], b[:3])
    puzzle.check(a[:3], b)


def test_masks_more_tiles_than_axis_1_takes():
    a, b = two(1, 1, 1, "float16")
    puzzle.check_grid(a, b.expand(1, 2**24 + 1))
    puzzle.check_grid(a.expand(2**23 + 1, 1), b)


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*two(33, 40, 200, dtype))


@dtypes("float16")
def test_numerics_sums_in_float32(dtype):
    ones = integers(1024, 16, low=1, high=2, dtype=dtype)
    puzzle.check_exactly(climbing(16, 1024, dtype), ones)


@dtypes("bfloat16", "float32")
def test_numerics_range_of_float32(dtype):
    # Rounded to float16 on the way, these are inf.
    a, b = two(20, 24, 70, dtype)
    puzzle.check(a * 1e6, b)


def test_traffic():
    puzzle.traffic(*two(96, 160, 64, "float16")).check(writes=1, launches=1)


def test_traffic_transposed_operands():
    puzzle.traffic(randn(40, 64).T, randn(96, 40).T).check(writes=1, launches=1)


def test_traffic_long_sums():
    puzzle.traffic(*two(16, 16, 8192, "float16")).check(writes=1, launches=1)


@dtypes("float16", "float32")
def test_compiles(dtype):
    puzzle.compiles(*two(64, 128, 64, dtype), every_config=True)


def test_compiles_ragged():
    puzzle.compiles(
        randn(35, 67, dtype="bfloat16").T, randn(35, 33, dtype="bfloat16"), every_config=True
    )


def test_compiles_every_config():
    # Configs of large tiles may be left out where a product is small.
    puzzle.compiles(*two(256, 256, 64, "float16"), every_config=True)


def test_speedup():
    inputs = two(4096, 4096, 4096, "float16")
    puzzle.race(*inputs, at_least=0.8, operations=(2 * 4096**3, "float16"))
