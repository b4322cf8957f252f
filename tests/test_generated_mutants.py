"""What is wrong in any kernel is found in each puzzle, and told for what it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from course.plugin import ladder
from course.proof import runner
from kernelgauge import kernel
from kernelgauge.core.settings import settings
from kernelgauge.words.fault import Fault
from tests.generated_mutants import VALUES, source_of, wrong_versions

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(not settings.interpreted, reason="seen in the interpreter"),
]

# What a first message must say: the kind of the fault, or the id of what is said or of the cause.
NAMED = {
    "promise": {"false-promise"},
    "order": {"race", "thread-race"},
    "state": {
        "not-own-memory", "no-launch", "wrong-after-other-contents", "wrong-after-other-sizes",
        "wrong-with-a-call-between",
    },
    "nan": {"nan-dropped", "nan-replaced", "nan-not-compared", "undefined-avoided"},
    "inf": {"infinities-are-0", "inf-dropped", "undefined-avoided"},
    "largest": {
        "float16-overflows", "dtype-overflows", "overflow", "inf-minus-inf", "0-times-inf",
    },
    "subnormal": {"subnormals-are-0"},
    "minus_zero": {"product-with-0"},
}  # fmt: skip
# Where a tolerance lies around a result, these do not show.
EXACT = {"subnormal", "minus_zero"}
# Where a wrong version is not rejected, or does not get that message, and why.
UNREACHED = {
    "all that it loads is contiguous": {
        "promise-max_contiguous": """
            01_pointwise/vector_copy 01_pointwise/square 01_pointwise/relu
            01_pointwise/complex_multiply 08_debugging/momentum_step 12_transformer/rope
            18_distributed/average_gradients 18_distributed/all_reduce
            18_distributed/two_shot_all_reduce 19_gluon/gluon_copy""",
    },
    "it takes integers, logits without NaN and infinity, or rows that add up to 1": {
        f"value-{name}": """
            03_reductions/histogram 14_inference/top_k_sampling 14_inference/speculative_verify
            15_moe/permute_tokens"""
        for name in ("nan", "inf", "largest")
    },
    "the spec leaves open what becomes of them: see `apart` in its tests": {
        "value-inf": """
            03_reductions/welford 11_quantization/fp8_matmul
            12_transformer/fused_linear_cross_entropy""",
        "value-largest": "11_quantization/fp8_matmul 12_transformer/train_step",
    },
    "the result is infinite in any case, or so near to infinity that it is a rounding error": {
        "value-largest": """
            01_pointwise/square 01_pointwise/polynomial 03_reductions/row_argmax
            03_reductions/total_sum 06_fusion/asin 06_fusion/dropout 06_fusion/dropout_backward
            08_debugging/last_tokens 11_quantization/int8_matmul
            12_transformer/cross_entropy_backward 18_distributed/all_reduce
            18_distributed/two_shot_all_reduce 19_gluon/barrier_ring""",
    },
    "what it does to them leaves the result as it is": {
        "value-subnormal": """
            08_debugging/last_tokens 10_convolution/pooling 11_quantization/quantize_rows""",
        "value-minus_zero": "10_convolution/pooling 11_quantization/quantize_rows",
    },
    "rejected, but without a cause": {
        "value-nan": "11_quantization/quantize_rows",
        "value-inf": """
            01_pointwise/complex_multiply 03_reductions/row_argmax 10_convolution/pooling""",
        "value-largest": """
            11_quantization/quantize_rows 16_flash_backward/dq 16_flash_backward/dkdv""",
    },
    "a rule of its own is told: what is not finite is a fault, what is kept is counted": {
        "value-nan": "18_distributed/average_gradients",
        "value-inf": "18_distributed/average_gradients",
        "value-largest": "18_distributed/average_gradients",
        "state-result": "16_flash_backward/autograd",
        "state-saved": "16_flash_backward/autograd",
    },
    "what is kept counts up, or one line makes several tensors: wrong in the first call": {
        "state-buffers": """
            12_transformer/train_step 15_moe/permute_tokens 15_moe/fused_moe
            18_distributed/all_gather_matmul""",
    },
}
LEFT_OUT = {
    f"{puzzle}-{version}"
    for versions in UNREACHED.values()
    for version, puzzles in versions.items()
    for puzzle in puzzles.split()
}


def ids(puzzle: str) -> Iterator[str]:
    """The wrong versions of a puzzle that must be found, as puzzle-kind-name."""
    exact = runner.module_of(puzzle, ladder.PRODUCTION).puzzle.rules.exact
    for kind, name in wrong_versions(puzzle):
        id = f"{puzzle}-{kind}-{name}"
        if id not in LEFT_OUT and (name not in EXACT or exact):
            yield id


def test_what_is_left_out_exists():
    every = {f"{it}-{kind}-{name}" for it in ladder.ladder() for kind, name in wrong_versions(it)}
    assert not LEFT_OUT - every


def params() -> Iterator:
    """All, and one of each kind and chapter in the proof that runs on each change."""
    seen = set()
    for puzzle in ladder.ladder():
        for id in ids(puzzle):
            one = puzzle[:2], id.split("-")[1]
            marks = [pytest.mark.nightly] if one in seen else []
            seen.add(one)
            yield pytest.param(id, marks=marks, id=id)


def cases(puzzle: str, kind: str, name: str) -> list[runner.Case]:
    """Those that are to show it, the likeliest first."""
    every = runner.cases_of(puzzle, ladder.SOLVED, ladder.PRODUCTION)
    if kind == "value":
        special = [it for it in every if "special" in it.name]
        # What the largest number may round to, a smaller one may not.
        ends = (f"-{name}]", "-large]") if name == "largest" else (f"-{name}]",)
        own = [it for it in special if it.name.endswith(ends)]
        return own + [it for it in special if "each_special" not in it.name]
    checked = [it for it in every if ladder.check_of(it.test) in ("masks", "numerics")]
    checked = [it for it in checked if "limits" not in it.name and "32_bits" not in it.name]
    if kind == "promise":
        return [it for it in checked if ladder.check_of(it.test) == "masks"][::-1]
    return checked


def said(fault: Fault) -> set[str]:
    """The ids of what is said first, and of the cause."""
    told = fault.instead or fault
    cause = {told.cause.note.id} if told.cause else set()
    return {told.kind, *(it.id for it in told.said[:1])} | cause


@pytest.mark.parametrize("id", list(params()))
def test_it_is_found_and_named(id, tmp_path, monkeypatch):
    puzzle, kind, name = id.split("-")
    function = runner.module_of(puzzle, ladder.PRODUCTION).puzzle.name
    with runner.graded(puzzle, source_of(puzzle, function, kind, name), tmp_path):
        for thorough in (False, True):
            monkeypatch.setattr(kernel, "is_thorough", lambda case, it=thorough: it)
            if fault := runner.first_fault(cases(puzzle, kind, name)):
                break
    assert fault, f"{id} is not rejected"
    assert said(fault[1].fault) & NAMED[name if name in VALUES else kind], str(fault[1])
