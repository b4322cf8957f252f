"""The inputs that tests give to puzzles."""

from __future__ import annotations

import pytest
import torch

from course import inputs
from course.loader import load_reference
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotMeasured


def test_same_case_same_numbers_whatever_came_before():
    inputs.seed("a case")
    first = inputs.randn(5, 3)
    inputs.seed("another case")
    other = inputs.randn(5, 3)
    inputs.seed("a case")
    assert torch.equal(first, inputs.randn(5, 3))
    assert not torch.equal(first, other)


def test_two_draws_of_a_case_differ():
    assert not torch.equal(inputs.randn(8), inputs.randn(8))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_dtype_and_device(dtype):
    x = inputs.randn(4, dtype=dtype)
    assert x.dtype == getattr(torch, dtype)
    assert x.device.type == settings.device


def test_integers_stay_in_their_range():
    x = inputs.integers(1000, low=-2, high=3, dtype="float16")
    assert set(x.tolist()) == {-2, -1, 0, 1, 2}


def test_uniform_stays_in_its_range():
    x = inputs.uniform(1000, low=5, high=6)
    assert x.min() >= 5
    assert x.max() < 6


def test_strided_keeps_the_numbers_and_spreads_them():
    x = inputs.randn(3, 4)
    spread = inputs.strided(x, 2, 3)
    assert torch.equal(spread, x)
    assert spread.stride() == (24, 3)


def test_offset_is_contiguous_and_not_aligned():
    x = inputs.offset(inputs.randn(4, 4), 1)
    assert x.is_contiguous()
    assert x.data_ptr() % 16 != 0


def test_far_apart_passes_two_to_the_31():
    x = inputs.integers(3, dtype="float16")
    spread = inputs.far_apart(x)
    assert torch.equal(spread, x)
    assert 2 * spread.stride(0) > 2**31


def test_cases_give_their_values_to_the_first_parameters():
    @inputs.cases(small=(1, 2), large=(3, 4))
    def test(M, N, dtype):
        pass

    mark = test.pytestmark[0]
    assert mark.args == (["M", "N"], [(1, 2), (3, 4)])
    assert mark.kwargs == {"ids": ["small", "large"]}


def test_cases_of_different_lengths_are_refused():
    with pytest.raises(TypeError, match="different numbers of values"):

        @inputs.cases(a=(1, 2), b=(3,))
        def test(M, N):
            pass


def test_a_gpu_without_bfloat16_says_so(monkeypatch):
    monkeypatch.setattr(settings, "capability", (7, 5))
    assert inputs.randn(3, dtype="float16").dtype == torch.float16
    with pytest.raises(NotMeasured, match=r"capability 8\.0, this one has 7\.5"):
        inputs.randn(3, dtype="bfloat16")
    monkeypatch.setattr(settings, "capability", (8, 0))
    assert inputs.randn(3, dtype="bfloat16").dtype == torch.bfloat16


def test_a_gpu_without_8_bit_floats_says_so(monkeypatch):
    monkeypatch.setattr(settings, "capability", (8, 0))
    with pytest.raises(NotMeasured, match=r"float8_e4m3fn .* capability 8\.9, this one has 8\.0"):
        inputs.randn(3, dtype="float8_e4m3fn")
    for capability in ((8, 9), None):
        monkeypatch.setattr(settings, "capability", capability)
        assert inputs.randn(3, dtype="float8_e4m3fn").dtype == torch.float8_e4m3fn


def test_blocks_of_experts():
    order, owners = inputs.expert_blocks(inputs.tensor([2, 0, 2, -1, 0, 2], "int32"), 4, 2)
    assert order.tolist() == [1, 4, 0, 2, 5, 6, 6, 6, 6, 6]
    assert owners.tolist() == [0, 2, 2, -1, -1]
    assert order.dtype == owners.dtype == torch.int32


def test_a_paged_cache_holds_tokens_in_the_pages_of_its_tables_alone():
    inputs.seed("paged")
    lengths = (3, 16, 37)
    keys, values, tables, counts = inputs.paged_cache(lengths, 16, 2, 8)
    assert counts.tolist() == list(lengths)
    stored = torch.zeros(keys.shape[:2], dtype=torch.bool, device=keys.device)
    for row, length in enumerate(lengths):
        pages = tables[row, : -(-length // 16)].tolist()
        assert all(0 < page < len(keys) for page in pages)
        for place in range(length):
            stored[pages[place // 16], place % 16] = True
        assert not any(0 <= page < len(keys) for page in tables[row, len(pages) :].tolist())
    assert stored.sum() == sum(lengths)
    for cache in (keys, values):
        assert torch.equal(cache.isnan().all(dim=(2, 3)), ~stored)


@pytest.mark.parametrize(("k", "p"), [(5, 1.0), (300, 0.9), (20, 0.6)])
def test_draws_keep_clear_of_borders(k, p):
    inputs.seed("sampling")
    logits = inputs.randn(8, 300) * 2
    uniform, *how = inputs.sampling(logits, k, 0.7, p)
    draw = load_reference("14_inference", "top_k_sampling")
    token = draw(logits.double(), uniform.double(), *how)
    for step in (-1e-4, 1e-4):
        assert torch.equal(draw(logits.double(), uniform.double() + step, *how), token)
        if p < 1:
            assert torch.equal(
                draw(logits.double(), uniform.double(), *how[:2], how[2] + step), token
            )
    hotter = draw(logits.double(), uniform.double(), how[0], 1.0, how[2])
    assert not torch.equal(hotter, token)


def test_drafts_are_accepted_as_asked():
    inputs.seed("speculation")
    verify = load_reference("14_inference", "speculative_verify")
    for accepted, drafted in (([0, 1, 2, 3, 4], 4), ([2, 0, 1], 2)):
        drafts, q, p, u = inputs.speculation(accepted, 4, 300, drafted)
        assert (drafts[:, drafted:] == -1).all()
        tokens, found = verify(drafts, q.double(), p.double(), u.double())
        assert found.tolist() == accepted
        for step in (-1e-4, 1e-4):
            again, _ = verify(drafts, q.double(), p.double(), u.double() + step)
            assert torch.equal(again, tokens)
