"""What 06.6, Adam step, is held to."""

from judge.challenge import challenge
from judge.inputs import cases, dtypes, far_apart, integers, offset, randn, strided, tensor, uniform

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


@cases(
    scalar=((),),
    vector=((1000,),),
    matrix=((33, 41),),
    three_dimensions=((5, 6, 37),),
    four_dimensions=((3, 1, 5, 77),),
    empty=((0,),),
)
def test_shapes(shape):
    puzzle.check(*four(*shape), *USUAL)


def test_shapes_of_bad_input():
    param, grad, m, v = four(4, 5)
    puzzle.rejects(ValueError, *four(1, 2, 1, 2, 1), *USUAL, naming="param")
    puzzle.rejects(ValueError, *[integers(4, dtype="int32")] * 4, *USUAL, naming="param")
    puzzle.rejects(ValueError, *four(4, 5, dtype="float64"), *USUAL, naming="param")
    puzzle.rejects(ValueError, param, grad.T, m, v, *USUAL, naming="grad")
    puzzle.rejects(ValueError, param, grad.half(), m, v, *USUAL, naming="grad")
    puzzle.rejects(ValueError, param, grad, m[:1], v, *USUAL, naming="exp_avg")
    puzzle.rejects(ValueError, param, grad, m.half(), v, *USUAL, naming="exp_avg")
    puzzle.rejects(ValueError, param, grad, m, v[0], *USUAL, naming="exp_avg_sq")
    puzzle.rejects(ValueError, param, grad, m, v.bfloat16(), *USUAL, naming="exp_avg_sq")
    puzzle.rejects(ValueError, param, grad, m, v, 0, *USUAL[1:], naming="step")
    puzzle.rejects(ValueError, param, grad, m, v, -1, *USUAL[1:], naming="step")
    half, _, m, v = four(4, 5, dtype="float16")
    puzzle.rejects(ValueError, half, grad, m, v, *USUAL, naming="grad")
    puzzle.rejects(ValueError, half, half, m.bfloat16(), v, *USUAL, naming="exp_avg")
    puzzle.rejects(ValueError, half, half, m, v.double(), *USUAL, naming="exp_avg_sq")


@cases(single_element=1, one_short_of_a_block=1023, one_past_a_block=1025, ragged=1279)
def test_masks(N):
    puzzle.check(*four(N), *USUAL)


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


@dtypes("float16", "bfloat16", "float32")
def test_numerics(dtype):
    puzzle.check(*four(2000, dtype=dtype), *USUAL)


@dtypes("float16", "bfloat16")
def test_numerics_moments_in_float32(dtype):
    puzzle.check(*four(2000, dtype=dtype, moments="float32"), *USUAL)


@cases(exp_avg=2, exp_avg_sq=3)
def test_numerics_one_moment_in_float32(which):
    tensors = list(four(500, dtype="bfloat16"))
    tensors[which] = tensors[which].float()
    puzzle.check(*tensors, *USUAL)


@dtypes("float16")
def test_numerics_step_from_unrounded_moments(dtype):
    # v rounds to 0 in float16; a step that divides by its root is a thousand times too long.
    param, grad, m, v = four(500, dtype=dtype)
    puzzle.check(param, grad.sign() * 1e-3, m * 0, v * 0, 1, *USUAL[1:])


@cases(first=1, second=2, sixteenth=16, late=100_000)
def test_numerics_step(step):
    param, grad, m, v = four(500)
    puzzle.check(param, grad, m * 0, v * 0, step, *USUAL[1:])
    puzzle.check(param, grad, m, v, step, *USUAL[1:])


def test_numerics_decay_is_decoupled():
    # With a gradient of 0 only the decay moves the parameter; it does not reach the moments.
    param, grad, m, v = four(500)
    puzzle.check(param, grad * 0, m * 0, v, 3, 0.1, 0.9, 0.999, 1e-8, 0.5)


def test_numerics_whole_number_options():
    puzzle.check(*four(500), 1, 1, 0, 0, 1, 0)


def test_numerics_eps_outside_the_root():
    param, grad, m, v = four(500)
    puzzle.check(param, grad * 1e-4, m * 1e-4, v * 1e-8, 5, 1e-2, 0.9, 0.99, 1e-3, 0.0)


def test_numerics_zero_gradients():
    zeros = integers(100, low=0, high=1)
    puzzle.check(randn(100), zeros, zeros.clone(), zeros.clone(), *USUAL)


def test_numerics_special_values():
    inf, nan = float("inf"), float("nan")
    param, _, m, v = four(4)
    puzzle.check(param, tensor([nan, inf, 1e-30, 1.0]), m, v, *USUAL)


def test_traffic():
    everything = {"param": 1, "exp_avg": 1, "exp_avg_sq": 1}
    puzzle.traffic(*four(5000), *USUAL).check(
        reads=everything | {"grad": 1}, writes=everything, launches=1, sectors=1.1
    )


def test_traffic_transposed():
    everything = {"param": 1, "exp_avg": 1, "exp_avg_sq": 1}
    tensors = [tensor.T for tensor in four(40, 48)]
    puzzle.traffic(*tensors, *USUAL).check(
        reads=everything | {"grad": 1}, writes=everything, launches=1
    )


@dtypes("bfloat16", "float32")
def test_compiles(dtype):
    puzzle.compiles(*four(5000, dtype=dtype, moments="float32"), *USUAL)


def test_compiles_permuted():
    tensors = [tensor.permute(3, 2, 1, 0) for tensor in four(3, 4, 5, 21)]
    puzzle.compiles(*tensors, *USUAL)


def test_speedup():
    puzzle.race(*four(2**26), *USUAL, at_least=4)
