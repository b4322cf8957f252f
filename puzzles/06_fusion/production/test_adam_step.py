"""Tests of 06.6, Adam step, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    backwards,
    cases,
    dtypes,
    far_apart,
    integers,
    offset,
    randn,
    strided,
    tensor,
    uniform,
)
from course.values import special_values

puzzle = challenge("adam_step", in_place=("param", "exp_avg", "exp_avg_sq"))

# step, lr, beta1, beta2, eps, weight_decay
USUAL = (10, 1e-2, 0.9, 0.999, 1e-8, 0.1)


def four(*shape, dtype="float32", moments=None):
    """param, grad, exp_avg, exp_avg_sq, such as training makes them."""
    moments = moments or dtype
    return (
        randn(*shape, dtype=dtype),
        randn(*shape, dtype=dtype),
        randn(*shape, dtype=moments) / 4,
        uniform(*shape, low=0.1, dtype=moments),
    )


# Bad input: the error that the spec names, or the right update.


def test_shapes_param_is_not_of_the_spec():
    puzzle.check_or_raises(*four(1, 2, 1, 2, 1), *USUAL, names="param")
    whole = [integers(4, dtype="int32") for _ in range(4)]
    puzzle.check_or_raises(*whole, *USUAL, names="param", answer=False)
    puzzle.check_or_raises(*four(4, 5, dtype="float64"), *USUAL, names="param")


def test_shapes_grad_does_not_fit():
    param, grad, m, v = four(4, 5)
    puzzle.check_or_raises(param, grad.T, m, v, *USUAL, names="grad")
    puzzle.check_or_raises(param, grad.half(), m, v, *USUAL, names="grad")
    half, _, m, v = four(4, 5, dtype="float16")
    puzzle.check_or_raises(half, grad, m, v, *USUAL, names="grad")


def test_shapes_a_moment_does_not_fit():
    param, grad, m, v = four(4, 5)
    puzzle.check_or_raises(param, grad, m[:1], v, *USUAL, names="exp_avg")
    puzzle.check_or_raises(param, grad, m.half(), v, *USUAL, names="exp_avg")
    puzzle.check_or_raises(param, grad, m, v[0], *USUAL, names="exp_avg_sq")
    puzzle.check_or_raises(param, grad, m, v.bfloat16(), *USUAL, names="exp_avg_sq")
    param, grad, m, v = four(4, 5, dtype="float16")
    puzzle.check_or_raises(param, grad, m.bfloat16(), v, *USUAL, names="exp_avg")
    puzzle.check_or_raises(param, grad, m, v.double(), *USUAL, names="exp_avg_sq")


@cases(zero=0, negative=-1)
def test_shapes_step_before_the_first(step):
    puzzle.check_or_raises(*four(4, 5), step, *USUAL[1:], names="step", answer=False)


# Any size and layout.


@cases(
    scalar=((),),
    matrix=((33, 41),),
    three_dimensions=((5, 6, 37),),
    four_dimensions=((3, 1, 5, 77),),
    empty=((0,),),
)
def test_shapes(shape):
    puzzle.check(*four(*shape), *USUAL)


def test_masks_all_strides_differ():
    param, grad, m, v = four(3, 4, 5, 21)
    puzzle.check(
        strided(param, 2, 1, 3, 2),
        grad.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0),
        m.permute(0, 2, 1, 3).contiguous().transpose(1, 2),
        offset(v),
        *USUAL,
    )


def test_masks_all_transposed():
    param, grad, m, v = four(41, 33)
    puzzle.check(param.T, grad.T, m.T, v.T, *USUAL)


def test_masks_one_gradient_for_all():
    param, _, m, v = four(20, 30)
    puzzle.check(param, randn(1).expand(20, 30), m, v, *USUAL)


@cases(param=0, grad=1, exp_avg=2, exp_avg_sq=3)
def test_masks_offsets_beyond_32_bits(which):
    tensors = list(four(3, dtype="float16"))
    tensors[which] = far_apart(tensors[which])
    puzzle.check(*tensors, *USUAL)


@cases(matrix=((70_000, 2),), four_dimensions=((300, 300, 1, 2),))
def test_masks_more_rows_than_axis_1_takes(shape):
    puzzle.check_grid(*four(*shape), *USUAL)


def test_masks_limits():
    puzzle.limits(
        lambda A, B, C, D: (*backwards(*four(D, C, B, A)), *USUAL),
        dtypes={"param grad exp_avg exp_avg_sq": FLOATS, "param grad": FLOATS},
        A=2**20,
        B=2**12,
        C=2**12,
        D=2**12,
    )


# Any dtype and value.


@dtypes("float16", "bfloat16")
def test_numerics_moments_in_float32(dtype):
    puzzle.check(*four(2000, dtype=dtype, moments="float32"), *USUAL)


@cases(exp_avg=2, exp_avg_sq=3)
def test_numerics_one_moment_in_float32(which):
    tensors = list(four(500, dtype="bfloat16"))
    tensors[which] = tensors[which].float()
    puzzle.check(*tensors, *USUAL)


@cases(first=1, second=2, sixteenth=16, late=100_000)
def test_numerics_step(step):
    param, grad, m, v = four(500)
    puzzle.check(param, grad, m * 0, v * 0, step, *USUAL[1:])
    puzzle.check(param, grad, m, v, step, *USUAL[1:])


def test_numerics_whole_number_options():
    # The parameter is larger than its update, so that the order of roundings does not matter.
    _, grad, m, v = four(500)
    puzzle.check(uniform(500, low=2, high=4), grad, m, v, 1, 1, 0, 0, 1, 0)


def test_numerics_zero_gradients():
    zeros = integers(100, low=0, high=1)
    puzzle.check(randn(100), zeros, zeros.clone(), zeros.clone(), *USUAL)


def test_numerics_special_values():
    inf, nan = float("inf"), float("nan")
    param, _, m, v = four(4)
    puzzle.check(param, tensor([nan, inf, 1e-30, 1.0]), m, v, *USUAL)


# Of an infinite param: param - lr * decay * param is inf - inf as the spec writes it, and
# param * (1 - lr * decay), as PyTorch multiplies, is inf. Of the largest exp_avg: m / correction
# overflows float32 if it is divided before it is multiplied by lr.
# torch.optim.AdamW makes NaN of an infinite exp_avg, the formula infinity.
test_numerics_each_special_value = special_values(
    puzzle,
    lambda: (*four(70), *USUAL),
    "param grad exp_avg exp_avg_sq",
    apart={"param": ("inf", "minus_inf"), "exp_avg": ("inf", "minus_inf", "largest")},
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed():
    changed = {"param": 1, "exp_avg": 1, "exp_avg_sq": 1}
    tensors = [tensor.T for tensor in four(40, 48)]
    puzzle.traffic(*tensors, *USUAL).check(reads=changed | {"grad": 1}, writes=changed, launches=1)


@dtypes("bfloat16", "float32")
def test_compiles_moments_in_float32(dtype):
    puzzle.compiles(*four(5000, dtype=dtype, moments="float32"), *USUAL)


def test_compiles_permuted():
    tensors = [tensor.permute(3, 2, 1, 0) for tensor in four(3, 4, 5, 21)]
    puzzle.compiles(*tensors, *USUAL)


def test_speedup():
    puzzle.race(*four(2**26), *USUAL, at_least=0.9, baseline="solution")
