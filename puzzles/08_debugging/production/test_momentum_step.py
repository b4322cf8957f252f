"""Tests of 08.6, momentum step, in production."""

from course.challenge import broken_rule, challenge
from course.inputs import FLOATS, cases, integers, offset, randn, strided, tensor
from course.values import special_values
from kernelgauge.subject.autotuning import ConfigSweep

puzzle = challenge("momentum_step", in_place=("param", "velocity"), names_causes=False)


def three(*shape, dtype="float32", make=randn):
    """param, grad, velocity."""
    return tuple(make(*shape, dtype=dtype) for _ in range(3))


# Bad input: the error that the spec names, or the right step.


def test_shapes_param_of_another_dtype():
    whole = three(4, dtype="int32", make=integers)
    puzzle.check_or_raises(*whole, 0.1, 0.9, names="param", answer=False)
    puzzle.check_or_raises(*three(4, dtype="float64"), 0.1, 0.9, names="param")


def test_shapes_one_does_not_fit():
    param, grad, velocity = three(4, 5)
    puzzle.check_or_raises(param, grad.T.contiguous(), velocity, 0.1, 0.9, names="grad")
    puzzle.check_or_raises(param, grad.half(), velocity, 0.1, 0.9, names="grad")
    puzzle.check_or_raises(param, grad, velocity[:2], 0.1, 0.9, names="velocity")
    puzzle.check_or_raises(param, grad, velocity.half(), 0.1, 0.9, names="velocity")


@cases(param=0, grad=1, velocity=2)
def test_shapes_one_is_not_contiguous(which):
    tensors = list(three(8, 6))
    tensors[which] = strided(tensors[which], 2, 1)
    puzzle.check_or_raises(*tensors, 0.1, 0.9, names=("param", "grad", "velocity")[which])


def test_shapes_each_size_is_tuned():
    tensors = three(64)
    with ConfigSweep(0) as sweep:
        for N in (64, 32, 16):
            puzzle.subject(*(x[:N] for x in tensors), 0.1, 0.9)
    if sweep.keys < 3:
        raise broken_rule(
            f"the sizes 64, 32 and 16 are tuned {sweep.keys} times, the spec asks for a choice "
            "for each",
            "key=[...] names the arguments that tell them apart",
        )


# Any size and layout.


@cases(scalar=((),), empty=((0,),), four_dimensions=((3, 1, 5, 77),))
def test_shapes(shape):
    puzzle.check(*three(*shape), 0.1, 0.9)


def test_masks_unaligned():
    puzzle.check(*map(offset, three(5000, make=integers)), 0.5, 0.5)


def test_masks_one_size_after_another():
    for N in (5000, 3, 700):
        puzzle.check(*three(N, make=integers), 0.5, 0.5)


def test_masks_limits():
    puzzle.limits(lambda N: (*three(N), 0.5, 0.5), dtypes=FLOATS, N=2**20)


# Any value.


def test_numerics_whole_number_options():
    puzzle.check(*three(500), 1, 0)
    puzzle.check(*three(500), 16, 1)


def test_numerics_special_values():
    inf, nan = float("inf"), float("nan")
    param, _, velocity = three(4)
    puzzle.check(param, tensor([nan, inf, -inf, 1.0]), velocity, 0.1, 0.9)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (*three(70), 0.1, 0.9), "param grad velocity"
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(first=0, second=1, third=2)
def test_traffic_of_every_config(config):
    changed = {"param": 1, "velocity": 1}
    puzzle.traffic(*three(5000), 0.1, 0.9, config=config).check(
        reads=changed | {"grad": 1}, writes=changed, launches=1, sectors=1.1
    )


def test_compiles_whole_number_options():
    puzzle.compiles(*three(5000), 1, 16, every_config=True)


def test_speedup():
    puzzle.race(*three(2**26), 0.1, 0.9, at_least=0.9, baseline="solution")
