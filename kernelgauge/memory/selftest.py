"""A self-test of the hooks: does the judge see every access in this version of Triton?"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
import triton
import triton.language as tl
import triton.runtime.interpreter as interpreter

from kernelgauge.core.complaint import Complaint
from kernelgauge.memory.access_hooks import replaced
from kernelgauge.memory.executor import Executor, StockExecutor
from kernelgauge.memory.watch import Watch


@triton.jit
def _probe_kernel(x_ptr, y_ptr, count_ptr, N, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs[:, None] * BLOCK + offs[None, :])
    y = tl.dot(x, x, input_precision="ieee")
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < N))
    tl.store(y_ptr + BLOCK, tl.sum(y) + tl.program_id(0))
    tl.atomic_add(count_ptr, 1)
    tl.atomic_cas(count_ptr, 1, 5)


# How often one program of it calls the functions of `_interpreter`.
_PROBED = {"load": 2, "store": 2, "atomic_rmw": 1, "atomic_cas": 1}


class _Counting:
    """Replaces `_interpreter` and counts the calls of each of its functions."""

    def __init__(self, stock: Any) -> None:
        self._stock = stock
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._stock, name)


def failures() -> list[Complaint]:
    """Return a complaint for each hook that misses what it should see; none if all is well."""
    x, y = torch.ones(16, 16), torch.full((20,), -1.0)
    count = torch.zeros(1, dtype=torch.int32)
    counting = _Counting(interpreter._interpreter)
    watch = Watch(count=True, inputs={"x": x})
    grid = (1,)
    try:
        # At real addresses first: if Triton has moved a hook, virtual ones would crash the process.
        with (
            replaced(interpreter, "GridExecutor", StockExecutor),
            replaced(interpreter, "_interpreter", counting),
        ):
            _probe_kernel[grid](x, y, count, 10, 16)
        missed = [name for name, calls in _PROBED.items() if counting.calls[name] != calls]
        if missed:
            return [_missed(f"_interpreter.{name}") for name in missed]
        y.fill_(-1)
        count.zero_()
        with replaced(interpreter, "GridExecutor", Executor), watch:
            _probe_kernel[grid](x, y, count, 10, 16)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        return [Complaint(f"the interpreter does not run a small kernel: {what}")]
    traffic = watch.traffic
    assert traffic
    seen = {
        "GridExecutor (launches)": len(watch.launches) == 1,
        "_interpreter.load": traffic.tensor("x").loaded.elements == 16 * 16 + 10,
        "_interpreter.store": watch.stored(y).sum() == 17,
        "_interpreter.atomic_rmw and atomic_cas": count == 5 and watch.stored(count).all(),
        "create_masked_load (masked-off lanes)": sum(watch.loads_without_other.values()) == 6,
        "create_masked_load (what they hold)": not (y[10:16] == 0).any(),
        "create_dot": traffic.dot_macs == 16**3,
        "the kernel's frame (lines)": all(line > 0 for _, line in watch.loads_without_other),
    }
    return [_missed(hook) for hook, right in seen.items() if not right]


def _missed(hook: str) -> Complaint:
    return Complaint(f"the judge does not see all of {hook} in triton {triton.__version__}")
