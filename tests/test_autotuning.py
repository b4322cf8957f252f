"""Autotuned kernels under the judge: every config, and hooks as Triton calls them."""

from __future__ import annotations

import contextlib

import pytest
import torch
import triton
import triton.language as tl

from judge.subject import autotuning
from judge.subject.autotuning import ConfigSweep

INTERPRETED = triton.knobs.runtime.interpret

pytestmark = pytest.mark.skipif(
    not (INTERPRETED or torch.cuda.is_available()), reason="needs TRITON_INTERPRET=1 or a GPU"
)

BEFORE_3_8 = tuple(map(int, triton.__version__.split(".")[:2])) < (3, 8)


@pytest.fixture(autouse=True)
def _installed(monkeypatch):
    from triton.runtime.autotuner import Autotuner

    monkeypatch.setattr(Autotuner, "run", Autotuner.run)
    autotuning.install()


def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device="cpu" if INTERPRETED else "cuda")


def filled(count: int, *, value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return zeros(count, dtype=dtype) + value


def configs(*blocks: int, **options) -> list[triton.Config]:
    return [triton.Config({"BLOCK": block}, **options) for block in blocks]


@triton.jit
def _add_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    tl.atomic_add(y_ptr + offs, tl.load(x_ptr + offs, mask=mask), mask=mask)


@triton.jit
def _block_kernel(y_ptr, N, BLOCK: tl.constexpr):
    tl.store(y_ptr, BLOCK)


@triton.jit
def _two_kernel(y_ptr, BLOCK: tl.constexpr, DOUBLE: tl.constexpr):
    tl.store(y_ptr, BLOCK)
    tl.store(y_ptr + 1, DOUBLE)


def tuned(kernel=_block_kernel, choices=(16, 32, 64), key=("N",), **options):
    return triton.autotune(configs=configs(*choices), key=list(key), **options)(kernel)


def launched(kernel, index: int, N: int = 8) -> int:
    y = zeros(1)
    with ConfigSweep(index):
        kernel[(1,)](y, N)
    return y.item()


def add(kernel, y: torch.Tensor, *, amount: float = 1.0) -> None:
    x = torch.full_like(y, amount)
    N = y.numel()
    kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](x, y, N)


@pytest.mark.parametrize(("index", "block"), [(0, 16), (1, 32), (2, 64), (7, 64)])
def test_sweep_picks_the_config_of_its_number(index, block):
    assert launched(tuned(), index) == block


def test_sweep_tells_what_was_used():
    kernel, y = tuned(), zeros(1)
    with ConfigSweep(1) as sweep:
        kernel[(1,)](y, 8)
        kernel[(1,)](y, 8)
        tuned(choices=(16, 32))[(1,)](y, 8)
    assert sweep.count == 3
    assert sweep.used == ["_block_kernel(BLOCK=32, num_warps=4, num_stages=3)"]


def test_nothing_autotuned_counts_no_config():
    with ConfigSweep(0) as sweep:
        _block_kernel[(1,)](zeros(1), 8, BLOCK=16)
    assert (sweep.count, sweep.used) == (0, [])


@pytest.mark.skipif(not INTERPRETED, reason="a GPU measures")
def test_without_a_sweep_the_first_config_is_used():
    y = zeros(1)
    tuned()[(1,)](y, 8)
    assert y.item() == 16


def test_grid_sees_the_config():
    y = filled(40, value=0)
    with ConfigSweep(2):
        add(tuned(_add_kernel), y)
    assert (y == 1).all()


def test_early_pruning_narrows_the_choice():
    def keep_small(choices, named, **_):
        return [config for config in choices if config.kwargs["BLOCK"] <= named["N"]]

    kernel = tuned(prune_configs_by={"early_config_prune": keep_small})
    assert launched(kernel, 2, N=40) == 32
    assert launched(kernel, 2, N=64) == 64
    with ConfigSweep(0) as sweep:
        kernel[(1,)](zeros(1), 40)
    assert sweep.count == 2


def test_pruning_happens_once_for_a_key():
    asked = []

    def keep_all(choices, named, **_):
        asked.append(named["N"])
        return choices

    kernel = tuned(prune_configs_by={"early_config_prune": keep_all})
    y = zeros(1)
    with ConfigSweep(0):
        for N in (8, 8, 9):
            kernel[(1,)](y, N)
    assert asked == [8, 9]


def test_performance_model_orders_and_cuts():
    kernel = tuned(prune_configs_by={"perf_model": lambda BLOCK, **_: -BLOCK, "top_k": 2})
    assert [launched(kernel, index) for index in (0, 1, 2)] == [64, 32, 32]


def test_pruning_everything_is_an_error():
    from triton.runtime.errors import AutotunerError

    kernel = tuned(prune_configs_by={"early_config_prune": lambda *_, **__: []})
    with pytest.raises(AutotunerError, match="at least one config"):
        launched(kernel, 0)


def test_single_config_is_not_pruned():
    kernel = tuned(choices=(16,), prune_configs_by={"early_config_prune": lambda *_, **__: []})
    assert launched(kernel, 0) == 16


