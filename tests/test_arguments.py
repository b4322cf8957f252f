"""The arguments of a call, as messages show them."""

from __future__ import annotations

import pytest
import torch

from judge.core.arguments import describe_value


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
