"""Sealed runs: nothing that a launcher does reaches the verdict, and the grader survives it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from triton.runtime.jit import get_full_name

from course import paths
from course.plugin import ladder
from course.proof import runner
from kernelgauge.core import rebuilt, timeouts
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.sealed import cell, replay, system_calls
from tests import cheat_table
from tests.test_batch import process

try:
    cell.in_force()
    LACKS = ""
except cell.CannotSeal as reason:
    LACKS = str(reason)
pytestmark = [pytest.mark.proof, pytest.mark.skipif(bool(LACKS), reason=LACKS)]

IN_CELLS = cheat_table.CHEATS / "sealed"
# What is graded after each cheat, in its cell if that goes on.
NEXT = "01_pointwise/relu"


@pytest.fixture
def graded(tmp_path, monkeypatch):
    """Grade a source in a cell. Returns what the first fault says, or ""."""

    def grade(puzzle: str, source: str, limit: float = 30.0, check: str = "numerics") -> str:
        if puzzle != NEXT:
            shutil.copyfile(paths.SOLUTIONS / f"{puzzle}.py", tmp_path / "honest.py")
            (tmp_path / NEXT).parent.mkdir(exist_ok=True)
            shutil.copyfile(paths.SOLUTIONS / f"{NEXT}.py", tmp_path / f"{NEXT}.py")
        cases = [c for c in runner.cases_of(puzzle) if ladder.check_of(c.test) == check]
        with runner.graded(puzzle, source, tmp_path):
            for case in cases:
                try:
                    with timeouts.time_limit(limit):
                        case.run()
                except Wrong as wrong:
                    return str(wrong)
        return ""

    monkeypatch.setattr(settings, "sealed", True)
    yield grade
    replay.stop()


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(it, id=it.stem, marks=[pytest.mark.nightly] * (it.parent != IN_CELLS))
        for it in cheat_table.FILES
    ],
)
def test_cheat_in_a_cell(file, graded):
    """Each is rejected with the true reason, or harmless; the next subject gets its own verdict."""
    if file.stem == "hangs_in_the_kernel" and not settings.interpreted:
        pytest.skip("a hung GPU ends the process that waits for it")
    if file.stem == "system_calls" and not system_calls.compiled():
        pytest.skip("needs libseccomp")
    cheat = cheat_table.read(file)
    expected = cheat.sealed if settings.interpreted else cheat.gpu or cheat.sealed
    if file.stem == "kills_its_parent" and os.geteuid():
        # The cell's supervisor has the same user then.
        expected = "ended the process of its cell"
    said = graded(cheat.puzzle, file.read_text(), 6.0 if "hangs" in file.stem else 30.0)
    if expected != cheat_table.HARMLESS:
        assert re.search(expected, said), f'not "{expected}": {said or "passed"}'
    else:
        assert said == ""
    assert graded(NEXT, (paths.SOLUTIONS / f"{NEXT}.py").read_text()) == ""


def test_the_page_of_cheats_is_made_of_their_headers():
    assert cheat_table.PAGE.read_text() == cheat_table.page()


# What a run in the open mode is kept in here, where nobody is there whom it could harm.
SANDBOX = (
    "bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "--unshare-ipc",
    "--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev",
    "--size", "300000000", "--tmpfs", "/tmp",
)  # fmt: skip


@pytest.mark.nightly
@pytest.mark.commands
@pytest.mark.parametrize("file", sorted(IN_CELLS.glob("*.py")), ids=lambda it: it.stem)
def test_cheat_of_cells_in_the_open(file, tmp_path):
    cheat = cheat_table.read(file)
    chapter, name = cheat.puzzle.split("/")
    shutil.copyfile(paths.SOLUTIONS / f"{cheat.puzzle}.py", tmp_path / "honest.py")
    (tmp_path / chapter).mkdir()
    shutil.copyfile(file, tmp_path / chapter / f"{name}.py")
    root = str(paths.ROOT)
    command = [*SANDBOX, "--ro-bind", root, root, "--bind", str(tmp_path), str(tmp_path)]
    command += ["--setenv", "PYTHONPATH", str(tmp_path), sys.executable, "-m", "pytest"]
    command += [f"puzzles/{chapter}/test_{name}.py", "-k", "numerics", "-p", "no:cacheprovider"]
    command += [
        "--subject",
        str(tmp_path),
        "--time-limit",
        "10",
        "--json",
        str(tmp_path / "found.json"),
    ]
    # What one process may have, so that one that fills the memory does not end others.
    bounded = ["prlimit", f"--as={8 * 2**30}", *command]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(bounded, **process(), **silent, timeout=300, check=False)
    if not (tmp_path / "found.json").exists():
        assert cheat.open == cheat_table.ENDS
        return
    (report,) = json.loads((tmp_path / "found.json").read_text())["reports"]
    (puzzle,) = (it for it in report["puzzles"] if it["checks"])
    said = "\n".join(it["message"] for it in puzzle["checks"] if it["verdict"] != "passed")
    if cheat.open == cheat_table.SOLVED:
        assert not said
    else:
        raises = "AssertionError|RuntimeError"
        expected = raises if cheat.open == cheat_table.REACHED else cheat.open
        assert re.search(expected, said), f'not "{cheat.open}": {said or "solved"}'


def test_the_compiler_reads_what_was_checked(graded):
    source = (IN_CELLS / "kernel_in_a_decorator.py").read_text()
    assert graded("01_pointwise/swish", source, check="compiles") == ""


def test_a_backward_pass_sees_the_devices_of_its_tensors(graded):
    puzzle = "16_flash_backward/autograd"
    source = (paths.SOLUTIONS / f"{puzzle}.py").read_text()
    saved = "q, k, v, out, lse = ctx.saved_tensors\n"
    seen = (
        f'{saved}        if q.device.type == "meta" or dout.is_meta:\n            raise TypeError\n'
    )
    assert source.count(saved) == 1
    assert graded(puzzle, source.replace(saved, seen)) == ""


def test_functions_of_triton_may_be_imported_by_name(graded):
    source = (paths.SOLUTIONS / "01_pointwise/swish.py").read_text()
    by_name = "import triton\nfrom triton.language import sigmoid\n"
    source = source.replace("import triton\n", by_name, 1)
    assert source.count("tl.sigmoid(") == 1
    assert graded("01_pointwise/swish", source.replace("tl.sigmoid(", "sigmoid(")) == ""


UNUSUAL = sorted((paths.ROOT / "tests/alternatives/unusual").rglob("*.py"))
# Whose grid is a torch.Size, and whose launcher torch.library.custom_op made.
SHOWN = ("cumsum", "adam_step")


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(it, id=it.stem, marks=[pytest.mark.nightly] * (it.stem not in SHOWN))
        for it in UNUSUAL
    ],
)
def test_unusual_answers_are_recorded(file, graded):
    puzzle = f"{file.parent.name}/{file.stem}"
    assert graded(puzzle, file.read_text(), 60.0) == ""


GLUON = """
import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language import program_id, zeros
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

