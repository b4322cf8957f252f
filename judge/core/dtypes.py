"""What is asked of a dtype, and numbers in the widest one."""

from __future__ import annotations

import torch


def dtype_name(dtype: str | torch.dtype) -> str:
    """As a learner writes it: float16."""
    return str(dtype).removeprefix("torch.")


def rounds(dtype: torch.dtype) -> bool:
    """Whether it holds real or complex numbers, which are rounded, and not whole ones."""
    return dtype.is_floating_point or dtype.is_complex


def double(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in float64 or complex128, whole ones too."""
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in float64 or complex128; integers stay."""
    return double(tensor) if rounds(tensor.dtype) else tensor
