"""Kernels of others, outside any course: a package of their own, checked by a script of theirs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

import kernelgauge
from course.paths import ROOT
from kernelgauge.core import blame
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotMeasured

KERNELS = """
import triton
import triton.language as tl

from .blocks import SCALE


@triton.jit
def rows(x_ptr, w_ptr, y_ptr, stride, N, eps, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * stride + offs, mask=offs < N, other=0.0).to(tl.float32)
    d = tl.where(offs < N, x - tl.sum(x) / N, 0.0)
    y = d * tl.rsqrt(tl.sum(d * d) / N + eps) * SCALE
    w = tl.load(w_ptr + offs, mask=offs < N, other=0.0)
    tl.store(y_ptr + tl.program_id(0) * stride + offs, y * w, mask=offs < N)


@triton.jit
def unmasked(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs))


@triton.jit
def add(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=0.0)
    tl.atomic_add(y_ptr + offs, x, mask=offs < N)


@triton.jit
def total(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + offs, mask=offs < N, other=0.0)))
"""

LAUNCHERS = """
import torch
import triton

from . import kernels
from .blocks import block

TABLE = torch.ones(70)


def norm(x, w, eps=1e-5, rows_done=None):
    flat = x.contiguous().view(-1, x.shape[-1])
    y = torch.empty_like(flat)
    grid = (flat.shape[0] if rows_done is None else rows_done,)
    size = flat.shape[1]
    kernels.rows[grid](flat, w.float(), y, flat.stride(0), size, eps, BLOCK=block(size))
    return y.view(x.shape)


def norm_without_eps(x, w, eps=1e-5):
    return norm(x, w, 0.0)


def norm_of_all_but_one(x, w, eps=1e-5):
    return norm(x, w, eps, x.shape[0] - 1)


def norm_in_half_of_all_but_one(x, w, eps=1e-5):
    return norm(x, w, eps, x.shape[0] - 1).half()


def norm_by_table(x, w, eps=1e-5):
    lengths = torch.tensor([x.shape[1]]).tolist()
    return norm(x, TABLE[: lengths[0]] * w, eps)


def copy(x):
    y = torch.empty_like(x)
    kernels.unmasked[(triton.cdiv(x.numel(), 64),)](x, y, BLOCK=64)
    return y