LAYOUT = gl.constexpr(gl.SliceLayout(0, gl.BlockedLayout([1, 4], [1, 32], [1, 4], [1, 0])))


@gluon.jit
def kernel(x_ptr, y_desc, N, BLOCK: gl.constexpr, layout: gl.constexpr):
    first = program_id(0) * BLOCK
    slot = gl.allocate_shared_memory(y_desc.dtype, [BLOCK], y_desc.layout)
    offs = first + gl.arange(0, BLOCK, layout)
    x = gl.load(x_ptr + offs, mask=offs < N, other=0) + zeros([BLOCK], y_desc.dtype, layout)
    slot.store(gl.convert_layout(x, LAYOUT))
    gl.nvidia.hopper.fence_async_shared()
    tma.async_copy_shared_to_global(y_desc, [first], slot)
    tma.store_wait(0)


def gluon_copy(x):
    y, BLOCK = torch.empty_like(x), 1024
    dtype = {torch.float32: gl.float32, torch.float16: gl.float16}.get(x.dtype, gl.bfloat16)
    layout = gl.NVMMASharedLayout.get_default_for([BLOCK], dtype)
    if len(x):
        grid = (triton.cdiv(len(x), BLOCK),)
        y_desc = TensorDescriptor.from_tensor(y, [BLOCK], layout)
        own = gl.BlockedLayout([4], [32], [4], [0])
        kernel[grid](x, y_desc, len(x), BLOCK, own)
    return y
