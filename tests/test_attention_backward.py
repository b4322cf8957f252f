"""The solution beyond chapters 16 and 19: gradients of attention by one Gluon kernel."""

from __future__ import annotations

import pytest
import torch

from course import paths
from course.paths import ROOT
from kernelgauge import Kernel, Run
from kernelgauge.core.verdict import Wrong
from kernelgauge.memory.watch import Watch
from tests.launching import interpreted_only
from tests.test_gluon import load

FILE = ROOT / "reference" / "beyond" / "attention_backward.py"
REFERENCE = paths.load(ROOT / "reference" / "16_flash_backward.py")
ORDERS, ORDERS_OF_A_MUTANT = 40, 12
# Bytes a thread, outside of the loop but for two or three registers.
SPILLS = 80


def gradients(q, k, v, out, lse, dout, scale=None, causal=False):
    delta = REFERENCE.attention_delta(out, dout).to(lse.dtype)
    saved = q, k, v, dout, lse, delta, scale, causal
    return REFERENCE.attention_dq(*saved), *REFERENCE.attention_dkdv(*saved)


def inputs(B, H, S, causal, dtype="float16", scale=None, device="cpu"):
    """Return q, k, v, out, lse and dout."""
    torch.manual_seed(S)
    q, k, v, dout = (
        torch.randn(B, H, S, 128, device=device).to(getattr(torch, dtype)) for _ in range(4)
    )
    scores = REFERENCE.masked_scores(q.double(), k.double(), scale, causal)
    out = (torch.softmax(scores, -1) @ v.double()).to(q.dtype)
    return q, k, v, out, torch.logsumexp(scores, -1).float(), dout


def kernel(module):
    return Kernel(module.attention_backward, reference=gradients, run=Run("attention_backward"))


@pytest.fixture
def right(tmp_path):
    return load(FILE.read_text(), tmp_path / "right_backward.py")


@interpreted_only
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("B", "H", "S", "dtype"),
    [
        (1, 1, 1, "float16"),
        (2, 3, 70, "bfloat16"),
        (1, 2, 128, "float16"),
        (1, 1, 129, "float16"),
        pytest.param(1, 5, 129, "float16", marks=pytest.mark.proof),
        pytest.param(1, 1, 400, "bfloat16", marks=pytest.mark.proof),
    ],
)
def test_gradients_are_right(right, B, H, S, dtype, causal):
    kernel(right).check(*inputs(B, H, S, causal, dtype), causal=causal)


@interpreted_only
@pytest.mark.parametrize("causal", [False, True])
def test_keys_past_the_end_count_for_nothing(right, causal):
    # All true scores are far below 0, which is the score of a key of zeros.
    q, k, v, _, _, dout = inputs(1, 1, 70, causal)
    q, k = q.abs() + 1, -k.abs() - 1
    scores = REFERENCE.masked_scores(q.double(), k.double(), None, causal)
    out = (torch.softmax(scores, -1) @ v.double()).to(q.dtype)
    lse = torch.logsumexp(scores, -1).float()
    kernel(right).check(q, k, v, out, lse, dout, causal=causal)


@interpreted_only
def test_a_scale_of_its_own(right):
    kernel(right).check(*inputs(1, 1, 200, True, scale=0.3), 0.3, True)


def test_what_it_does_not_take_is_named(right):
    q, k, v, out, lse, dout = inputs(1, 1, 20, False)
    with pytest.raises(ValueError, match=r"q must be .* \(B, H, S, 128\)"):
        right.attention_backward(q[..., :64], k, v, out, lse, dout)
    with pytest.raises(ValueError, match="k must be as q is"):
        right.attention_backward(q, k[:, :, :10], v, out, lse, dout)
    with pytest.raises(ValueError, match="lse must be float32"):
        right.attention_backward(q, k, v, out, lse.double(), dout)


def run(module, S, causal, seed):
    """Run one order, and compare the results."""
    tensors = inputs(1, 1, S, causal)
    with Watch(order="shuffled", seed=seed):
        results = module.attention_backward(*tensors, causal=causal)
    expected = gradients(*(it.double() for it in tensors), causal=causal)
    for result, right in zip(results, expected, strict=True):
        torch.testing.assert_close(result.double(), right, rtol=2e-2, atol=5e-3)


@interpreted_only
@pytest.mark.proof
@pytest.mark.parametrize(("S", "causal"), [(130, False), (130, True), (330, False), (330, True)])
def test_it_is_right_in_every_order(right, S, causal):
    for seed in range(ORDERS):
        run(right, S, causal, seed)


