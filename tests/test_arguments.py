"""The arguments of a call, as messages show them."""

from __future__ import annotations

import pytest
import torch

from kernelgauge.core.arguments import Arguments, describe_value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.zeros(2, 3).half(), "float16 (2, 3)"),
        (torch.zeros(2, 3).T, "float32 (3, 2) with strides (1, 3)"),
        (torch.bfloat16, "torch.bfloat16"),
        ((1, 128), "(1, 128)"),
        ([1, 128], "a list"),
    ],
)
def test_a_value_in_a_message(value, words):
    assert describe_value(value) == words


def test_replaced_values_of_places_in_a_list_and_of_what_was_not_given():
    first, second, other = (torch.full((2,), number) for number in (1.0, 2.0, 3.0))
    given = Arguments(("shards", "scale", "diagonal"), ([first, second], 2.0), {})
    changed = given.replaced({"shards[1]": other, "diagonal": -1})
    assert changed.positional == ([first, other], 2.0)
    assert changed.keyword == {"diagonal": -1}
