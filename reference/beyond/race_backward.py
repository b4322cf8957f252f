"""Times attention_backward.py beside cuDNN's backward pass, in turn, on an NVIDIA GPU.

    python reference/beyond/race_backward.py [--causal] [--sizes 4x32x4096,1x32x8192] [FILE ...]

A FILE is a changed copy of attention_backward.py, to race with it. Prints for each size the median
milliseconds, and cuDNN's time divided by it.
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from course.benchmark.libraries import sdpa  # noqa: E402
from course.benchmark.timing import EAGER, Contestant, admit, time_in_turn  # noqa: E402
from course.paths import ROOT, load  # noqa: E402
from kernelgauge.speed.buffers import Buffers  # noqa: E402
from kernelgauge.speed.timer import CudaTimer  # noqa: E402


def inputs(B: int, H: int, S: int, dtype: torch.dtype, causal: bool) -> tuple:
    """q, k, v and dout, and the forward pass's out and lse."""
    q, k, v, dout = (torch.randn(B, H, S, 128, dtype=dtype, device="cuda") for _ in range(4))
    forward = torch.ops.aten._scaled_dot_product_cudnn_attention
    out, lse, *_ = forward(q, k, v, None, True, 0.0, causal)
    return q, k, v, dout, out, lse.reshape(B, H, S).contiguous()


def ours(path: Path, causal: bool) -> Contestant:
    gradients = load(path.resolve()).attention_backward

    def call(q, k, v, dout, out, lse):
        return gradients(q, k, v, out, lse, dout, causal=causal)

    return Contestant(path.stem, call)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("files", nargs="*", type=Path)
    options.add_argument("--causal", action="store_true")
    options.add_argument("--sizes", default="4x32x4096,1x32x8192")
    options.add_argument("--dtype", default="bfloat16")
    options.add_argument("--seconds", type=float, default=2)
    given = options.parse_args()
    causal, dtype = given.causal, getattr(torch, given.dtype)
    backward = load(ROOT / "reference" / "peers" / "16_flash_backward.py").backward
    timer = CudaTimer()
    for size in given.sizes.split(","):
        make = functools.partial(inputs, *map(int, size.split("x")), dtype, causal)
        # What `admit` calls eager is what it holds the others' results to.
        cudnn = Contestant(EAGER, backward(sdpa("SDPA cuDNN", causal=causal).ready(None), causal))
        files = [HERE / "attention_backward.py", *given.files]
        entered = [cudnn, *(ours(path, causal) for path in files)]
        buffers = Buffers(lambda number, make=make: make(), timer.free_bytes())
        entered = admit(entered, buffers, by_value=True)
        running = [contestant for contestant in entered if contestant.function]
        times, clock = time_in_turn(running, buffers, timer, given.seconds)
        print(f"{size}x128{', causal' * causal}, {clock}")
        for contestant in entered:
            ms = times.get(contestant.name)
            told = f"{ms:.4g} ms, {times[EAGER] / ms:.3f}" if ms else contestant.note
            name = "cuDNN" if contestant is cudnn else contestant.name
            print(f"    {name}: {told}", flush=True)
        del buffers, cudnn, entered, running
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
