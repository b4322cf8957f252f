"""--try gives launches other values. What the launcher makes of them follows, or it says so."""

from __future__ import annotations

import ast
import textwrap

import pytest
import torch

from course import paths
from course.plugin import experiments, looks, trials
from kernelgauge.core import paths as core_paths
from kernelgauge.core.arguments import Arguments
from kernelgauge.core.settings import settings
from kernelgauge.subject.guarded_call import GuardedCall
from kernelgauge.subject.launcher_source import followed, meta_parameters
from kernelgauge.subject.trial import Trial

HEADER = """
import torch, triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr, SCALE: tl.constexpr = 1):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N)
    tl.store(y_ptr + offs, x * SCALE, mask=offs < N)

"""

N = 100


@pytest.fixture
def launched(tmp_path):
    """Run a launcher on 100 elements with other values. Returns its launches, and the trial."""

    def run(source: str, **values):
        path = tmp_path / "copy.py"
        path.write_text(HEADER + textwrap.dedent(source))
        trial = Trial(values)
        x = torch.ones(N, device=settings.device)
        with trial.running(path):
            copy = paths.load(path).copy
            arguments = Arguments(("x",), (x,), {})
            call = GuardedCall(copy, path, arguments, interpreted=settings.interpreted)
            call.restore()
            return call.run(programs="none", rehearse=False).launches, trial

    yield run
    core_paths._modules.pop(tmp_path / "copy.py", None)


LAUNCHERS = {
    "a_constant_of_the_launcher": """
        def copy(x):
            y = torch.empty_like(x)
            BLOCK = 64
            kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=BLOCK)
            return y
    """,
    "one_of_several_by_position": """
        def copy(x):
            y = torch.empty_like(x)
            size, warps = 64, 4
            kernel[(triton.cdiv(x.numel(), size),)](x, y, x.numel(), size, num_warps=warps)
            return y
    """,
    "a_constant_of_the_file": """
        BLOCK = 64
        def copy(x):
            y = torch.empty_like(x)
            kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=BLOCK)
            return y
    """,
    "what_a_function_returns": """
        def sizes(n):
            return triton.next_power_of_2(n), 1
        def copy(x):
            y = torch.empty_like(x)
            BLOCK, other = sizes(x.numel())
            if other > 1:
                BLOCK = 8
            kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=BLOCK)
            return y
    """,
    "a_parameter": """
        def launch(x, y, BLOCK):
            kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=BLOCK)
            return y
        def copy(x):
            return launch(x, torch.empty_like(x), 64)
    """,
    "the_same_number": """
        def copy(x):
            y = torch.empty_like(x)
            grid = (triton.cdiv(x.numel(), 64),)
            kernel[grid](x, y, x.numel(), BLOCK=64)
            return y
    """,
    "a_grid_that_is_a_function": """
        def copy(x):
            y = torch.empty_like(x)
            grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
            kernel[grid](x, y, x.numel(), BLOCK=64)
            return y
    """,
    "an_autotuner": """
        tuned = triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 4})], ["N"])
        kernel = tuned(kernel)
        def copy(x):
            y = torch.empty_like(x)
            kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
            return y
    """,
}


@pytest.mark.parametrize("name", LAUNCHERS)
def test_the_grid_follows(launched, name):
    (before,), _ = launched(LAUNCHERS[name])
    assert before.arguments["BLOCK"] in (64, 128)
    (launch,), trial = launched(LAUNCHERS[name], BLOCK=32, num_warps=2)
    assert launch.arguments["BLOCK"] == 32
    assert launch.options["num_warps"] == 2
    assert launch.grid == (4, 1, 1)
    assert not trial.fixed
    assert not trial.missed([launch])


@pytest.mark.parametrize(
    "source",
    [
        """
        def copy(x):
            y = torch.empty_like(x)
            kernel[((x.numel() + 63) // 64,)](x, y, x.numel(), BLOCK=64)
            return y
        """,
        # Which of the two the grid is made from?
        """
        def copy(x):
            y = torch.empty_like(x)
            kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), 64, 64)
            return y
        """,
        """
        def copy(x):
            y = torch.empty_like(x)
            meta = {"BLOCK": 64}
            kernel[(triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel(), **meta)
            return y
        """,
        # SCALE would change with it.
        """
        def copy(x):
            y = torch.empty_like(x)
            size = 64
            kernel[(triton.cdiv(x.numel(), size),)](x, y, x.numel(), BLOCK=size, SCALE=size)
            return y
        """,
    ],
    ids=["a_number", "a_number_of_two_parameters", "a_dict", "a_variable_of_two_parameters"],
)
def test_a_grid_that_does_not_follow_is_noted(launched, source):
    # With larger tiles the grid, made for 64, still covers x: a GPU's run is checked.
    (launch,), trial = launched(source, BLOCK=128)
    assert launch.arguments["BLOCK"] == 128
    assert launch.arguments["SCALE"] in (1, 64)
    assert launch.grid == (2, 1, 1)
    assert trial.fixed == {("kernel", "BLOCK"): 64}


