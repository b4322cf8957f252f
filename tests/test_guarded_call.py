"""Subjects that pass elsewhere although they are wrong, and right ones that must pass here."""

from __future__ import annotations

import textwrap

import pytest
import torch

from judge import challenge, inputs
from judge.challenge import Challenge
from judge.core import paths
from judge.core.settings import settings
from judge.core.verdict import NotMeasured, Unsolved, Wrong
from judge.grading import Spec

HEADER = """
import torch, triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(y_ptr + offs, x, mask=mask)

def launch(x, y):
    kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y
"""


@pytest.fixture
def copying(tmp_path, monkeypatch):
    """A puzzle of copying vectors whose subject has this source."""

    def make(source: str, **spec) -> Challenge:
        path = tmp_path / "01_pointwise" / "copy.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEADER + textwrap.dedent(source))
        monkeypatch.setattr(settings, "subjects", tmp_path)
        monkeypatch.setattr(paths, "_modules", {})
        test = paths.PUZZLES / "01_pointwise" / "test_copy.py"
        return Challenge(Spec("copy", test, **({"exact": True} | spec)))

    inputs.seed("trial")
    return make


RIGHT = {
    "plain": "def copy(x):\n    return launch(x, torch.empty_like(x))",
    "zeros first": "def copy(x):\n    return launch(x, torch.zeros_like(x))",
    "filled later": "def copy(x):\n    return launch(x, torch.empty_like(x).fill_(3).zero_())",
    "a view": "def copy(x):\n    return launch(x, torch.empty_like(x).view(1, -1)).view(-1)",
    "two launches": """
        def copy(x):
            return launch(launch(x, torch.empty_like(x)), torch.empty_like(x))
    """,
    "helper of its own": """
        def out(x): return x.new_empty(x.shape)
        def copy(x): return launch(x, out(x))
    """,
}

WRONG = {
    "allocates on the default device": (
        "def copy(x):\n    return launch(x, torch.empty(x.shape, dtype=x.dtype))",
        "torch.empty without device=",
    ),
    "allocates no memory": (
        "def copy(x):\n    return torch.empty(x.shape, dtype=x.dtype, device='meta')",
        "launched no Triton kernel",
    ),
    "cached by pointer": (
        """
        seen = {}
        def copy(x):
            if x.data_ptr() not in seen:
                seen[x.data_ptr()] = launch(x, torch.empty_like(x))
            return seen[x.data_ptr()]
        """,
        "launched no Triton kernel",
    ),
    "one output for all calls": (
        """
        out = []
        def copy(x):
            out.append(torch.empty_like(x))
            return launch(x, out[0])
        """,
        "in the memory that an earlier call returned",
    ),
    "right the first time only": (
        """
        calls = []
        def copy(x):
            calls.append(1)
            y = torch.empty_like(x)
            return launch(x, y) if len(calls) == 1 else launch(y, y)
        """,
        "wrong",
    ),
    "the input itself": ("def copy(x):\n    return launch(x, x)", "the memory of its input x"),
    "a view of the input": ("def copy(x):\n    return x.view(-1)", "launched no Triton kernel"),
    "changes its input": (
        """
        def copy(x):
            y = torch.empty_like(x)
            launch(x, y)
            launch(y[1:], x)
            return y
        """,
        "the input x was changed",
    ),
    "no kernel": ("def copy(x):\n    return torch.empty_like(x)", "launched no Triton kernel"),
    "zeros of the launcher": (
        "def copy(x):\n    return torch.zeros_like(x)",
        "launched no Triton kernel",
    ),
    "torch inside": ("def copy(x):\n    return launch(x, x.clone())", "torch's clone"),
    "torch swallowed": (
        """
        def copy(x):
            try:
                return x.clone()
            except Exception:
                return launch(x, torch.empty_like(x))
        """,
        "torch's clone",
    ),
    "wrong dtype": (
        "def copy(x):\n    return launch(x, torch.empty_like(x, dtype=torch.float64))",
        "has dtype torch.float64, not torch.float32",
    ),
    "wrong shape": (
        "def copy(x):\n    return launch(x, torch.empty_like(x)).view(1, -1)",
        "has shape",
    ),
    "not contiguous": (
        """
        @triton.jit
        def spread(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
            offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + offs, mask=offs < N)
            tl.store(y_ptr + 2 * offs, x, mask=offs < N)

        def copy(x):
            y = x.new_empty(2 * x.numel())[::2]
            spread[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
            return y
        """,
        "not contiguous",
    ),
    "a subclass": (
        """
        class Lazy(torch.Tensor): pass
        def copy(x):
            return launch(x, torch.empty_like(x)).as_subclass(Lazy)
        """,
        "not a plain tensor",
    ),
    "a list": ("def copy(x):\n    return [launch(x, torch.empty_like(x))]", "returned a list"),
    "two results": (
        "def copy(x):\n    return launch(x, torch.empty_like(x)), launch(x, torch.empty_like(x))",
        "returned 2 tensors, not 1",
    ),
    "grid too small": (
        """
        def copy(x):
            y = torch.empty_like(x)
            kernel[(x.numel() // 64,)](x, y, x.numel(), BLOCK=64)
            return y
        """,
        "the result[256] was stored by no program: 44 of 300 elements",
    ),
    "raises": ("def copy(x):\n    raise KeyError('k')", "copy.py:16  KeyError: 'k'"),
    "skips": ("import pytest\ndef copy(x):\n    pytest.skip('no')", "Skipped: no"),
    "exits": ("import sys\ndef copy(x):\n    sys.exit(0)", "SystemExit: 0"),
    "wrong arguments": ("def copy():\n    pass", "copy() takes 0 positional arguments"),
}