# An edit, and the kinds of fault that it may show in one order or another.
MUTANTS = {
    "the producer does not wait": (
        "        mbarrier.wait(empty.index(slot), phase ^ 1)\n",
        "",
        ["early-overwrite", "barrier-misuse"],
    ),
    "too few bytes": (
        "expect(bar, BLOCK * (D * 2 + 4))",
        "expect(bar, BLOCK * D * 2)",
        ["wrong-bytes"],
    ),
    "keys are not waited for": (
        "    mbarrier.wait(kv_full.index(0), 0)\n",
        "",
        ["early-read"],
    ),
    "queries are not waited for": (
        "        mbarrier.wait(full.index(slot), phase)\n        s = warpgroup_mma(k",
        "        s = warpgroup_mma(k",
        ["early-read"],
    ),
    "gradients of results are not waited for": (
        "        mbarrier.wait(dout_full.index(slot), phase)\n",
        "",
        ["early-read"],
    ),
    "the other consumer is not waited for": (
        "    mbarrier.wait(ds_full.index(slot), step // 2 & 1)\n",
        "",
        ["early-read", "missing-fence", "early-overwrite"],
    ),
    "the wrong phase": (
        "ds_full.index(slot), step // 2 & 1",
        "ds_full.index(slot), step & 1",
        None,
    ),
    "ds is not fenced": (
        "    fence_async_shared()\n    mbarrier.arrive(ds_full",
        "    mbarrier.arrive(ds_full",
        ["missing-fence"],
    ),
    "the slot is given back before dk is done": (
        "        dk, s = warpgroup_mma_wait(num_outstanding=1, deps=(dk, s))\n"
        "        mbarrier.arrive(empty.index((step + SLOTS - 1) % SLOTS), count=1)\n",
        "        mbarrier.arrive(empty.index((step + SLOTS - 1) % SLOTS), count=1)\n"
        "        dk, s = warpgroup_mma_wait(num_outstanding=1, deps=(dk, s))\n",
        ["early-overwrite"],
    ),
    "the slot is not given back": (
        "        mbarrier.arrive(empty.index((step + SLOTS - 1) % SLOTS), count=1)\n",
        "",
        ["deadlock"],
    ),
    "dq is not waited for": (
        "dq = warpgroup_mma_wait(num_outstanding=2, deps=(dq,))\n        add",
        "dq = warpgroup_mma_wait(num_outstanding=3, deps=(dq,))\n        add",
        None,
    ),
    "dp is not waited for": (
        "    dp = warpgroup_mma_wait(num_outstanding=1, deps=(dp,))\n",
        "    dp = warpgroup_mma_wait(num_outstanding=2, deps=(dp,))\n",
        None,
    ),
    "dk takes the place of dv early": (
        "    tma.store_wait(0)\n    out.reshape",
        "    out.reshape",
        ["early-overwrite"],
    ),
}


def run_in_orders(module):
    for seed in range(ORDERS_OF_A_MUTANT):
        run(module, 330, seed % 2 == 1, seed)


@interpreted_only
@pytest.mark.proof
@pytest.mark.parametrize("name", MUTANTS)
def test_every_synchronisation_is_missed(name, tmp_path):
    find, replace, kinds = MUTANTS[name]
    source = FILE.read_text()
    assert find in source
    module = load(source.replace(find, replace), tmp_path / "wrong_backward.py")
    with pytest.raises(Wrong) as wrong:
        run_in_orders(module)
    assert kinds is None or wrong.value.fault.kind in kinds


# Each takes four seconds.
OTHERS = [(4096, "bfloat16", False), (4001, "float16", False), (4001, "float16", True)]


@interpreted_only
@pytest.mark.parametrize(
    ("S", "dtype", "causal"),
    [
        (4096, "bfloat16", True),
        *(pytest.param(*other, marks=pytest.mark.proof) for other in OTHERS),
    ],
)
def test_its_machine_code(right, S, dtype, causal):
    q = torch.empty(1, 2, S, 128, dtype=getattr(torch, dtype))
    asked = ["TMA loads", "mbarriers", "wgmma", "wgmma in flight", "setmaxnreg"]
    lse = torch.empty(1, 2, S)
    kernel(right).compiles(
        q, q, q, q, lse, q, causal=causal, targets=["sm_90"], asked=asked, spills=SPILLS
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("S", [4096, 3001])
def test_on_a_gpu(right, S, causal):
    kernel(right).check(*inputs(1, 3, S, causal, "bfloat16", device="cuda"), causal=causal)
