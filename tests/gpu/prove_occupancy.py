"""Compare what --compiled says of kernels with what the driver of a real NVIDIA GPU says.

    python -m tests.gpu.prove_occupancy            from the root of the repository; a few seconds

Prints a table of registers, spills and programs on a multiprocessor. Exits with 1 if they differ.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import torch
import triton

from kernelgauge.compilation.ahead_of_time import Compiled, compile_each
from kernelgauge.compilation.targets import TARGETS
from kernelgauge.core.launch import Launch
from tests import kernels_to_compile
from tests.compiling import launch_of, matmul, pointwise

FILE = Path(kernels_to_compile.__file__)


def launches() -> list[Launch]:
    """Return kernels that are limited by each of the things that can limit them."""
    large = {"BM": 128, "BN": 128, "BK": 64}
    return [
        pointwise(),
        pointwise(num_warps=1),
        pointwise(num_warps=32),
        matmul(num_stages=1),
        matmul(num_stages=3),
        matmul(num_stages=6),
        matmul(arguments=large, num_warps=4),
        matmul(arguments=large, num_warps=8, num_stages=4),
        matmul(arguments={"BM": 128, "BN": 128}, num_warps=4, maxnreg=96),
        launch_of(
            kernels_to_compile.asin,
            {"x_ptr": torch.zeros(4096), "y_ptr": torch.zeros(4096), "BLOCK": 4096},
        ),
    ]


def on_gpu(launch: Launch) -> tuple[int, int, int, int]:
    """Return registers, spills, shared memory and programs on a multiprocessor, by the driver."""
    kernel = getattr(kernels_to_compile, launch.kernel.__name__)
    while not isinstance(kernel, triton.runtime.jit.JITFunction):
        kernel = kernel.fn
    moved = {
        name: value.cuda() if isinstance(value, torch.Tensor) else value
        for name, value in launch.arguments.items()
    }
    compiled = kernel.run(grid=(1,), warmup=True, **moved, **launch.options)
    compiled._init_handles()
    programs, stack = ctypes.c_int(), ctypes.c_int()
    driver = ctypes.CDLL("libcuda.so.1")
    function = ctypes.c_void_p(compiled.function)
    # CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES
    driver.cuFuncGetAttribute(ctypes.byref(stack), 3, function)
    threads = compiled.metadata.num_warps * 32
    error = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(programs), function, threads, ctypes.c_size_t(compiled.metadata.shared)
    )
    if error:
        raise RuntimeError(f"the driver says error {error} of {launch.kernel.__name__}")
    return compiled.n_regs, stack.value, compiled.metadata.shared, programs.value


def main() -> int:
    target = "sm_{}{}".format(*torch.cuda.get_device_capability())
    if target not in TARGETS:
        print(f"no figures for {target}")
        return 1
    failures = 0
    print(f"{'kernel':<14}{'registers':>10}{'spills':>8}{'shared':>9}{'programs':>10}  limited by")
    for launch in launches():
        (outcomes,) = compile_each([launch], (target,), subject=FILE)
        one = outcomes[target]
        if not isinstance(one, Compiled):
            print(one)
            failures += 1
            continue
        said = one.registers, one.spills, one.shared, one.occupancy.programs
        found = on_gpu(launch)
        failures += said != found
        figures = "{:>10}{:>8}{:>9}{:>10}".format(*said)
        verdict = ", ".join(one.occupancy.limits) if said == found else f"the driver says {found}"
        print(f"{one.kernel:<14}{figures}  {verdict}")
    print("differences:", failures)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
