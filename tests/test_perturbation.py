"""kernelgauge.numerics.perturbation: sizes and yardsticks that come from disturbing a reference."""

from __future__ import annotations

import pytest
import torch

from kernelgauge.numerics import compare, perturbation
from kernelgauge.numerics.perturbation import rounded_runs, term_size


@pytest.fixture
def x():
    return torch.randn(40, 60, generator=torch.Generator().manual_seed(0))


def near(size, expected):
    """Return whether a size is within the spread of an estimate from many runs."""
    ratio = size / expected
    return bool(((ratio > 0.3) & (ratio < 3)).all())


def test_the_size_of_a_sum_is_that_of_its_terms(x):
    (size,) = term_size(lambda x: x.sum(1), [x], runs=16)
    assert size.dtype == torch.float64
    assert near(size, x.double().square().sum(1).sqrt())


def test_the_size_of_a_product_of_matrices(x):
    (size,) = term_size(lambda a, b: a @ b, [x[:20], x[20:].T], runs=16)
    assert near(size, 2**0.5 * (x[:20].double() ** 2 @ x[20:].double().T ** 2).sqrt())


def test_the_size_of_a_pointwise_result_follows_its_slope(x):
    (size,) = term_size(lambda x: x.exp(), [x - 50], runs=16)
    assert near(size, (x.double() - 50).abs() * (x.double() - 50).exp())


def test_terms_that_cancel_between_steps_count(x):
    (size,) = term_size(lambda x: (x + 100) - 100, [x], runs=16)
    assert near(size, 100.0)


def test_equal_terms_are_not_moved_alike(x):
    (size,) = term_size(lambda a, b: a - b, [x, x], runs=1)
    assert (size > 0.01 * x.abs()).double().mean() > 0.95


def test_a_result_in_8_bits_has_a_size(x):
    (size,) = term_size(lambda x: (x * 2**26).to(torch.float8_e4m3fn), [x])
    assert size.shape == x.shape
    assert size.dtype == torch.float64


def test_every_result_has_its_size(x):
    def reference(x, scale, index):
        return (x * scale).sum(1), x.argmax(1), torch.view_as_complex(x.reshape(-1, 2))[index]

    index = torch.tensor([3, 4])
    sums, indices, numbers = term_size(reference, [x, 2.0, index], runs=16)
    assert near(sums, 2 * x.double().square().sum(1).sqrt())
    assert (indices == 0).all()
    assert numbers.shape == (2,)
    assert index.tolist() == [3, 4]


def test_inputs_are_not_changed(x):
    before = x.clone()
    term_size(lambda x: x * 2, [x])
    rounded_runs(lambda x: x * 2, [x], torch.float16)
    assert torch.equal(x, before)


def test_one_step_loses_half_an_ulp_at_most(x):
    (runs,) = rounded_runs(lambda x: x.sum(1), [x], torch.float16)
    truth = x.double().sum(1)
    for run in runs:
        loss = (run - truth).abs()
        assert (loss <= compare.spacing(truth.abs(), torch.float16) / 2).all()
        assert loss.max() > 0


def test_a_large_result_is_disturbed_in_pieces(x, monkeypatch):
    monkeypatch.setattr(perturbation, "PIECE", 1000)
    ((run,),) = rounded_runs(lambda x: x.T + 1, [x], torch.bfloat16, runs=1)
    exact = x.T.double() + 1
    lost = (run - exact) / compare.spacing(exact.abs(), torch.bfloat16)
    assert (lost.abs() <= 0.5).all()
    assert lost.reshape(-1)[::50].unique().numel() == 48


def test_moving_numbers_about_loses_nothing(x):
    def reference(x):
        return torch.where(x > 0, x, -x).T.reshape(-1).clone()

    (runs,) = rounded_runs(reference, [x], torch.float16)
    assert all(torch.equal(run, reference(x.double())) for run in runs)


def test_steps_that_round_alike_and_cancel_show_in_the_runs(x):
    def reference(x):
        return x * 3 - (x + 1e-9) * 3

    half = x.half()
    assert (reference(half) == 0).all()
    (runs,) = rounded_runs(reference, [half], torch.float16)
    lost = torch.stack(runs).abs().amax(0)
    # By luck the runs of a single element can agree.
    assert near(lost.mean(1), compare.spacing(3 * half.double().abs(), torch.float16).mean(1))


def test_the_same_seed_gives_the_same_runs(x):
    def runs(seed):
        return rounded_runs(lambda x: x.exp() + 1, [x], torch.bfloat16, seed=seed)[0]

    assert all(torch.equal(a, b) for a, b in zip(runs(1), runs(1), strict=True))
    assert not torch.equal(runs(1)[0], runs(2)[0])
    assert not torch.equal(runs(1)[0], runs(1)[1])


def test_gradients_of_a_reference_are_disturbed_too(x):
    def reference(x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad((x * x * x).sum(), x)[0]

    (size,) = term_size(reference, [x], runs=16)
    assert near(size, 3 * 6**0.5 * x.double() ** 2)