def test_heuristics_above_and_below():
    double = triton.heuristics({"DOUBLE": lambda named: 2 * named["BLOCK"]})
    below = triton.autotune(configs(16, 32), key=[])(double(_two_kernel))
    y = zeros(2)
    with ConfigSweep(1):
        below[(1,)](y)
    assert y.tolist() == [32, 64]
    fixed = triton.heuristics({"DOUBLE": lambda named: 5})
    above = fixed(triton.autotune(configs(16, 32), key=[])(_two_kernel))
    with ConfigSweep(0):
        above[(1,)](y)
    assert y.tolist() == [16, 5]


def test_meta_parameter_given_twice_is_an_error():
    with ConfigSweep(0), pytest.raises(ValueError, match=r"Conflicting meta-parameters: BLOCK"):
        tuned()[(1,)](zeros(1), 8, BLOCK=16)


def test_only_the_first_call_for_a_key_is_reset():
    kernel, y = tuned(_add_kernel, reset_to_zero=["y_ptr"]), filled(8, value=5)
    with ConfigSweep(0):
        add(kernel, y)
        assert (y == 1).all()
        add(kernel, y)
        assert (y == 2).all()


def test_another_key_or_dtype_is_reset_again():
    kernel = tuned(_add_kernel, reset_to_zero=["y_ptr"])
    with ConfigSweep(0):
        for y in (filled(8, value=5), filled(9, value=5)):
            add(kernel, y)
            assert (y == 1).all()
        y = filled(9, value=5, dtype=torch.int32)
        add(kernel, y)
        assert (y == 1).all()


def test_new_sweep_forgets_keys_and_the_same_one_remembers():
    kernel, y = tuned(_add_kernel, reset_to_zero=["y_ptr"]), filled(8, value=0)
    sweep = ConfigSweep(0)
    for expected in (1, 2):
        with sweep:
            add(kernel, y)
        assert (y == expected).all()
    with ConfigSweep(0):
        add(kernel, y)
    assert (y == 1).all()


def test_single_config_is_never_reset():
    kernel, y = tuned(_add_kernel, (16,), reset_to_zero=["y_ptr"]), filled(8, value=5)
    with ConfigSweep(0):
        add(kernel, y)
    assert (y == 6).all()


def test_single_config_left_by_pruning_is_reset_as_in_this_triton():
    kernel = tuned(
        _add_kernel,
        reset_to_zero=["y_ptr"],
        prune_configs_by={"early_config_prune": lambda choices, *_, **__: choices[:1]},
    )
    y = filled(8, value=5)
    with ConfigSweep(0):
        add(kernel, y)
    assert (y == (1 if BEFORE_3_8 else 6)).all()


def test_own_pre_hook_is_called_as_for_a_reset():
    calls = []

    def hook(named, reset_only=False):
        calls.append((named["N"], named["BLOCK"], reset_only))

    kernel, y = tuned(pre_hook=hook), zeros(1)
    with ConfigSweep(1):
        for _ in range(2):
            kernel[(1,)](y, 8)
    assert calls == [(8, 32, True)]


def test_config_pre_hook_is_called_each_time():
    calls = []
    chosen = configs(16, 32, pre_hook=lambda named: calls.append(named["BLOCK"]))
    kernel = triton.autotune(chosen, key=["N"])(_block_kernel)
    y = zeros(1)
    with ConfigSweep(1):
        for _ in range(2):
            kernel[(1,)](y, 8)
    assert calls == [32, 32]


def test_restored_values_are_those_of_the_kernel():
    kernel, y = tuned(_add_kernel, restore_value=["y_ptr"]), filled(8, value=5)
    with ConfigSweep(0):
        add(kernel, y)
    assert (y == 6).all()


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, 7), ({"reset_to_zero": ["y_ptr"]}, 1), ({"restore_value": ["y_ptr"]}, 6)],
    ids=["adds_twice", "reset_to_zero", "restore_value"],
)
def test_rehearsal_leaves_what_a_benchmark_leaves(options, expected):
    kernel, y = tuned(_add_kernel, **options), filled(8, value=5)
    with ConfigSweep(0, rehearse=True):
        add(kernel, y)
        assert (y == expected).all()
        add(kernel, y)
        assert (y == expected + 1).all()


def test_hooks_run_outside_the_guard():
    inside = []

    @contextlib.contextmanager
    def outside():
        inside.append("in")
        yield
        inside.append("out")

    hook = lambda named, **_: inside.append("hook")  # noqa: E731
    kernel = triton.autotune(configs(16, 32, pre_hook=hook), key=["N"], pre_hook=hook)(
        _block_kernel
    )
    with ConfigSweep(0) as sweep:
        sweep.outside_guard = outside
        kernel[(1,)](zeros(1), 8)
    assert inside == ["in", "hook", "out"] * 2


def test_innermost_sweep_decides():
    kernel, y = tuned(), zeros(1)
    with ConfigSweep(0) as outer, ConfigSweep(2):
        kernel[(1,)](y, 8)
    assert y.item() == 64
    assert outer.count == 0


def test_kernel_that_fails_leaves_the_tuner_usable():
    kernel, y = tuned(), zeros(1)
    with ConfigSweep(0), pytest.raises(TypeError):
        kernel[(1,)](y)
    assert launched(kernel, 0) == 16
