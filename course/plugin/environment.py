"""Which mode a run is in, and whether this machine can run at all.

Nothing here imports torch or Triton before `prepare` has looked: an environment that cannot work
deserves a sentence, not an ImportError.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec

from packaging.specifiers import SpecifierSet

from kernelgauge import setup

SUPPORTED = {
    "torch": SpecifierSet(">=2.11,<2.16"),
    "triton": SpecifierSet(">=3.6,<3.10"),
    "numpy": SpecifierSet(">=2,<3"),
}
INSTALL = "Install what the README says: pip install -c constraints.txt -e ."


class CannotRun(Exception):
    """This machine lacks something that no puzzle can do without."""


@dataclass(frozen=True)
class Environment:
    """What a run runs on.

    interpreted: kernels are run by Triton's interpreter, on the CPU
    device: where inputs are made, "cpu" or "cuda"
    device_name: for people
    versions: of Python, torch, triton and numpy
    notes: what a reader of the header should know besides
    """

    interpreted: bool
    device: str
    device_name: str
    versions: dict[str, str]
    notes: tuple[str, ...] = field(default=())

    def header(self) -> list[str]:
        mode = "interpreter" if self.interpreted else "compiled"
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return [f"triton-kata: {mode}, {self.device_name}; {versions}", *self.notes]


def prepare() -> Environment:
    """Choose the mode before Triton is imported, and say what this run runs on.

    Sets TRITON_INTERPRET where there is no CUDA device. Raises CannotRun with one line that says
    what to install.
    """
    notes = _check_machine()
    interpreted = is_interpreted()
    import torch

    has_gpu = torch.cuda.is_available()
    if not interpreted:
        name = torch.cuda.get_device_name()
    elif has_gpu:
        name = "CPU (TRITON_INTERPRET is set, the GPU is not used)"
    else:
        name = "CPU (no CUDA device)"
    versions = {"Python": platform.python_version()}
    versions |= {package: _version(package) or "?" for package in SUPPORTED}
    return Environment(interpreted, "cpu" if interpreted else "cuda", name, versions, tuple(notes))


def is_interpreted() -> bool:
    """Return whether kernels are run by the interpreter: see `setup.choose_mode`.

    Raises CannotRun.
    """
    _check_machine()
    try:
        return setup.choose_mode()
    except setup.TooLate:
        raise CannotRun(
            "A plugin imported triton before Triton Kata could switch its interpreter on: set "
            "TRITON_INTERPRET=1 in the environment."
        ) from None


def _check_machine() -> list[str]:
    """Return notes on versions that nobody tried. Raises CannotRun on what cannot work."""
    if sys.platform != "linux":
        raise CannotRun(
            f"Triton has no release for {sys.platform}: run Triton Kata on Linux, for instance in "
            "WSL or in a container."
        )
    return [note for name in SUPPORTED if (note := _check_version(name))]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _check_version(package: str) -> str | None:
    """A note about a version nobody tried, or None; raises CannotRun on one that cannot work."""
    if find_spec(package) is None:
        raise CannotRun(f"{package} is not installed. {INSTALL}")
    version, supported = _version(package), SUPPORTED[package]
    if version is None or supported.contains(version, prereleases=True):
        return None
    lowest = next(clause.version for clause in supported if clause.operator == ">=")
    if SpecifierSet(f"<{lowest}").contains(version, prereleases=True):
        raise CannotRun(
            f"{package} {version} is too old: Triton Kata needs {package} {supported}. {INSTALL}"
        )
    return f"triton-kata: {package} {version} is newer than any tried here ({supported})"