"""


def test_gluon_kernels_are_recorded(graded):
    """Also what stands for layouts: arguments, constants of the file, parts of descriptors."""
    assert graded("19_gluon/gluon_copy", GLUON) == ""
    said = graded("19_gluon/gluon_copy", GLUON.replace("y_desc, [first]", "y_desc, [first + 1]"))
    assert "was never written by a kernel, element 0" in said


def test_the_compiler_takes_gluon_kernels_of_a_cell(graded):
    source = (paths.SOLUTIONS / "19_gluon/barrier_ring.py").read_text()
    assert graded("19_gluon/barrier_ring", source, check="compiles") == ""


def test_what_a_gpu_lacks_is_no_bug_of_triton(graded):
    """TMA, compiled for an A100."""
    said = graded("19_gluon/gluon_copy", GLUON, check="compiles")
    assert "for sm_80 (A100)" in said
    assert "begin with sm_80, TMA and" in said


@pytest.mark.parametrize("name", ["gl.amd", "gl.base_value", "gl.inline_asm_elementwise"])
def test_a_gluon_kernel_uses_nothing_but_gluon(graded, name):
    source = GLUON.replace("tma.store_wait(0)", f"tma.store_wait(0)\n    {name}")
    said = graded("19_gluon/gluon_copy", source)
    assert f"kernel uses {name}, which is no part of Triton's language" in said


AGGREGATES = paths.ROOT / "tests/alternatives/19_gluon/gluon_ws_matmul.py"


@pytest.mark.parametrize("check", ["numerics", "compiles"])
def test_aggregates_are_recorded(check, graded):
    assert graded("19_gluon/gluon_ws_matmul", AGGREGATES.read_text(), 60.0, check) == ""


def test_an_aggregate_is_what_its_file_says(graded):
    source = AGGREGATES.read_text()
    assert source.count("self.slot + 1") == 1
    said = graded("19_gluon/gluon_ws_matmul", source.replace("self.slot + 1", "self.slot + 2"))
    assert "index 4 of" in said


def test_aggregates_and_kernels_may_need_each_other(graded):
    source = AGGREGATES.read_text()
    begun = "Turn.first(ring.slots)"
    made = """
@gluon.jit
def first_turn(slots: gl.constexpr):
    return Turn(gl.to_tensor(0), gl.to_tensor(0), slots)


