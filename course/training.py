"""Train the block of 12.7 with train_step for some steps, beside autograd and torch.optim.AdamW.

python -m course.training                 your train_step, or ours as long as yours is not solved
python -m course.training --steps 50

PyTorch trains in float32, from the same weights and on the same batch; train_step rounds weights to
16 bits after each step. On a GPU one step is then measured at the size of the puzzle's race: time
and peak memory, beside the formulas in eager PyTorch.

torch and what needs Triton are imported late: Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from course.plugin.environment import prepare

if TYPE_CHECKING:
    import torch

CHAPTER, PUZZLE = "12_transformer", "train_step"
# B, S, heads, features of a head, hidden features, classes
SMALL = (2, 16, 2, 16, 48, 40)
LARGE = (4, 2048, 16, 128, 5632, 32768)
OPTIONS = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.99, "eps": 1e-6, "weight_decay": 0.1}
REPEATS = 5


def chosen() -> tuple[Callable, str]:
    """The learner's train_step, or ours while there is none, and whose it is."""
    from course import paths

    def of(folder) -> Callable:
        return paths.load(folder / CHAPTER / f"{PUZZLE}.py").train_step

    learners = of(paths.PUZZLES)
    try:
        learners(*[None] * 16)
    except NotImplementedError:
        return of(paths.SOLUTIONS), "ours, as yours is not written yet"
    except Exception:
        # It looked at its arguments, so there is something to run.
        return learners, "yours"
    return learners, "yours"


def state(B, S, heads, E, F, V, dtype: torch.dtype, device: str) -> list:
    """The arguments of train_step up to `hidden`, both moments 0."""
    import torch

    D = heads * E
    R = 2 + 4 * D + 3 * F + V
    torch.manual_seed(0)
    params = torch.randn(R, D) / math.sqrt(D)
    params[[0, 1 + 4 * D]] = 1
    angles = torch.outer(torch.arange(S), 10_000 ** (-torch.arange(E // 2) / (E // 2)))
    x, targets = torch.randn(B, S, D), torch.randint(V, (B, S))
    tensors = (
        x.to(dtype), targets, angles.cos(), angles.sin(), params.to(dtype),
        torch.zeros(R, D), torch.zeros(R, D), torch.zeros(1),
    )  # fmt: skip
    return [*(tensor.to(device) for tensor in tensors), heads, F]


def train(step: Callable, steps: int, given: list) -> list[float]:
    """The loss before each step."""
    losses = []
    for number in range(1, steps + 1):
        step(*given, number, *OPTIONS.values())
        losses.append(given[7].item())
    return losses


def train_with_torch(steps: int, given: list) -> list[float]:
    """The same with autograd and torch.optim.AdamW, in float32."""
    import torch

    from course.loader import load_reference

    x, targets, cos, sin, params, _, _, _, heads, hidden = given
    leaf = params.float().clone().requires_grad_()
    betas = OPTIONS["beta1"], OPTIONS["beta2"]
    rest = {name: OPTIONS[name] for name in ("lr", "eps", "weight_decay")}
    optimizer = torch.optim.AdamW([leaf], betas=betas, **rest)
    block_loss = load_reference(CHAPTER, "block_loss")
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = block_loss(x.float(), targets, cos, sin, leaf, heads, hidden)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def measured(step: Callable) -> tuple[float, float]:
    """Milliseconds of a step at the size of the race, and the gigabytes that were allocated."""
    import torch

    given = state(*LARGE, torch.bfloat16, "cuda")
    arguments = (*given, 3, *OPTIONS.values())
    step(*arguments)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        step(*arguments)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times), torch.cuda.max_memory_allocated() / 1e9


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m course.training", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--steps", type=int, default=10, help="how many steps (default: 10)")
    options = parser.parse_args(arguments)
    environment = prepare()

    import torch

    from course.loader import load_reference
    from kernelgauge.interpreter import patches

    if environment.interpreted:
        patches.install()
    step, whose = chosen()
    print(f"train_step: {whose}, on {environment.device}\n\nstep   train_step   PyTorch")
    made = [state(*SMALL, torch.float16, environment.device) for _ in range(2)]
    losses = train(step, options.steps, made[0]), train_with_torch(options.steps, made[1])
    for number, (mine, theirs) in enumerate(zip(*losses, strict=True), 1):
        print(f"{number:4}   {mine:10.4f}   {theirs:7.4f}")
    if environment.interpreted:
        print("\nTime and memory take a GPU.")
        return 0
    eager = load_reference(CHAPTER, PUZZLE)
    for name, function in (("train_step", step), ("eager PyTorch", eager)):
        torch.cuda.empty_cache()
        milliseconds, gigabytes = measured(function)
        print(f"{name}: {milliseconds:.1f} ms a step, {gigabytes:.2f} GB at most")
    return 0


if __name__ == "__main__":
    sys.exit(main())