def add_to(x, y):
    out = torch.empty_like(x)
    out[:50] = y[:50]
    out[50:].copy_(y[50:])
    kernels.add[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


def add_with_length(x, y, length):
    return add_to(x, y)


def add_to_nothing(x, y):
    out = torch.empty_like(x)
    kernels.add[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out + y


def add_in_place(x, y):
    kernels.add[(triton.cdiv(x.numel(), 64),)](y, x, x.numel(), BLOCK=64)
    return x


def total(x):
    y = torch.empty((), device=x.device)
    kernels.total[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y


def identity(x):
    return x


KEPT = []


def kept(x):
    if not KEPT:
        KEPT.append(torch.empty_like(x))
    KEPT[0].copy_(x)
    return KEPT[0]


def no_float64(x):
    if x.dtype == torch.float64:
        raise NotImplementedError("x is float64")
    return x
"""

BLOCKS = """
import triton
import triton.language as tl

SCALE = tl.constexpr(1.0)


def block(size):
    return triton.next_power_of_2(size)
"""

SCRIPT = """
import json

import kernelgauge

installed = kernelgauge.install()

import torch
from kernelgauge import Kernel, NotMeasured, Wrong
from norms import launchers


def layer_norm(x, w, eps=1e-5):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], w, None, eps)


def half(x, w, eps=1e-5):
    return layer_norm(x, w, eps).half()


def waves(x, y, length=0):
    if not length:
        raise RuntimeError("the length is 0")
    return torch.sin(x / length) ** 3 + torch.cos(7 * y)


def added(x, y):
    return x + y


def added_in_place(x, y):
    x += y


def refuses(x):
    return x


torch.manual_seed(0)
x, w, v = torch.randn(9, 70), torch.randn(70), torch.randn(100)
k = Kernel(launchers.norm, reference=layer_norm)
wide = torch.randn(2, 2**15)
strided = torch.randn(70, 9).T
CASES = {
    "right": lambda: k.check(x, w),
    "right, of a strided tensor": lambda: k.check(strided, w),
    "traffic within": lambda: k.traffic(x, w).check(reads={"x": 1, "w": 9}, writes=1, launches=1),
    "traffic beyond": lambda: k.traffic(x, w).check(reads=1),
    "compiles": lambda: k.compiles(x, w, targets=["sm_80", "sm_90"], spills=0),
    "spills": lambda: k.compiles(wide, wide[0], targets=["sm_90"], spills=0),
    "race without a GPU": lambda: k.race(x, w, at_least=1.2),
    "wrong": lambda: Kernel(launchers.norm_without_eps, reference=layer_norm).check(x / 1000, w),
    "wrong, and impossible by default": lambda: (
        Kernel(launchers.add_with_length, reference=waves).check(v, v + 1, 2)
    ),
    "unwritten": lambda: Kernel(launchers.norm_of_all_but_one, reference=layer_norm).check(x, w),
    "unwritten, and torch": lambda: (
        Kernel(launchers.norm_in_half_of_all_but_one, reference=half).check(x, w)
    ),
    "right, by a table": lambda: Kernel(launchers.norm_by_table, reference=layer_norm).check(x, w),
    "out of bounds": lambda: Kernel(launchers.copy, reference=torch.clone).check(v),
    "atomics on what torch set": lambda: Kernel(launchers.add_to, reference=added).check(v, v + 1),
    "atomics on nothing": lambda: Kernel(launchers.add_to_nothing, reference=added).check(v, v),
    "in place": lambda: (
        Kernel(launchers.add_in_place, reference=added_in_place, in_place=("x",)).check(v, v + 1)
    ),
    "programs race": lambda: Kernel(launchers.total, reference=torch.sum).check(v),
    "an input returned": lambda: Kernel(launchers.identity, reference=torch.clone).check(v),
    "an earlier result": lambda: Kernel(launchers.kept, reference=torch.clone, run=first).check(v),
    "strict": lambda: Kernel(launchers.norm, reference=layer_norm, strict=True).check(strided, w),
    "refused": lambda: Kernel(launchers.no_float64, reference=refuses).check_or_raises(
        v.double(), names="x", error=NotImplementedError
    ),
}
# The name of a case that is run twice.
first = kernelgauge.Run("")

if __name__ == "__main__":
    found = {}
    for name, check in CASES.items():
        try:
            found[name] = "passed", check() or "", ""
        except Wrong as wrong:
            found[name] = wrong.fault.kind, str(wrong), wrong.fault.plain()
        except NotMeasured as reason:
            found[name] = "not measured", str(reason), ""
    print(json.dumps(found))
"""

# What is found of each case: its kind, and what its message says.
FOUND = {
    "right": ("passed", ""),
    "right, of a strided tensor": ("passed", ""),
    "traffic within": ("passed", ""),
    "traffic beyond": (
        "too-much-traffic",
        r"^norms/launchers.py: norm\(x: float32 \(9, 70\), w: .*\n"
        r"w is read 9.0 times, but the budget is 1 \(kernels.py:14 tl.load",
    ),
    "compiles": ("passed", ""),
    "spills": (
        "register-spills",
        r"^norms/kernels.py:9  rows spills registers to memory for sm_90 \(H100\)\n[\d,]+ bytes",
    ),
    "race without a GPU": ("not measured", "speed takes a GPU"),
    "wrong": (
        "wrong-result",
        r"^norms/launchers.py: norm_without_eps\(x: .*\nthe result is wrong in 630 of 630 elements"
        r"(.*\n)+stored by: program .* at norms/kernels.py:15  tl.store(.*\n)+"
        r"likely cause: eps is left out",
    ),
    "wrong, and impossible by default": ("wrong-result", "result is wrong in 100 of 100"),
    "unwritten": (
        "unwritten",
        r"^norms/launchers.py: norm_of_all_but_one: no program stored result\[8, 0\]",
    ),
    "unwritten, and torch": ("wrong-result", r"wrong in 70 of 630 elements(.*\n)+.*got nan"),
    "right, by a table": ("passed", ""),
    "out of bounds": (
        "out-of-bounds-load",
        r"^norms/kernels.py:21  tl.load\(x_ptr \+ offs\)\nprogram .* reads x\[100..127\]",
    ),
    "atomics on what torch set": ("passed", ""),
    "atomics on nothing": ("unset-atomic", r"^norms/kernels.py:28  tl.atomic_add"),
    "in place": ("passed", ""),
    "programs race": ("race", r"^norms/kernels.py:34  tl.store"),
    "an input returned": ("passed", ""),
    "an earlier result": ("not-own-memory", "the memory that an earlier call returned"),
    "strict": ("outside-kernel", r"^norms/launchers.py:\d+  launchers uses torch's clone"),
    "refused": ("passed", ""),
}


def python(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """Run Python in a folder as a user of the instrument would, on a machine without a GPU."""
    inherited = {k: it for k, it in os.environ.items() if k != "TRITON_INTERPRET"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=inherited | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict:
    """What a script finds of the kernels of a package beside it, by the names of its cases."""
    folder = tmp_path_factory.mktemp("outside")
    package = folder / "norms"
    package.mkdir()
    (package / "__init__.py").touch()
    for name, text in {"kernels": KERNELS, "launchers": LAUNCHERS, "blocks": BLOCKS}.items():
        (package / f"{name}.py").write_text(text)
    (folder / "checks.py").write_text(SCRIPT)
    done = python(folder, "checks.py")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", FOUND)
def test_kernels_of_a_package(found, case):
    kind, message = FOUND[case]
    assert found[case][0] == kind, found[case][1]
    assert re.search(message, found[case][1]), found[case][1]


def test_numbers_come_as_data(found):
    assert found["traffic beyond"][2]["numbers"] == {"w read": [9.0, 1]}
    assert found["wrong"][2]["cause"]["known"] == "proven"
    assert found["spills"][2]["numbers"]["spilled"] > 0


ALONE = """
import kernelgauge
{first}
kernelgauge.install()
import torch
import triton
import triton.language as tl
from kernelgauge import Kernel

@triton.jit
def double_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, 2 * tl.load(x_ptr + offs, mask=offs < N), mask=offs < N)