INTERPRETED = {
    "takes a GPU for granted": (
        """
        def copy(x):
            assert x.is_cuda
            return launch(x, torch.empty_like(x))
        """,
        "allocate with device=x.device",
    ),
    "writes its input back": (
        """
        @triton.jit
        def and_back(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
            offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + offs, mask=offs < N)
            tl.store(x_ptr + offs, x, mask=offs < N)
            tl.store(y_ptr + offs, x, mask=offs < N)

        def copy(x):
            y = torch.empty_like(x)
            and_back[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
            return y
        """,
        r"copy: the input x was stored to, with the values it had\n.*copy.py:20  tl.store\(x_ptr",
    ),
    "adds nothing to its input": (
        """
        @triton.jit
        def add_nothing(x_ptr):
            tl.atomic_add(x_ptr, 0.0)

        def copy(x):
            add_nothing[(1,)](x)
            return launch(x, torch.empty_like(x))
        """,
        r"the input x was stored to.*\n.*copy.py:18  tl.atomic_add\(x_ptr, 0.0\)",
    ),
    "result never stored": (
        """
        def copy(x):
            launch(x, torch.empty_like(x))
            return torch.zeros_like(x)
        """,
        "was stored by no program",
    ),
}


@pytest.mark.parametrize("case", RIGHT)
def test_right_subject_passes(copying, case):
    copying(RIGHT[case]).check(inputs.randn(300))


def test_zeros_of_the_launcher_may_stay(copying):
    source = """
        @triton.jit
        def add_others(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
            offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + offs, mask=offs < N, other=0)
            tl.atomic_add(y_ptr + offs, x, mask=x != 0)

        def copy(x):
            y = torch.zeros_like(x)
            add_others[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
            return y
    """
    copying(source).check(inputs.integers(300))


@pytest.mark.parametrize("case", WRONG)
def test_wrong_subject_fails(copying, case):
    source, message = WRONG[case]
    with pytest.raises(Wrong) as caught:
        copying(source).check(inputs.randn(300))
    assert message in str(caught.value)
    assert "copy" in str(caught.value)


@pytest.mark.parametrize("case", INTERPRETED)
def test_wrong_subject_fails_in_the_interpreter(copying, case):
    if not settings.interpreted:
        pytest.skip("a GPU does not show who stored what")
    source, message = INTERPRETED[case]
    with pytest.raises(Wrong, match=message):
        copying(source).check(inputs.randn(300))


