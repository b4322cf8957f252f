"""Right answers that are built otherwise than ours pass the puzzles' own tests.

tests/alternatives mirrors puzzles/. Its files pass both levels; those of its folder natural/, which
are written as a tutorial would write them, solve their puzzle, on a GPU with its speed bar too, and
most have the values that production asks for; those of unusual/, which nobody would write, solve
theirs, and those of chapter 19 pass production too, but for its masks, whose many orders take
minutes. A case that rejects one of them is too narrow, or the judge is.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from course import paths
from course.plugin import ladder
from course.proof import mutants, runner
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotMeasured, Wrong
from tests import sampling

pytestmark = pytest.mark.proof

SHIPPED = paths.ROOT / "tests" / "alternatives"
NATURAL, UNUSUAL = SHIPPED / "natural", SHIPPED / "unusual"
# Compilation takes seconds each, and rejects by what these differ in from ours: grid, tiles, dots,
# and where they wait.
COMPILED = {
    "01_pointwise/vector_add", "07_matmul/tiled", "13_attention/flash_attention",
    "19_gluon/gluon_ws_matmul", "19_gluon/sigmoid_attention",
}  # fmt: skip

# Layouts, rings and partitions are chosen by hand, and so each level has to take any of them.
SHAPED_BY_HAND = [it for it in ladder.ladder() if it.startswith("19_gluon/")]

# Natural answers that lack what production says of values or of rounding.
LACKING = {
    "03_reductions/histogram",
    "03_reductions/row_argmax",
    "04_softmax/column_softmax",
    "04_softmax/cross_entropy",
    "05_normalization/residual_rms_norm",
    "05_normalization/rms_norm",
    "06_fusion/dropout",
    "06_fusion/dropout_backward",
    "06_fusion/swiglu",
    "07_matmul/linear",
    "10_convolution/conv2d",
    "10_convolution/pooling",
    "11_quantization/quantize_blocks",
    "11_quantization/quantize_rows",
    "12_transformer/fused_linear_cross_entropy",
    "12_transformer/geglu",
    "14_inference/top_k_sampling",
    "15_moe/fused_moe",
    "15_moe/permute_tokens",
    "15_moe/route_top_k",
}


def puzzles_in(folder: Path) -> list[str]:
    return sorted(f"{path.parent.name}/{path.stem}" for path in folder.glob("[0-9]*/*.py"))


def kernels(path: Path) -> set[str]:
    """What the kernels of this file do, without comments and layout."""
    functions = (it for it in ast.parse(path.read_text()).body if isinstance(it, ast.FunctionDef))
    return {ast.unparse(it.body) for it in functions if it.decorator_list}


def passes(puzzle: str, check: str, folder: Path, *levels: str) -> None:
    """Run the cases of one kind of check on the puzzle's file of this folder."""
    before, settings.subjects = settings.subjects, folder
    unmeasured = None
    try:
        for case in runner.cases_of(puzzle, *levels):
            if ladder.check_of(case.test) == check:
                try:
                    case.run()
                except NotMeasured as reason:
                    unmeasured = reason
    finally:
        settings.subjects = before
    if unmeasured:
        pytest.skip(str(unmeasured))


@pytest.mark.parametrize(
    ("folder", "puzzle"),
    [(folder, puzzle) for folder in (SHIPPED, NATURAL, UNUSUAL) for puzzle in puzzles_in(folder)],
    ids=lambda it: it.name if isinstance(it, Path) else it,
)
def test_it_is_built_otherwise(folder, puzzle):
    assert kernels(folder / f"{puzzle}.py") - kernels(paths.SOLUTIONS / f"{puzzle}.py")


@pytest.mark.parametrize(
    ("puzzle", "check"),
    [
        pytest.param(puzzle, check, marks=sampling.marks(puzzle, one_in=3))
        for puzzle in puzzles_in(SHIPPED)
        for check in ladder.CHECKS
        if check != "speedup" and (check != "compiles" or puzzle in COMPILED)
    ],
)
def test_shipped_answer_passes_both_levels(puzzle, check):
    passes(puzzle, check, SHIPPED, *ladder.LEVELS)


@pytest.mark.parametrize("check", ladder.CHECKS)
@pytest.mark.parametrize("puzzle", sampling.names(puzzles_in(NATURAL), one_in=2))
def test_natural_answer_is_solved(puzzle, check):
    passes(puzzle, check, NATURAL)


