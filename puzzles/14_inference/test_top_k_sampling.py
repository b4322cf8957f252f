"""Tests of 14.4, top-k sampling."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, sampling

puzzle = challenge("top_k_sampling")


def check(logits, *how):
    puzzle.check(logits, *sampling(logits, *how))


@cases(five_of_300=(8, 300, 5), the_best=(2, 300, 1), more_than_there_are=(3, 7, 20), one=(1, 1, 1))
def test_shapes(B, V, k):
    check(randn(B, V), k)


@cases(one_past_a_block=(4097, 5), ragged=(1000, 50))
def test_masks(V, k):
    check(randn(2, V) * 2, k)


def test_masks_running_sum_goes_on_from_block_to_block():
    logits = randn(2, 6000)
    logits[:, 5000:] += 4
    check(logits, 6000)


@cases(all_below_0=-60.0, all_above_0=60.0)
def test_masks_what_is_past_the_end_is_no_token(shift):
    check(randn(2, 300) + shift, 300)


def test_masks_negative_logits():
    # Without a positive one, and so many that most must be left out.
    check(-randn(2, 300).abs() - 1, 5)


def test_masks_banned_tokens():
    logits = randn(2, 300)
    logits[:, ::2] = float("-inf")
    logits[1, 2:] = float("-inf")
    check(logits, 50)


@cases(few=(8, 20, 0.6), the_best_alone=(2, 300, 0.05), in_blocks=(2, 4097, 0.9))
def test_masks_mass_of_p(B, k, p):
    check(randn(B, max(k, 300)) * 3, k, 1.0, p)


@cases(colder=(8, 0.7, 1.0), hotter_with_p=(2, 1.3, 0.6))
def test_numerics_temperature(B, temperature, p):
    check(randn(B, 300) * 2, 20, temperature, p)


@cases(at_k=(5, 1.0), at_both=(40, 0.8))
def test_numerics_equal_tokens_stay_together(k, p):
    check(integers(2, 300), k, 1.0, p)


def test_numerics_all_equal():
    check(integers(2, 300, low=2, high=3), 1)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    check(randn(2, 1000, dtype=dtype) * 2, 50, 0.9)


@cases(k_alone=(1.0, 40), k_and_p=(0.9, 72))
def test_traffic(p, times):
    logits = randn(2, 2048) * 2
    puzzle.traffic(logits, *sampling(logits, 50, 0.7, p)).check(
        reads={"logits": times}, writes=1, largest_write=2 * 2048 // 8
    )


def test_compiles():
    logits = randn(2, 5000)
    puzzle.compiles(logits, *sampling(logits, 50, 0.7, 0.9))


def test_speedup():
    logits = randn(64, 128256) * 2
    puzzle.race(logits, *sampling(logits, 50, 0.7, 0.9), at_least=0.8)