GRID = """
@triton.jit
def fails(x_ptr):
    tl.static_assert(False)

def copy(x):
    fails[{}](x)
    return torch.empty_like(x)
"""


def test_grid_is_checked_without_running_its_programs(copying):
    if not settings.interpreted:
        pytest.skip("a GPU runs them")
    x = inputs.randn(70_000)
    copying(GRID.format("(x.numel(),)")).check_grid(x)
    with pytest.raises(Wrong, match="at most 65535 programs along axis 1"):
        copying(GRID.format("(1, x.numel())")).check_grid(x)


NEGATED = """
@triton.jit
def negate(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N)
    tl.store(y_ptr + offs, -x, mask=offs < N)

def copy(x):
    y = torch.empty_like(x)
    negate[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y
"""


@pytest.mark.parametrize("diagnosed", [1, 1000])
def test_results_of_large_grids_are_compared_on_a_gpu(copying, monkeypatch, diagnosed):
    if settings.interpreted:
        pytest.skip("the interpreter runs no program of a large grid")
    monkeypatch.setattr(challenge, "MAX_DIAGNOSED_ELEMENTS", diagnosed)
    x = inputs.randn(300)
    copying(RIGHT["plain"]).check_grid(x)
    with pytest.raises(Wrong, match=r"(?s)copy\(x: float32 \(300,\)\).* is wrong in 300 of 300"):
        copying(NEGATED).check_grid(x)


IN_A_LOOP = """
@triton.jit
def loop(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, N, tl.num_programs(0) * BLOCK):
        offs = start + tl.arange(0, BLOCK).to(tl.int64)
        tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < N), mask=offs < N)

def copy(x):
    y = torch.{}
    loop[(4,)](x, y, x.numel(), BLOCK=64)
    return y
"""

CHUNKS = """
@triton.jit
def copy_chunk(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = {} * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < N), mask=offs < N)

def copy(x):
    y = torch.empty_like(x)
    copy_chunk[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
"""


@pytest.fixture
def large():
    return inputs.reserve(2**31 + 77, "float16")


def test_offsets_of_a_large_result_are_checked_at_both_ends(copying, large):
    right = CHUNKS.format("tl.program_id(0).to(tl.int64)")
    copying(right).check_large_offsets(large)
    if not settings.interpreted:
        with pytest.raises(Wrong, match=r"\[2147483648\] was stored by no program: 77 of"):
            copying(right.replace("triton.cdiv(x.numel(), 1024)", "2**21")).check_large_offsets(
                large
            )
        return
    with pytest.raises(Wrong, match=r"2097152 \* 1024 = 2147483648 does not fit int32"):
        copying(CHUNKS.format("tl.program_id(0)")).check_large_offsets(large)


@pytest.mark.parametrize(
    "allocation",
    ["empty_like(x)", "zeros_like(x)", "zeros(x.shape, dtype=x.dtype, device=x.device)"],
)
def test_programs_that_loop_over_a_large_result_are_ended(copying, large, allocation):
    if not settings.interpreted:
        pytest.skip("a GPU runs them to their end")
    copying(IN_A_LOOP.format(allocation)).check_large_offsets(large)


LEFT_TO_OTHERS = """
@triton.jit
def places(list_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(list_ptr + offs, offs, mask=offs < N)

@triton.jit
def gather(x_ptr, list_ptr, y_ptr, N):
    for start in range(tl.program_id(0), N, tl.num_programs(0)):
        place = tl.load(list_ptr + start)
        tl.store(y_ptr + start, tl.load(x_ptr + place))

def copy(x):
    N, y = x.numel(), torch.empty_like(x)
    list = torch.empty(N, dtype=torch.int64, device=x.device)
    places[(triton.cdiv(N, 64),)](list, N, BLOCK=64)
    {}
    gather[(100,)](x, list, y, N)
    return y
"""


def test_what_programs_that_did_not_run_should_have_stored_is_not_used(copying):
    if not settings.interpreted:
        pytest.skip("all programs run on a GPU")
    x = inputs.integers(100_000, dtype="float16")
    copying(LEFT_TO_OTHERS.format("")).check_large_offsets(x)
    with pytest.raises(NotMeasured, match="not all programs ran"):
        copying(LEFT_TO_OTHERS.format("assert list[-64].item() == N - 64")).check_large_offsets(x)


