"""The choice of the mode, and what a machine hears that cannot run."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from course.paths import ROOT
from course.plugin import environment
from kernelgauge.core.settings import settings


def test_other_systems_hear_what_to_use(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(environment.CannotRun, match=r"no release for darwin: .* WSL"):
        environment.prepare()


@pytest.mark.parametrize("package", ["torch", "triton", "numpy"])
def test_missing_package_is_named_with_the_command(monkeypatch, package):
    find = environment.find_spec
    monkeypatch.setattr(environment, "find_spec", lambda p: None if p == package else find(p))
    with pytest.raises(environment.CannotRun, match=rf"{package} is not installed\. .*pip install"):
        environment.prepare()


def test_old_version_is_refused(monkeypatch):
    monkeypatch.setattr(environment, "_version", lambda package: "1.13.0")
    with pytest.raises(environment.CannotRun, match=r"torch 1\.13\.0 is too old"):
        environment.prepare()


def test_new_version_is_noted(monkeypatch):
    monkeypatch.setattr(environment, "_version", lambda package: "99.0")
    assert any("triton 99.0 is newer" in line for line in environment.prepare().header())


def test_cannot_run_is_one_line_without_traceback(tmp_path):
    """As a user without Triton sees it: pytest's usage error."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nf = u.find_spec\n"
        "u.find_spec = lambda n, p=None: None if n == 'triton' else f(n, p)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "puzzles/01_pointwise", "-p", "no:cacheprovider"],
        cwd=ROOT, env={"PYTHONPATH": str(tmp_path), "PATH": ""}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert (done.stdout + done.stderr).strip().splitlines() == [
        f"ERROR: triton is not installed. {environment.INSTALL}"
    ]


def test_supported_versions_are_those_of_pyproject():
    text = (ROOT / "pyproject.toml").read_text()
    for package, versions in environment.SUPPORTED.items():
        stated = re.search(rf'"{package}([<>=.,\d]+)[;"]', text)[1]
        assert set(stated.split(",")) == {str(clause) for clause in versions}


@pytest.mark.skipif(not settings.interpreted, reason="Triton was imported to compile")
def test_mode_is_the_interpreter_where_asked(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    prepared = environment.prepare()
    assert prepared.interpreted
    assert prepared.device == "cpu"
    assert "interpreter" in prepared.header()[0]