def double(x):
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y

def main():
    Kernel(double, reference=lambda x: 2 * x).compiles(torch.randn(100), targets=["sm_90"])
    print("compiles")

{last}
"""

GUARD = 'if __name__ == "__main__":\n    main()'


def run(folder: Path, first: str = "", last: str = GUARD, program: str = "alone.py") -> str:
    """Return what a program says that defines a kernel and compiles it."""
    (folder / "alone.py").write_text(ALONE.format(first=first, last=last))
    done = python(folder, program)
    return done.stdout if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


@pytest.mark.proof
def test_a_kernel_of_the_program_itself(tmp_path):
    assert run(tmp_path) == "compiles\n"


@pytest.mark.proof
def test_a_program_behind_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert run(tmp_path / "real", program=str(tmp_path / "link/alone.py")) == "compiles\n"


@pytest.mark.proof
def test_checks_that_the_compilers_process_would_run_again(tmp_path):
    (tmp_path / "alone.py").write_text(ALONE.format(first="", last="main()"))
    told = python(tmp_path, "alone.py").stderr
    assert 'below if __name__ == "__main__"' in told
    assert "called from alone.py:24  main()" in told


@pytest.mark.proof
def test_triton_that_came_first_is_too_late(tmp_path):
    assert "call install() first" in run(tmp_path, first="import triton")


@pytest.mark.proof
def test_a_kernel_without_install_is_told_of_it(tmp_path):
    late = "settings.installed = False; main()"
    first = "from kernelgauge.core.settings import settings"
    assert "call kernelgauge.install() first" in run(tmp_path, first, late)


def test_importing_the_instrument_imports_neither_torch_nor_triton():
    script = (
        "import sys, kernelgauge; kernelgauge.install; print({'torch', 'triton'} & {*sys.modules})"
    )
    assert python(ROOT, "-c", script).stdout == "set()\n"
    with pytest.raises(AttributeError, match="no attribute 'kernels'"):
        kernelgauge.kernels  # noqa: B018


def test_an_installed_package_is_its_authors_own(monkeypatch):
    monkeypatch.setattr(settings, "subjects", None)
    standard = Path(os.__file__).parent
    assert blame.is_graded_file(str(standard / "site-packages/norms/kernels.py"))
    assert not blame.is_graded_file(str(standard / "functools.py"))
    assert not blame.is_graded_file(sys.modules["torch"].__file__)


def example() -> dict[str, str]:
    """The files that docs/kernelgauge.md shows, by name."""
    text = (ROOT / "docs/kernelgauge.md").read_text()
    return dict(re.findall(r"^```python\n# (\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


@pytest.mark.proof
def test_the_wheel_runs_the_example_of_its_page(tmp_path):
    """The wheel holds the instrument alone, and needs nothing of the course."""
    source, wheels, target = (tmp_path / name for name in ("source", "wheels", "target"))
    kept = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "kernelgauge", source / "kernelgauge", ignore=kept)
    shutil.copytree(ROOT / "course", source / "course", ignore=kept)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    quiet = ("-m", "pip", "--quiet", "--disable-pip-version-check")
    build = python(
        source, *quiet, "wheel", ".", "--no-deps", "--no-build-isolation", "-w", str(wheels)
    )
    assert build.returncode == 0, build.stderr
    (wheel,) = wheels.iterdir()
    held = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in held} == {
        "kernelgauge",
        "triton_kata",
    }
    assert "kernelgauge/py.typed" in held
    install = python(
        tmp_path, *quiet, "install", "--no-deps", "--no-index", "--target", str(target), str(wheel)
    )
    assert install.returncode == 0, install.stderr
    work = tmp_path / "work"
    work.mkdir()
    for name, text in example().items():
        (work / name).write_text(text)
    checked = ("-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--rootdir", str(work))
    done = python(work, *checked, PYTHONPATH=str(target))
    assert "3 passed, 1 skipped" in done.stdout, done.stdout
    assert "speed takes a GPU" in done.stdout
    path = work / "layer_norm.py"
    masked = "tl.load(x_ptr + row * stride + lane, mask=mask, other=0.0)"
    assert path.read_text().count(masked) == 1
    path.write_text(path.read_text().replace(masked, "tl.load(x_ptr + row * stride + lane)"))
    told = python(work, *checked, PYTHONPATH=str(target)).stdout
    shown = re.search(
        r"    layer_norm.py:.*?(?=\n\n)", (ROOT / "docs/kernelgauge.md").read_text(), re.DOTALL
    )
    for line in textwrap.dedent(shown[0]).splitlines():
        assert line in told


def test_who_calls_the_instrument_is_not_what_it_runs(monkeypatch):
    """The instrument changes streams itself while it times, for a caller who may be the author."""
    monkeypatch.setattr(settings, "subjects", None)
    instrument = eval("lambda function: function()", {"__name__": "kernelgauge.kernel"})
    assert instrument(blame.current_place) is None
    assert instrument(lambda: blame.current_place()).file == __file__


def test_kernels_of_another_gpu_are_not_measured(monkeypatch):
    kernel = kernelgauge.Kernel(blame.is_unsolved, reference=blame.is_unsolved, capability=(9, 0))
    monkeypatch.setattr(settings, "interpreted", False)
    monkeypatch.setattr(settings, "capability", (8, 0))
    with pytest.raises(NotMeasured, match=r"take a GPU of compute capability 9\.0"):
        kernel.guarded(None)
