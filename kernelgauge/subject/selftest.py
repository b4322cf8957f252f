"""Test at start-up that launches are seen: through Autotuner.run and JITFunction.run.

Both are undocumented names of Triton, which another version may have changed. No kernel runs here,
so a GPU is not needed: what stands at the end of a launch only notes how it was called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime.jit import JITFunction

from kernelgauge.core.complaint import Complaint
from kernelgauge.subject.autotuning import ConfigSweep
from kernelgauge.subject.launch_recorder import Recorder


def failures() -> list[Complaint]:
    """Return a complaint for each of the two that this version of Triton does not call as expected.

    To be called after `autotuning.install`.
    """
    complaints = []
    for name, check in {"Autotuner.run": _autotuner, "JITFunction.run": _jit_function}.items():
        try:
            fault = check()
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        if fault:
            line = f"launches are not seen in triton {triton.__version__}: {name}: {fault}"
            complaints.append(Complaint(line))
    return complaints


def _kernel(x_ptr: Any, y_ptr: Any, N: Any, BLOCK: tl.constexpr) -> None:
    """Stand for a kernel; never run."""


class _Launched:
    """Stands for the jit function under an autotuner. blocks: what BLOCK was in each launch"""

    fn = staticmethod(_kernel)
    arg_names = ("x_ptr", "y_ptr", "N", "BLOCK")

    def __init__(self) -> None:
        self.blocks: list[int] = []

    def run(self, x: Any, y: Any, N: int, *, BLOCK: int, **_: Any) -> None:
        self.blocks.append(BLOCK)
        x += 1
        y += 1


def _autotuner() -> str | None:
    def keep_small(configs: list, named: dict, **_: Any) -> list:
        return [config for config in configs if config.kwargs["BLOCK"] <= named["N"]]

    launched = _Launched()
    tuned = triton.autotune(
        configs=[triton.Config({"BLOCK": block}, num_warps=2) for block in (16, 32, 64)],
        key=["N"],
        prune_configs_by={"early_config_prune": keep_small},
        reset_to_zero=["x_ptr"],
        restore_value=["y_ptr"],
    )(launched)
    x, y = torch.zeros(1), torch.zeros(1)
    with ConfigSweep(5, rehearse=True) as sweep:
        tuned[(1,)](x, y, 40)
        tuned[(1,)](x, y, N=40)
    # One rehearsal, after which x is reset and y restored, and two launches.
    seen = {
        "configs launched": (launched.blocks, [32, 32, 32]),
        "configs left by pruning": (sweep.count, 2),
        "tuning keys": (sweep.keys, 1),
        "reset_to_zero": (x.item(), 2.0),
        "restore_value": (y.item(), 2.0),
    }
    return _difference(seen)


def _jit_function() -> str | None:
    stock, calls = JITFunction.run, []
    JITFunction.run = lambda kernel, *args, **kwargs: calls.append(kwargs["warmup"])
    try:
        kernel = JITFunction(_kernel)
        with Recorder() as recorder:
            kernel[lambda meta: (meta["N"], 2)](1, 2, N=3, BLOCK=16, num_warps=2)
            kernel.warmup(1, 2, 3, 16, grid=(1,))
    finally:
        JITFunction.run = stock
    arguments = {"x_ptr": 1, "y_ptr": 2, "N": 3, "BLOCK": 16}
    seen = {
        "calls": (calls, [False, True]),
        "launches": (
            [(it.kernel, it.grid, it.arguments, it.options) for it in recorder.launches],
            [(_kernel, (3, 2, 1), arguments, {"num_warps": 2})],
        ),
        "constexprs": ([set(it.constexprs) for it in recorder.launches], [{"BLOCK"}]),
    }
    return _difference(seen)


def _difference(seen: Mapping[str, tuple[object, object]]) -> str | None:
    """Describe the first pair that differs, of what was found and what was expected."""
    for what, (found, expected) in seen.items():
        if found != expected:
            return f"{what}: {found} instead of {expected}"
    return None