@pytest.mark.parametrize(
    "puzzle",
    sampling.names([it for it in puzzles_in(NATURAL) if it not in LACKING], one_in=3),
)
def test_natural_answer_has_the_values_of_production(puzzle):
    passes(puzzle, "numerics", NATURAL, ladder.PRODUCTION)


@pytest.mark.parametrize("check", [it for it in ladder.CHECKS if it != "speedup"])
@pytest.mark.parametrize("puzzle", sampling.names(puzzles_in(UNUSUAL), one_in=3))
def test_unusual_answer_is_solved(puzzle, check):
    both = puzzle in SHAPED_BY_HAND and check != "masks"
    passes(puzzle, check, UNUSUAL, *(ladder.LEVELS if both else ()))


class LaunchedOtherwise(ast.NodeTransformer):
    """Edits a launcher so that it launches, allocates and is called in other ways."""

    def __init__(self, way: int):
        self.way = way

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = node.func
        if isinstance(called, ast.Subscript) and isinstance(called.value, ast.Name):
            kernel, grid = called.value.id, ast.unparse(called.slice)
            node.func = ast.parse(
                (
                    f"{{'kernel': {kernel}}}['kernel'][{grid}]",
                    f"functools.partial({kernel}[{grid}])",
                    f"functools.partial({kernel}.run, grid={grid}, warmup=False)",
                    f"(lambda *_, **__: {kernel}[{grid}](*_, **__))",
                    f"type('Kernels', (), {{'it': staticmethod({kernel}[{grid}])}}).it",
                )[self.way % 5],
                mode="eval",
            ).body
        return node


CALLED = (
    "{name} = functools.partial({name})",
    "{name} = torch.no_grad()({name})",
    "{name} = type('Launcher', (), {{'__call__': lambda self, *a, _f={name}, **o: _f(*a, **o)}})()",
    "def _f(f):\n return functools.wraps(f)(lambda *a, **o: f(*a, **o))\n{name} = _f({name})",
)


@pytest.mark.parametrize("puzzle", puzzles_in(NATURAL))
def test_natural_answer_is_launched_otherwise(puzzle, tmp_path):
    way = puzzles_in(NATURAL).index(puzzle)
    kernel = runner.module_of(puzzle).puzzle
    tree = LaunchedOtherwise(way).visit(ast.parse((NATURAL / f"{puzzle}.py").read_text()))
    # What is differentiated is not called without gradients.
    called = CALLED[0 if kernel.rules.gradients else way % len(CALLED)].format(name=kernel.name)
    tree.body += ast.parse(called).body
    source = "import functools\n" + ast.unparse(ast.fix_missing_locations(tree))
    with runner.graded(puzzle, source, tmp_path):
        passes(puzzle, "shapes", tmp_path)


# A natural answer in which something differs that no spec asks about.
VARIANTS = {
    "heads_inside_rows": (
        "13_attention/flash_attention",
        "masks",
        [
            "out_ptr + out_rows[:, None] * D",
            "torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)",
        ],
        [
            "out_ptr + ((b * S + rows) * H + h)[:, None] * D",
            "torch.empty((B, S, H, D), dtype=q.dtype, device=q.device).transpose(1, 2)",
        ],
    ),
    "bias_without_a_stride": (
        "07_matmul/linear",
        "masks",
        "offs_n * stride_bias",
        "offs_n",
    ),
    "steps_of_16_bytes": (
        "11_quantization/int4_matmul",
        "traffic",
        "BLOCK_SIZE_K=min(GROUP, 128)",
        "BLOCK_SIZE_K=32",
    ),
    "steps_of_128": (
        "15_moe/grouped_expert_gemm",
        "traffic",
        "64 if x.element_size() == 2 else 32",
        "128 if x.element_size() == 2 else 64",
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_is_solved(variant, tmp_path):
    puzzle, check, find, replace = VARIANTS[variant]
    source = mutants.edited(NATURAL / f"{puzzle}.py", find, replace)
    with runner.graded(puzzle, source, tmp_path):
        passes(puzzle, check, tmp_path)


def test_results_are_contiguous_in_production(tmp_path):
    puzzle, check, find, replace = VARIANTS["heads_inside_rows"]
    source = mutants.edited(NATURAL / f"{puzzle}.py", find, replace)
    with runner.graded(puzzle, source, tmp_path), pytest.raises(Wrong, match="not contiguous"):
        passes(puzzle, check, tmp_path, ladder.PRODUCTION)
