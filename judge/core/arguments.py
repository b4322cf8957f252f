"""What a subject is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from judge.core.dtypes import dtype_name


@dataclass
class Arguments:
    """What a subject is called with: positional and keyword arguments, and their names.

    tensors: the tensors among them, by the name of the parameter
    """

    names: tuple[str, ...]
    positional: tuple
    keyword: dict
    tensors: dict[str, torch.Tensor] = field(init=False)

    def __post_init__(self):
        self.tensors = {n: v for n, v in self.values.items() if isinstance(v, torch.Tensor)}

    @property
    def values(self) -> dict[str, object]:
        """All of them, by the name of the parameter."""
        return dict(zip(self.names, self.positional, strict=False)) | self.keyword

    def replaced(self, values: Mapping[str, object]) -> Arguments:
        """The same arguments, with others for these parameters."""
        given = dict(values)
        positional = tuple(
            given.pop(name, value) for name, value in zip(self.names, self.positional, strict=False)
        )
        return Arguments(self.names, positional, self.keyword | given)

    def map(self, change: Callable[[str, torch.Tensor], torch.Tensor]) -> Arguments:
        """The same arguments with every tensor changed; one given twice stays one tensor."""
        made: dict[int, torch.Tensor] = {}

        def changed(name: str, value: object) -> object:
            if not isinstance(value, torch.Tensor):
                return value
            if id(value) not in made:
                made[id(value)] = change(name, value)
            return made[id(value)]

        positional = tuple(
            changed(name, value) for name, value in zip(self.names, self.positional, strict=False)
        )
        return Arguments(
            self.names, positional, {name: changed(name, v) for name, v in self.keyword.items()}
        )

    def __str__(self) -> str:
        return ", ".join(f"{name}: {describe_value(value)}" for name, value in self.values.items())


def describe_value(value: object) -> str:
    if isinstance(value, torch.Tensor):
        kind = dtype_name(value.dtype)
        layout = "" if value.is_contiguous() else f" with strides {value.stride()}"
        return f"{kind} {tuple(value.shape)}{layout}"
    return (
        repr(value)
        if isinstance(value, (int, float, str, bool, type(None), tuple))
        else (f"a {type(value).__name__}")
    )
