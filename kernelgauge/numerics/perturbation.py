"""How far rounding can move the results of a reference, which a single run shows only by luck.

The reference is run in float64 while each of its steps is disturbed as rounding would disturb it.
`compare` uses two results of this: how large the summed terms are (`term_size`), and what the
reference could lose in a narrow dtype (`rounded_runs`).
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from kernelgauge.core.dtypes import double, rounds, wide
from kernelgauge.numerics.compare import spacing

# Small enough for a reference to be linear over it, and well above 2**-53.
STEP = 2.0**-26

# Elements of a result that are disturbed at a time, by a stretch of the noise that a process draws
# once: to draw anew for each step takes longer than the step. Where a stretch begins is drawn, and
# so no two steps have the same.
PIECE, NOISE = 2**18, 2**19

# Operations that only select or move values, and so round nothing.
MOVES = {"amax", "amin", "max", "min", "where", "cat", "stack", "clone", "gather", "index", "sort"}
MOVES |= {"masked_fill", "copy", "copy_", "fill", "fill_", "relu", "neg", "abs", "triu", "tril"}
MOVES |= {"zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "arange"}
MOVES |= {"_to_copy", "_unsafe_view", "index_select", "embedding", "maximum", "minimum", "clamp"}
MOVES |= {"flip", "roll"}


def term_size(
    reference: Callable, inputs: Sequence, *, runs: int = 8, seed: int = 0
) -> list[torch.Tensor]:
    """Estimate the size of the terms behind each element of the results: `compare`'s magnitude.

    Inputs and steps are moved by a relative STEP or so, with random signs. A result then moves by
    STEP times the root of the sum of the squares of its terms. A tolerance in proportion to that
    allows for a kernel that rounds its inputs and each of its steps once more.

    reference: called as reference(*inputs); returns a tensor or a sequence of tensors
    inputs: floating and complex tensors are widened first, anything else is passed as it is
    Returns a float64 tensor for each result, zeros for integer results. Not for references that
    jump, as rounding to int8 does: the size would be that of the jump over STEP.
    """
    inputs = [wide(x) if isinstance(x, torch.Tensor) else x for x in inputs]
    truth = _as_list(reference(*inputs))
    squares = [torch.zeros(x.shape, dtype=torch.float64, device=x.device) for x in truth]
    for run in range(runs):
        disturb = _Disturb(torch.mul, _nudges, seed * runs + run)
        nudged = [disturb.apply(x) for x in inputs]
        with disturb:
            moved = _as_list(reference(*nudged))
        for total, near, far in zip(squares, truth, moved, strict=True):
            if rounds(near.dtype):
                # In float64: torch does not subtract numbers of 8 bits.
                moved_by = double(far) - double(near)
                total += ((moved_by.abs() / STEP) ** 2).nan_to_num(0, 0, 0)
    return [(total / runs).sqrt() for total in squares]


def rounded_runs(
    reference: Callable, inputs: Sequence, dtype: torch.dtype, *, runs: int = 8, seed: int = 0
) -> list[list[torch.Tensor]]:
    """Run the reference with every step rounded to `dtype`, up or down at random.

    These are further yardsticks for `compare`. The reference's own run in `dtype` is one sample of
    what it can lose, and by luck it may lose nothing: two nearly equal numbers round alike, and
    their difference is exact. Needed for references in which large terms cancel between steps, as
    in the backward pass of attention.

    Returns, for each result, a list of float64 tensors, one for each run.
    """
    inputs = [wide(x) if isinstance(x, torch.Tensor) else x for x in inputs]
    samples = []
    for run in range(runs):
        disturb = _Disturb(
            lambda x, noise: x + spacing(x.abs(), dtype) / 2 * noise, _noise, seed * runs + run
        )
        with disturb:
            samples.append(_as_list(reference(*inputs)))
    return [list(sample) for sample in zip(*samples, strict=True)]


@functools.cache
def _noise(device: torch.device) -> torch.Tensor:
    """Return numbers of [-1, 1), in float64."""
    drawn = np.random.Generator(np.random.SFC64(0)).random(NOISE, dtype=np.float32)
    return torch.from_numpy(drawn).to(device, torch.float64).mul_(2).sub_(1)


@functools.cache
def _nudges(device: torch.device) -> torch.Tensor:
    """Return factors that move a number by half a STEP to one and a half, up or down.

    By different amounts: equal nudges would cancel wherever the terms do.
    """
    noise = _noise(device)
    return (noise + noise.sign() / 2).mul_(STEP).add_(1)


class _Disturb(TorchDispatchMode):
    """Passes the results of each operation through `change(value, noise)`.

    noise: returns what is drawn from, for a device
    """

    def __init__(self, change: Callable, noise: Callable, seed: int) -> None:
        super().__init__()
        self.change, self.noise = change, noise
        self.random = random.Random(seed)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise torch imports its compiler, which takes seconds, only to skip this class.
        return False

    def apply(self, value: Any) -> Any:
        """Disturb a tensor of real or complex numbers; return anything else as it is."""
        if not (isinstance(value, torch.Tensor) and rounds(value.dtype)):
            return value
        if value.is_complex():
            return torch.view_as_complex(self.apply(torch.view_as_real(value.resolve_conj())))
        if value.numel() > PIECE:
            disturbed = torch.empty(value.numel(), dtype=value.dtype, device=value.device)
            pieces = value.reshape(-1).split(PIECE)
            for here, piece in zip(disturbed.split(PIECE), pieces, strict=True):
                here.copy_(self.apply(piece))
            return disturbed.view(value.shape)
        begin = self.random.randrange(NOISE - PIECE)
        noise = self.noise(value.device)[begin : begin + value.numel()].view(value.shape)
        return self.change(value, noise).to(value.dtype)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if _rounds_nothing(func):
            return result
        if isinstance(result, torch.Tensor):
            return self.apply(result)
        return tree_map_only(torch.Tensor, self.apply, result)


@functools.cache
def _rounds_nothing(func: Any) -> bool:
    aliases = any(entry.alias_info for entry in func._schema.returns)
    return aliases or func._schema.name.removeprefix("aten::") in MOVES


def _as_list(results: torch.Tensor | Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [results] if isinstance(results, torch.Tensor) else list(results)
