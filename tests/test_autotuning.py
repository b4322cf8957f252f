"""Autotuned kernels under the judge use each config, and call hooks as Triton does."""

from __future__ import annotations

import contextlib

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import AutotunerError

from kernelgauge.core import versions
from kernelgauge.subject import autotuning
from kernelgauge.subject.autotuning import ConfigSweep

INTERPRETED = triton.knobs.runtime.interpret

pytestmark = pytest.mark.skipif(
    not (INTERPRETED or torch.cuda.is_available()), reason="needs TRITON_INTERPRET=1 or a GPU"
)

BEFORE_3_8 = versions.TRITON < (3, 8)


@pytest.fixture(autouse=True)
def _installed(monkeypatch):
    monkeypatch.setattr(Autotuner, "run", Autotuner.run)
    autotuning.install()


def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device="cpu" if INTERPRETED else "cuda")


def fives(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return zeros(count, dtype=dtype) + 5


def configs(*blocks: int, **options) -> list[triton.Config]:
    return [triton.Config({"BLOCK": block}, **options) for block in blocks]


@triton.jit
def _add_kernel(y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr + offs, 1, mask=offs < N)


@triton.jit
def _block_kernel(y_ptr, N, BLOCK: tl.constexpr):
    tl.store(y_ptr, BLOCK)


@triton.jit
def _two_kernel(y_ptr, BLOCK: tl.constexpr, DOUBLE: tl.constexpr):
    tl.store(y_ptr, BLOCK)
    tl.store(y_ptr + 1, DOUBLE)


def tuned(kernel=_block_kernel, blocks=(16, 32, 64), **options):
    return triton.autotune(configs=configs(*blocks), key=["N"], **options)(kernel)


def pruned(prune, **options) -> dict:
    return {"prune_configs_by": {"early_config_prune": prune, **options}}


def block_of(kernel, index: int, N: int = 8) -> int:
    """Return the BLOCK of the config that a sweep over `_block_kernel` uses."""
    y = zeros(1)
    with ConfigSweep(index):
        kernel[(1,)](y, N)
    return y.item()


def add(kernel, y: torch.Tensor) -> list[float]:
    """Add 1 to each element with `_add_kernel`. Returns the distinct values after that."""
    N = y.numel()
    kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](y, N)
    return y.unique().tolist()


@pytest.mark.parametrize(("index", "block"), [(0, 16), (1, 32), (2, 64), (7, 64)])
def test_sweep_uses_the_config_at_its_index(index, block):
    assert block_of(tuned(), index) == block


def test_sweep_notes_what_was_used():
    kernel, y = tuned(), zeros(1)
    with ConfigSweep(1) as sweep:
        kernel[(1,)](y, 8)
        kernel[(1,)](y, 8)
        tuned(blocks=(16, 32))[(1,)](y, 8)
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


def test_innermost_sweep_decides():
    kernel, y = tuned(), zeros(1)
    with ConfigSweep(0) as outer, ConfigSweep(2):
        kernel[(1,)](y, 8)
    assert y.item() == 64
    assert outer.count == 0


def test_grid_sees_the_config():
    with ConfigSweep(2):
        assert add(tuned(_add_kernel), zeros(40)) == [1]


def test_kernel_that_fails_leaves_the_tuner_usable():
    kernel = tuned()
    with ConfigSweep(0), pytest.raises(TypeError):
        kernel[(1,)](zeros(1))
    assert block_of(kernel, 0) == 16


def test_heuristics_above_and_below():
    double = triton.heuristics({"DOUBLE": lambda named: 2 * named["BLOCK"]})
    below = triton.autotune(configs(16, 32), key=[])(double(_two_kernel))
    fixed = triton.heuristics({"DOUBLE": lambda named: 5})
    above = fixed(triton.autotune(configs(16, 32), key=[])(_two_kernel))
    for kernel, index, expected in ((below, 1, [32, 64]), (above, 0, [16, 5])):
        y = zeros(2)
        with ConfigSweep(index):
            kernel[(1,)](y)
        assert y.tolist() == expected


def test_meta_parameter_given_twice_is_an_error():
    with ConfigSweep(0), pytest.raises(ValueError, match=r"Conflicting meta-parameters: BLOCK"):
        tuned()[(1,)](zeros(1), 8, BLOCK=16)


# Pruning