@aggregate
class Turn:"""
    source = source.replace("\n@aggregate\nclass Turn:", made)
    source = source.replace(
        "return Turn(gl.to_tensor(0), gl.to_tensor(0), slots)\n\n    @gluon.must",
        "return first_turn(slots)\n\n    @gluon.must",
    )
    assert source.count(begun) == 2
    assert source.count("first_turn") == 2
    assert graded("19_gluon/gluon_ws_matmul", source, 60.0) == ""


CLASS = "@aggregate\nclass Turn:"
FIELD = "    slot: gl.tensor\n"
FIRST = "    def first(slots: gl.constexpr):\n"
SET = "        self.slot = slot\n"
METHOD = f"{FIELD}    @gluon.jit\n    def {{}}(self):\n        return 1\n"
HOSTILE = {
    "base": (CLASS, "class Base: pass\n@aggregate\nclass Turn(Base):", "uses a base class"),
    "metaclass": (
        CLASS,
        "class M(type): pass\n@aggregate\nclass Turn(metaclass=M):",
        "uses a base class",
    ),
    "decorator": (CLASS, "@(lambda c: c)\n@aggregate\nclass Turn:", "uses another decorator"),
    "import": (FIELD, f"{FIELD}    import os\n", "uses a statement that is no field: import os"),
    "call": (FIELD, f"{FIELD}    print()\n", "uses a statement that is no field: print()"),
    "slots": (
        FIELD,
        f"{FIELD}    __slots__ = ()\n",
        "uses a statement that is no field: __slots__",
    ),
    "value": (
        FIELD,
        "    slot: gl.tensor = print()\n",
        "uses a statement that is no field: slot: gl.tensor = print()",
    ),
    "default": (FIRST, FIRST.replace("):", " = open):"), "uses open"),
    "annotation": (FIRST, "    def first(slots: print()):\n", "uses print"),
    "other_type": (FIELD, "    slot: object\n", "uses the field slot with its annotation"),
    "property": (
        FIELD,
        METHOD.format("now").replace("gluon.jit", "property"),
        "uses now, which neither jit nor constexpr_function made",
    ),
    **{
        name: (FIELD, METHOD.format(name), f"has a part named {name}, a name that")
        for name in (
            "__getattr__",
            "__get__",
            "_flatten_ir",
            "type",
            "handle",
            "memory",
            "func",
            "hash_attrs",
        )
    },
    "field": (FIELD, f"{FIELD}    data: gl.tensor\n", "has a part named data, a name that"),
    "twice": ("    def following(self):", "    def first(self):", "uses first twice"),
    "python": (SET, f"{SET}        open('/etc/passwd')\n", "uses open"),
    "imports": (SET, f"{SET}        import os\n", "uses import"),
    "class_of_a_value": (SET, f"{SET}        slot.__class__\n", "uses .__class__"),
    "sets_another": (SET, f"{SET}        slot.phase = 1\n", "uses an attribute that it sets"),
    "sets_no_field": (SET, f"{SET}        self.other = 1\n", "uses an attribute that it sets"),
    "another_self": (SET, f"        self = slot\n{SET}", "uses an attribute that it sets"),
    "sets_later": (
        "        is_last =",
        "        self.slot = 1\n        is_last =",
        "uses an attribute that it sets",
    ),
    "deletes": (SET, f"{SET}        del self.slot\n", "uses del"),
    "shadow": (
        "language as gl\n",
        "language as real\n\nclass Shadow:\n  def __getattr__(self, name):\n"
        "    return getattr(real, name)\n  def __eq__(self, other):\n    return True\n\n"
        "gl = Shadow()\n",
        # Only what stands for a module has parts like this one.
        "uses .constexpr",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_aggregate_is_nothing_but_fields_and_functions(name, graded):
    find, replace, said = HOSTILE[name]
    source = AGGREGATES.read_text()
    assert source.count(find) == 1
    found = graded("19_gluon/gluon_ws_matmul", source.replace(find, replace))
    assert re.search(rf" (Turn|Ring) {re.escape(said)}", found)


def test_a_cell_names_nothing_that_a_kernel_does_not(tmp_path):
    """Nor what Python itself looks up, where a kernel is told to stand for it."""
    file = tmp_path / "subject.py"
    file.write_text("@__builtins__\n@other\ndef kernel(x):\n    kernel(x)\n")
    asked = "__builtins__", "_jit", "kernel", "other", "np"
    told = {name: ["kernel", 0] for name in asked}
    made = rebuilt.Kernels({0: rebuilt.Record(str(file), 1, "kernel", told, {})}).get(0)
    names = made.fn.__globals__
    assert {*names} == {"__builtins__", "__name__", "kernel", "other"}
    assert {*names["__builtins__"]} == {*rebuilt.BUILTINS}
    assert names["kernel"] is names["other"] is made


def test_the_compiler_tells_functions_of_one_name_apart(tmp_path):
    """Triton compiles one of a module, a name and types of arguments."""
    records = {}
    for number, term in enumerate(("1", "2")):
        file = tmp_path / f"helpers_{number}.py"
        file.write_text(f"@triton.jit\ndef act(x):\n    return x + {term}\n")
        records[number] = rebuilt.Record(str(file), 1, "act", {}, {})
    kernels = rebuilt.Kernels(records)
    assert get_full_name(kernels.get(0).fn) != get_full_name(kernels.get(1).fn)


def test_an_annotation_of_an_aggregate_is_not_evaluated(graded):
    """The judge has its type from the cell, and takes no other than Triton's."""
    marks = "__import__('os').environ.setdefault('EVALUATED', '1')"
    source = AGGREGATES.read_text().replace(FIELD, f"    slot: (gl.tensor, {marks})[0]\n")
    assert marks in source
    assert graded("19_gluon/gluon_ws_matmul", source) == ""
    assert "EVALUATED" not in os.environ


