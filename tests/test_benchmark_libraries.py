"""Peers that several chapters share compute what they should, as far as a CPU can tell."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from course.benchmark.libraries import CUBLASLT, attention_peers, flex, liger, sdpa
from course.loader import load_reference

B, H, HKV, S, D = 2, 4, 2, 40, 16


@pytest.fixture
def qkv():
    torch.manual_seed(0)
    return torch.randn(B, H, S, D), torch.randn(B, HKV, S, D), torch.randn(B, HKV, S, D)


@pytest.fixture
def uncompiled(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)


def expected(qkv, *, causal=False, window=None):
    if window is not None:
        return load_reference("13_attention", "sliding_window_attention")(*qkv, window)
    return load_reference("13_attention", "grouped_query_attention")(*qkv, None, causal)


implementations = pytest.mark.parametrize(
    "make", [flex, lambda **options: sdpa("SDPA flash", **options)], ids=["flex", "sdpa"]
)
pytestmark = [
    pytest.mark.proof,
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
]


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@implementations
def test_attention(qkv, uncompiled, make, causal):
    result = make(causal=causal).ready(None)(*qkv, None, causal)
    torch.testing.assert_close(result, expected(qkv, causal=causal))
    assert not torch.allclose(result, expected(qkv, causal=not causal))


@implementations
def test_windows(qkv, uncompiled, make):
    q, k, v = (x.repeat_interleave(H // x.shape[1], 1) for x in qkv)
    call = make(window=True).ready(None)
    for window in (1, 7):
        torch.testing.assert_close(call(q, k, v, window), expected((q, k, v), window=window))


def test_names_say_what_runs():
    assert sdpa("SDPA cuDNN").name == "SDPA cuDNN"
    assert sdpa("SDPA efficient", window=True).name == "SDPA efficient, mask"
    names = [peer.name for peer in attention_peers(causal=True)]
    assert names == ["SDPA flash", "SDPA efficient", "SDPA cuDNN", "FlexAttention"]


def test_cublaslt_is_chosen_for_the_call_only(monkeypatch):
    chosen = ["cublas"]

    def library(name=None):
        if name:
            chosen.append(name)
        return chosen[-1]

    monkeypatch.setattr(torch.backends.cuda, "preferred_blas_library", library)
    assert CUBLASLT.ready(lambda x: (x, chosen[-1]))(3) == (3, "cublaslt")
    assert chosen[-1] == "cublas"

    def fail():
        raise RuntimeError

    with pytest.raises(RuntimeError):
        CUBLASLT.ready(fail)()
    assert chosen[-1] == "cublas"


def test_liger_is_called_where_it_is_installed(monkeypatch):
    peer = liger("Double", lambda kernel, x: kernel(x) + 1)
    monkeypatch.setitem(sys.modules, "liger_kernel", None)
    with pytest.raises(ImportError):
        peer.ready(None)
    ops = SimpleNamespace(Double=lambda x: 2 * x)
    monkeypatch.setitem(sys.modules, "liger_kernel", SimpleNamespace(ops=ops))
    monkeypatch.setitem(sys.modules, "liger_kernel.ops", ops)
    assert peer.ready(None)(3) == 7