def test_early_pruning_narrows_the_choice():
    def keep_small(choices, named, **_):
        return [config for config in choices if config.kwargs["BLOCK"] <= named["N"]]

    kernel = tuned(**pruned(keep_small))
    assert block_of(kernel, 2, N=40) == 32
    assert block_of(kernel, 2, N=64) == 64
    with ConfigSweep(0) as sweep:
        kernel[(1,)](zeros(1), 40)
    assert sweep.count == 2


def test_pruning_happens_once_for_a_key():
    seen = []

    def keep_all(choices, named, **_):
        seen.append(named["N"])
        return choices

    kernel, y = tuned(**pruned(keep_all)), zeros(1)
    with ConfigSweep(0):
        for N in (8, 8, 9):
            kernel[(1,)](y, N)
    assert seen == [8, 9]


def test_performance_model_orders_and_cuts():
    kernel = tuned(**pruned(None, perf_model=lambda BLOCK, **_: -BLOCK, top_k=2))
    assert [block_of(kernel, index) for index in (0, 1, 2)] == [64, 32, 32]


def test_pruning_everything_is_an_error():
    with pytest.raises(AutotunerError, match="at least one config"):
        block_of(tuned(**pruned(lambda *_, **__: [])), 0)


def test_single_config_is_not_pruned():
    assert block_of(tuned(blocks=(16,), **pruned(lambda *_, **__: [])), 0) == 16


# What a benchmark before the first launch for a tuning key leaves behind

RESET = {"reset_to_zero": ["y_ptr"]}


@pytest.mark.parametrize(
    ("options", "rehearse", "first"),
    [
        (RESET, False, 1),
        (RESET | {"blocks": (16,)}, False, 6),
        # Before Triton 3.8 the only config that pruning left was timed too.
        (RESET | pruned(lambda choices, *_, **__: choices[:1]), False, 1 if BEFORE_3_8 else 6),
        ({"restore_value": ["y_ptr"]}, False, 6),
        ({}, True, 7),
        (RESET, True, 1),
        ({"restore_value": ["y_ptr"]}, True, 6),
    ],
    ids=[
        "reset_to_zero",
        "single_config",
        "single_config_left_by_pruning",
        "restore_value",
        "rehearsed",
        "rehearsed_reset_to_zero",
        "rehearsed_restore_value",
    ],
)
def test_only_the_first_call_for_a_key_is_benchmarked(options, rehearse, first):
    kernel, y = tuned(_add_kernel, **options), fives(8)
    with ConfigSweep(0, rehearse=rehearse):
        assert add(kernel, y) == [first]
        assert add(kernel, y) == [first + 1]


def test_what_is_reset_to_zero_is_put_back_if_asked_for():
    y = fives(8)
    with ConfigSweep(0, rehearse=True, restores=True) as sweep:
        assert add(tuned(_add_kernel, **RESET), y) == [6]
    assert sweep.zeroed == ["y_ptr"]


def test_another_key_or_dtype_is_reset_again():
    kernel = tuned(_add_kernel, **RESET)
    with ConfigSweep(0):
        for y in (fives(8), fives(9), fives(9, dtype=torch.int32)):
            assert add(kernel, y) == [1]


def test_new_sweep_forgets_keys_and_the_same_one_remembers():
    kernel, y = tuned(_add_kernel, **RESET), fives(8)
    sweep = ConfigSweep(0)
    for entered, expected in ((sweep, 1), (sweep, 2), (ConfigSweep(0), 1)):
        with entered:
            assert add(kernel, y) == [expected]


# Hooks


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
    choices = configs(16, 32, pre_hook=lambda named: calls.append(named["BLOCK"]))
    kernel, y = triton.autotune(choices, key=["N"])(_block_kernel), zeros(1)
    with ConfigSweep(1):
        for _ in range(2):
            kernel[(1,)](y, 8)
    assert calls == [32, 32]


def test_hooks_run_outside_the_guard():
    calls = []

    @contextlib.contextmanager
    def outside():
        calls.append("in")
        yield
        calls.append("out")

    def hook(named, **_):
        calls.append("hook")

    choices = configs(16, 32, pre_hook=hook)
    kernel = triton.autotune(choices, key=["N"], pre_hook=hook)(_block_kernel)
    with ConfigSweep(0) as sweep:
        sweep.outside_guard = outside
        kernel[(1,)](zeros(1), 8)
    assert calls == ["in", "hook", "out"] * 2