BUSY = """
import subprocess, sys, time

def busy(seconds):
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass

computed = swish

def swish(x):
    {waits}
    return computed(x)
"""


@pytest.mark.parametrize(
    ("waits", "said"),
    [
        # A cell that others keep from the processor waits like this one.
        ("time.sleep(3)", ""),
        ("busy(4)", "did not return within 2 s of processor time"),
        (
            "subprocess.run([sys.executable, '-c', 'while True: pass'])",
            "did not return within 2 s of processor time",
        ),
        ("time.sleep(60)", "did not return within 8 s"),
    ],
)
def test_a_cell_may_be_kept_waiting(graded, waits, said):
    """A step of a call has a third of the limit, of processor time, and four times that to wait."""
    source = (paths.SOLUTIONS / "01_pointwise/swish.py").read_text()
    found = graded("01_pointwise/swish", source + BUSY.format(waits=waits), 6.0)
    assert said in found if said else not found


@pytest.mark.parametrize("sent", [b" ", b"[1]\n"], ids=["no_line", "no_end"])
def test_a_cell_that_never_pauses_holds_nobody_up(tmp_path, monkeypatch, sent):
    monkeypatch.setattr(timeouts, "PATIENCE", 2.0)
    monkeypatch.setattr(cell, "CLOSING_SECONDS", 0.2)
    running = cell.Cell(tmp_path)
    theirs = running._socket
    running._socket, sends = socket.socketpair()
    running._is_closing = True
    over = threading.Event()

    def send():
        while not over.wait(0.01):
            sends.sendall(sent)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        begun = time.monotonic()
        assert not running.is_free()
        assert time.monotonic() - begun < 5
    finally:
        over.set()
        thread.join()
        running._socket.close()
        running._socket = theirs
        running.kill()


def test_a_link_leads_to_no_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "subjects", tmp_path)
    own, link = tmp_path / "own.py", tmp_path / "link.py"
    own.write_text("")
    link.symlink_to(paths.SOLUTIONS / "01_pointwise" / "swish.py")
    session = object.__new__(replay.Session)
    assert session.place([str(own), 1, "kernel"]) == (str(own), 1, "kernel")
    for file in (link, tmp_path / ".." / "own.py"):
        with pytest.raises(cell.Forged):
            session.place([str(file), 1, "kernel"])


SAYS = """
import getpass
with open("/proc/self/oom_score_adj") as file:
    raise OSError(int(file.read()), getpass.getuser())
"""


def test_what_a_cell_is(tmp_path):
    """It ends first where memory runs out, and its user, of whom no file tells, has a name."""
    file = tmp_path / "subject.py"
    file.write_text(SAYS)
    one = cell.Cell(tmp_path)
    try:
        told = one.open(file, "subject", None, 30.0)
    finally:
        one.kill()
    assert told[2] == "[Errno 1000] cell"


def test_the_copy_of_a_killed_judge_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, young = (tmp_path / f"{cell.COPY}{it}" for it in ("left", "young"))
    for copy in (left, young):
        (copy / "subject").mkdir(parents=True)
    os.utime(left, (0, 0))
    running = cell.Cell(paths.SOLUTIONS)
    os.utime(running._copy.name, (0, 0))
    other = cell.Cell(paths.SOLUTIONS)
    assert {*tmp_path.iterdir()} == {young, *(Path(it._copy.name) for it in (running, other))}
    for it in (running, other):
        it.kill()
    assert {*tmp_path.iterdir()} == {young}
