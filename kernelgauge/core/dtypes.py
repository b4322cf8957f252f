"""Names and kinds of dtypes, and conversion to the widest one."""

from __future__ import annotations

import torch


def dtype_name(dtype: str | torch.dtype) -> str:
    """Return a dtype's name as a learner writes it: float16."""
    return str(dtype).removeprefix("torch.")


def rounds(dtype: torch.dtype) -> bool:
    """Return whether a dtype holds real or complex numbers, which are rounded."""
    return dtype.is_floating_point or dtype.is_complex


def double(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same numbers in float64 or complex128, integers too."""
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return real and complex numbers in float64 or complex128, and integers as they are."""
    return double(tensor) if rounds(tensor.dtype) else tensor
