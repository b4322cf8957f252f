"""Tests of 08.6, momentum step."""

from course.challenge import broken_rule, challenge
from course.inputs import cases, dtypes, integers, randn

# check goes through every configuration, and runs the first call for a size as tuning does.
puzzle = challenge("momentum_step", in_place=("param", "velocity"), names_causes=False)


def three(*shape, dtype="float32", make=randn):
    """param, grad, velocity."""
    return tuple(make(*shape, dtype=dtype) for _ in range(3))


@cases(vector=((5000,),), matrix=((33, 41),), single_element=((1,),))
def test_shapes(shape):
    puzzle.check(*three(*shape), 0.1, 0.9)


def test_shapes_three_configurations():
    if (count := puzzle.declared_configs(*three(5000), 0.1, 0.9)) < 3:
        raise broken_rule(
            f"the autotuner chooses among {count} configurations, the spec asks for at least 3",
            "one configuration hides the fault, and is slow for some sizes",
        )


@cases(one_short_of_a_block=1023, one_past_a_block=4097, ragged=20_001)
def test_masks(N):
    puzzle.check(*three(N, make=integers), 0.5, 0.5)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(*three(5000, dtype=dtype), 0.1, 0.9)


def test_numerics_velocity_is_kept():
    param, _, velocity = three(500)
    puzzle.check(param, param * 0, velocity, 0.1, 0.5)


def test_numerics_step_from_the_unrounded_velocity():
    # The velocity rounds to 0 in float16; lr makes a number of it that does not.
    param, grad, velocity = three(500, dtype="float16")
    puzzle.check(param * 0, grad.sign() * 2.0**-24, velocity.sign() * 2.0**-24, 4096, 0.25)


def test_traffic():
    changed = {"param": 1, "velocity": 1}
    puzzle.traffic(*three(5000), 0.1, 0.9).check(
        reads=changed | {"grad": 1}, writes=changed, launches=1, sectors=1.1
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(*three(5000, dtype=dtype), 0.1, 0.9)


def test_speedup():
    puzzle.race(*three(2**26), 0.1, 0.9, at_least=1.6)