def test_what_heuristics_set_is_not_tried(launched):
    source = """
        kernel = triton.heuristics({"BLOCK": lambda args: 64})(kernel)
        def copy(x):
            y = torch.empty_like(x)
            kernel[(2,)](x, y, x.numel())
            return y
    """
    launches, trial = launched(source, BLOCK=32)
    assert trial.missed(launches) == "BLOCK"


def test_what_is_not_tried_has_no_results():
    look = trials.TrialLook(None, [{"BLOCK": 32}])
    look.rows = {"01_pointwise/copy": [trials.Row({}), trials.Row({"BLOCK": 32}, missed="BLOCK")]}
    terminal = Terminal()
    look.write(terminal)
    assert "not tried" in terminal.lines[3]
    assert "BLOCK is not tried: @triton.heuristics sets it" in terminal.lines


def test_the_file_is_as_it_was_afterwards(launched, tmp_path):
    launched(LAUNCHERS["a_constant_of_the_file"], BLOCK=32)
    assert "BLOCK = 64" in (tmp_path / "copy.py").read_text()
    (launch,), _ = launched(LAUNCHERS["a_constant_of_the_file"])
    assert launch.arguments["BLOCK"] == 64


def test_what_a_file_has_to_try():
    tree = ast.parse(HEADER + textwrap.dedent(LAUNCHERS["one_of_several_by_position"]))
    assert meta_parameters(tree) == ["BLOCK", "SCALE"]
    (line,) = followed(tree, "BLOCK")
    source = HEADER + textwrap.dedent(LAUNCHERS["one_of_several_by_position"])
    assert source.splitlines()[line - 1].strip() == "size, warps = 64, 4"
    assert followed(tree, "SCALE") == []


# What is typed


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (["BLOCK=64,128"], {"BLOCK": (64, 128)}),
        (["BLOCK=64,64", "num_warps=4"], {"BLOCK": (64,), "num_warps": (4,)}),
        (["EVEN=True,False", "PRECISION='ieee'"], {"EVEN": (True, False), "PRECISION": ("ieee",)}),
    ],
)
def test_values_to_try(given, values):
    assert experiments._values(given) == values


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["BLOCK"], r"--try BLOCK: write a name and its values, as in --try BLOCK=64,128"),
        (["=64"], "write a name"),
        (["BLOCK="], "nothing is not a list of values"),
        (["BLOCK=64,,128"], "64,,128 is not a list of values"),
        (["BLOCK=6x"], "6x is not a list of values"),
        (["BLOCK=__import__('os')"], "is not a list of values"),
        (["BLOCK=64", "BLOCK=128"], "--try BLOCK is given twice"),
        (["A=1,2,3,4,5,6,7", "B=1,2,3,4,5,6,7"], "49 combinations are more than 48"),
    ],
)
def test_values_that_cannot_be_tried(given, message):
    with pytest.raises(pytest.UsageError, match=message):
        experiments._values(given)


@pytest.mark.parametrize(
    "given", ["puzzles/07_matmul", "puzzles/07_matmul/tiled.py", "puzzles/x.py::test_compiles"]
)
def test_a_puzzle_is_no_folder_for_code(given):
    message = f"--compiled {given}: this names a folder to write to; name the puzzle first"
    with pytest.raises(pytest.UsageError, match=message):
        looks.folder_to_write("--compiled", given)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(pytest.UsageError, match="cannot write there: Not a directory"):
        looks.folder_to_write("--compiled", str(tmp_path / "file" / "code"))
    assert looks.folder_to_write("--compiled", str(tmp_path / "new" / "code")).is_dir()


# The table


class Terminal:
    """pytest's terminal, as far as the table uses it."""

    def __init__(self):
        self.lines = []

    def line(self, text="", **_):
        self.lines.append(text)

    def section(self, title, **_):
        self.lines.append(title)


@pytest.mark.parametrize("interpreted", [True, False])
def test_traffic_stands_in_the_table_or_on_a_gpu_the_time(interpreted, monkeypatch):
    monkeypatch.setattr(settings, "interpreted", interpreted)
    look = trials.TrialLook(None, [{"BLOCK": 64}])
    now = trials.Row({}, shown={"BLOCK": "128"}, traffic=1.0, time="0.1 ms")
    tried = trials.Row({"BLOCK": 64}, traffic=2.5, over_budget=True, time="0.2 ms")
    look.rows = {"01_pointwise/copy": [now, tried]}
    terminal = Terminal()
    look.write(terminal)
    head, first, second = (line.split() for line in terminal.lines[1:4])
    assert head[:3] == ["BLOCK", "results", "traffic" if interpreted else "time"]
    assert first[:3] == ["now", "128", "right"]
    assert second[:2] == ["64", "right"]
    assert second[2:] == (["2.5x,", "over"] if interpreted else ["0.2", "ms"])
