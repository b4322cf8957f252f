"""Tests of 06.6, Adam step."""

from course.challenge import challenge
from course.inputs import cases, dtypes, randn, uniform

puzzle = challenge("adam_step", in_place=("param", "exp_avg", "exp_avg_sq"))

# step, lr, beta1, beta2, eps, weight_decay
USUAL = (10, 1e-2, 0.9, 0.999, 1e-8, 0.1)


def four(N, dtype="float32"):
    """param, grad, exp_avg, exp_avg_sq, such as training makes them."""
    param, grad, m = (randn(N, dtype=dtype) for _ in range(3))
    return param, grad, m / 4, uniform(N, low=0.1, dtype=dtype)


@cases(several_blocks=8192, one_block=1024, single_element=1)
def test_shapes(N):
    puzzle.check(*four(N), *USUAL)


@cases(one_short_of_a_block=1023, one_past_a_block=1025, ragged=20001)
def test_masks(N):
    puzzle.check(*four(N), *USUAL)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*four(2000, dtype), *USUAL)


def test_numerics_decay_is_decoupled():
    # With a gradient of 0 only the decay moves the parameter, and it does not reach the moments.
    param, grad, m, v = four(500)
    puzzle.check(param, grad * 0, m * 0, v, 3, 0.1, 0.9, 0.999, 1e-8, 0.5)


@cases(first=1, second=2)
def test_numerics_bias_correction(step):
    param, grad, m, v = four(500)
    puzzle.check(param, grad, m * 0, v * 0, step, *USUAL[1:])


def test_numerics_eps_outside_the_root():
    param, grad, m, v = four(500)
    puzzle.check(param, grad * 1e-4, m * 1e-4, v * 1e-8, 5, 1e-2, 0.9, 0.99, 1e-3, 0.0)


def test_numerics_update_from_unrounded_moments():
    # v rounds to 0 in float16; an update that divides by its root is a thousand times too large.
    param, grad, m, v = four(500, "float16")
    puzzle.check(param, grad.sign() * 1e-3, m * 0, v * 0, 1, *USUAL[1:])


def test_traffic():
    changed = {"param": 1, "exp_avg": 1, "exp_avg_sq": 1}
    puzzle.traffic(*four(5000), *USUAL).check(
        reads=changed | {"grad": 1}, writes=changed, launches=1, sectors=1.1
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*four(5000, dtype), *USUAL)


def test_speedup():
    puzzle.race(*four(2**26), *USUAL, at_least=2)