def test_a_large_result_is_the_subjects_own(copying, large):
    source = CHUNKS.format("tl.program_id(0).to(tl.int64)")
    with pytest.raises(Wrong, match="in the memory of its input x"):
        copying(source.replace("torch.empty_like(x)", "x")).check_large_offsets(large)


ONE_WRONG_CONFIG = """
@triton.autotune([triton.Config({"BLOCK": b}) for b in (32, 64, 128)], key=["N"])
@triton.jit
def tuned(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N)
    tl.store(y_ptr + offs, x + (BLOCK == 128), mask=offs < N)

def copy(x):
    y = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y
"""


def test_the_cause_is_looked_for_with_the_config_that_is_wrong(copying):
    with pytest.raises(Wrong) as caught:
        copying(ONE_WRONG_CONFIG).check(inputs.randn(300))
    assert "with the autotuner's tuned(BLOCK=128, " in str(caught.value)
    assert "cause:" not in str(caught.value)


def test_launcher_that_says_not_implemented_is_unsolved(copying):
    with pytest.raises(Unsolved, match=r"unsolved: edit .*copy\.py"):
        copying("def copy(x):\n    raise NotImplementedError").check(inputs.randn(3))


def test_not_implemented_inside_a_library_is_wrong(copying):
    source = "def copy(x):\n    return torch.Tensor.__rmatmul__(x, 3) if 0 else _f(x)\n"
    source += "def _f(x):\n    import abc, numbers\n    return numbers.Complex.conjugate(None)\n"
    with pytest.raises(Wrong, match="NotImplementedError"):
        copying(source).check(inputs.randn(3))


BAD = """
def copy(x):
    if x.dim() != 1:
        raise {}
    return launch(x, torch.empty_like(x))
"""


def test_bad_input_that_is_rejected_passes(copying):
    puzzle = copying(BAD.format("ValueError('x must be 1-D')"))
    puzzle.rejects(ValueError, inputs.randn(3, 3), naming="x")


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        ("ValueError('must be 1-D')", 'names x; its message is "must be 1-D"'),
        ("ValueError('maximum exceeded')", "names x; its message"),
        ("TypeError('x')", "instead:"),
    ],
)
def test_bad_input_that_is_rejected_otherwise(copying, raised, message):
    with pytest.raises(Wrong) as caught:
        copying(BAD.format(raised)).rejects(ValueError, inputs.randn(3, 3), naming="x")
    assert message in str(caught.value)


def test_bad_input_that_is_taken(copying):
    with pytest.raises(Wrong, match="must raise ValueError that names x, but it returned"):
        copying(RIGHT["plain"]).rejects(ValueError, inputs.randn(3, 3), naming="x")


def test_kernel_of_somebody_else(copying, tmp_path_factory, monkeypatch):
    library = tmp_path_factory.mktemp("library")
    (library / "somebody.py").write_text(HEADER)
    monkeypatch.syspath_prepend(library)
    source = "import somebody\ndef copy(x):\n    return somebody.launch(x, torch.empty_like(x))"
    with pytest.raises(Wrong, match="the kernel must be your own"):
        copying(source).check(inputs.randn(300))


def test_in_place_returns_none(copying):
    copying("def copy(x):\n    launch(x, x)", in_place=("x",)).check(inputs.randn(300))
    with pytest.raises(Wrong, match="must return None"):
        copying("def copy(x):\n    return launch(x, x)", in_place=("x",)).check(inputs.randn(300))


def test_alias_is_kept(copying):
    """A tensor that is given twice arrives as one tensor."""
    source = "def copy(x):\n    return launch(x, torch.empty_like(x))"
    puzzle = copying(source)
    x = inputs.randn(3)
    arguments = challenge.Arguments(("x", "y"), (x, x), {})
    placed = puzzle._guarded(arguments).arguments
    assert placed.positional[0] is placed.positional[1]
    assert torch.equal(placed.positional[0], x)
