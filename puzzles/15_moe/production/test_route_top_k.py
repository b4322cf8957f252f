"""Tests of 15.1, choose k experts, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, along, cases, dtypes, far_apart, integers, randn, strided, tensor
from course.values import special_values

puzzle = challenge("route_top_k", results=("weights", "experts", "balance"), deterministic=True)
INF, NAN = float("inf"), float("nan")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_logits_are_not_a_matrix():
    puzzle.check_or_raises(randn(8), 2, names="logits", answer=False)
    puzzle.check_or_raises(randn(2, 3, 8), 2, names="logits", answer=False)


def test_shapes_logits_of_another_dtype():
    puzzle.check_or_raises(randn(3, 8).double(), 2, names="logits", answer=False)
    puzzle.check_or_raises(integers(3, 8, dtype="int32"), 2, names="logits", answer=False)


def test_shapes_too_many_experts():
    puzzle.check_or_raises(randn(2, 1025), 2, names="logits")


@cases(none=0, negative=-1, more_than_there_are=9)
def test_shapes_k_out_of_range(k):
    puzzle.check_or_raises(randn(3, 8), k, names="k", answer=False)


# Any size and layout.


@cases(all_of_many=(3, 100, 100), most_experts=(2, 1024, 33), odd_k=(70, 40, 13))
def test_masks(T, E, k):
    puzzle.check(randn(T, E), k)


def test_masks_any_strides():
    puzzle.check(randn(12, 40).T, 3)
    puzzle.check(strided(randn(37, 20), 2, 3), 4)
    puzzle.check(randn(1, 20).expand(33, 20), 4)


@cases(tokens=0, experts=1)
def test_masks_offsets_beyond_32_bits(dim):
    puzzle.check(along(far_apart(randn(3, dtype="float16")), dim, 3, 3), 2)


def test_masks_results_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, 8, dtype="float16").expand(2**29, 8), 8)


def test_masks_limits():
    def build(T, E, k):
        # The spec ends at 1024 experts.
        logits = randn(T, min(E + k - 1, 2**10))
        # The last expert is among those chosen.
        logits[:, -1] = 9
        return logits, k

    puzzle.limits(build, dtypes=FLOATS, T=2**17, E=2**10, k=2**10)


# Any value.


@dtypes("float32", "float16", "bfloat16")
def test_numerics_special_values(dtype):
    logits = randn(12, 10, dtype=dtype)
    logits[1, 7], logits[2, 3:5] = INF, NAN
    logits[3, 2], logits[3, 6] = NAN, INF
    logits[4] = -INF
    logits[5, 1:] = -INF
    puzzle.check(logits, 3)


@dtypes("float32", "float16", "bfloat16")
def test_numerics_minus_0_equals_0(dtype):
    puzzle.check(tensor([[-0.0, 0.0, -0.0, -1.0], [0.0, -0.0, 1.0, 0.0]], dtype), 3)


def test_numerics_signs_of_nan():
    logits = randn(4, 6)
    logits[:, 2] = tensor([-1], "int32").view(logits.dtype)
    puzzle.check(logits, 2)


@dtypes("float32", "bfloat16")
def test_numerics_large_logits(dtype):
    puzzle.check(randn(30, 12, dtype=dtype) * 500, 4)


def test_numerics_next_to_each_other():
    # Neighbouring numbers of float32, and the least of float16.
    puzzle.check(1 + integers(9, 14) * 2.0**-23, 4)
    puzzle.check(integers(9, 14, dtype="float16") * 2.0**-24, 4)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(12, 10, dtype="float16"), 3), "logits"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    logits = randn(60, 512, dtype="float16").T
    puzzle.traffic(logits, 6).check(reads=1, writes=1, launches=2)


@cases(k_of_1=(1, 1, 1), all_of_1024=(64, 1024, 1024), ragged=(33, 60, 6))
def test_compiles(T, E, k):
    puzzle.compiles(randn(T, E, dtype="float16"), k)


def test_speedup():
    puzzle.race(randn(262144, 64, dtype="bfloat16"), 8, at_least=0.9, baseline="solution")
