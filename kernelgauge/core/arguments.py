"""The arguments that a subject is called with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from kernelgauge.core.dtypes import dtype_name


@dataclass
class Arguments:
    """Positional and keyword arguments of one call.

    names: the parameters of the function, in order
    tensors: the tensors among the arguments, by parameter name; those of a list, which has one for
        each rank, by their places in it: shards[0]
    """

    names: tuple[str, ...]
    positional: tuple
    keyword: dict
    tensors: dict[str, torch.Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.tensors = {}
        for name, value in self.values.items():
            parts = value if isinstance(value, list) else [value]
            labels = [f"{name}[{i}]" for i in range(len(parts))] if parts is value else [name]
            pairs = zip(labels, parts, strict=True)
            self.tensors.update({n: x for n, x in pairs if isinstance(x, torch.Tensor)})

    @property
    def lists(self) -> dict[str, list]:
        """The arguments that are lists, by parameter name."""
        return {name: value for name, value in self.values.items() if isinstance(value, list)}

    @property
    def values(self) -> dict[str, object]:
        """All arguments, by parameter name."""
        return dict(zip(self.names, self.positional, strict=False)) | self.keyword

    def replaced(self, values: Mapping[str, object]) -> Arguments:
        """Return the same arguments with new values for some parameters, or places in a list."""
        rest = dict(values)
        named = self.values
        for name, parts in self.lists.items():
            named[name] = [rest.pop(f"{name}[{i}]", part) for i, part in enumerate(parts)]
        named |= rest
        positional = self.names[: len(self.positional)]
        keyword = {name: value for name, value in named.items() if name not in positional}
        return Arguments(self.names, tuple(named[name] for name in positional), keyword)

    def map(self, change: Callable[[str, torch.Tensor], torch.Tensor]) -> Arguments:
        """Return the same arguments with every tensor changed; aliases stay aliases."""
        changed: dict[int, torch.Tensor] = {}
        for name, tensor in self.tensors.items():
            if id(tensor) not in changed:
                changed[id(tensor)] = change(name, tensor)
        return self.replaced({name: changed[id(x)] for name, x in self.tensors.items()})

    def __str__(self) -> str:
        def shown(value: object) -> str:
            if not isinstance(value, list):
                return describe_value(value)
            alike = Counter(map(describe_value, value))
            return ", ".join(f"{count} x {what}" for what, count in alike.items()) or "[]"

        return ", ".join(f"{name}: {shown(value)}" for name, value in self.values.items())


def describe_value(value: object) -> str:
    """Describe a value in a message: a tensor by its dtype, shape and, if unusual, strides."""
    # What an object says of its class may be a lie.
    if isinstance(value, torch.Tensor) and issubclass(type(value), torch.Tensor):
        layout = "" if value.is_contiguous() else f" with strides {value.stride()}"
        return f"{dtype_name(value.dtype)} {tuple(value.shape)}{layout}"
    if isinstance(value, (int, float, str, bool, type(None), tuple, torch.dtype)):
        return repr(value)
    return f"a {type(value).__name__}"
