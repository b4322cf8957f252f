"""Ready a process for kernels: choose its mode, repair and hook Triton, and see that it took.

Triton reads TRITON_INTERPRET when it is imported. So nothing here imports torch or Triton before
the mode is chosen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelgauge.compilation import process
from kernelgauge.core.complaint import Complaint
from kernelgauge.core.settings import settings

if TYPE_CHECKING:
    from kernelgauge.speed.gpu import Cache

INTERPRET = "TRITON_INTERPRET"
# More threads wait for one another. In the interpreter tensors are small.
MAX_THREADS, MAX_THREADS_INTERPRETED = 4, 1


class TooLate(RuntimeError):
    """Triton was imported before its mode could be chosen."""


@dataclass(frozen=True)
class Installed:
    """What a process is set up for.

    interpreted: kernels are run by Triton's interpreter, on the CPU
    device: where inputs are to be made, "cpu" or "cuda"
    complaints: repairs and hooks that did not take on this version of Triton. With any that does
        more than slow a run no verdict is to be trusted
    """

    interpreted: bool
    device: str
    complaints: tuple[Complaint, ...] = ()


def choose_mode() -> bool:
    """Return whether kernels are interpreted: where there is no GPU, or TRITON_INTERPRET asks.

    Sets TRITON_INTERPRET then. Imports torch, which counts GPUs and need not touch them, and forks
    the compiler's process. Raises TooLate.
    """
    # A thread of OpenBLAS that waits for the others spins, and the tiles are small.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import torch

    process.fork_early()
    interpreted = asks_to_interpret() or not torch.cuda.is_available()
    if interpreted and _is_imported_to_compile():
        raise TooLate(
            "Triton was imported before kernelgauge.install() could switch its interpreter on: "
            "call install() first, or set TRITON_INTERPRET=1 in the environment"
        )
    if interpreted:
        os.environ[INTERPRET] = "1"
    return interpreted


def asks_to_interpret() -> bool:
    """Return whether the environment asks for the interpreter."""
    return os.environ.get(INTERPRET, "").lower() in ("1", "true", "on", "yes", "y")


def _is_imported_to_compile() -> bool:
    """Whether Triton is imported, and its own functions, such as tl.cdiv, are not interpreted."""
    language = sys.modules.get("triton.language")
    return language is not None and type(language.cdiv).__name__ == "JITFunction"


def install(
    *,
    targets: Sequence[str] = settings.targets,
    worker: str | None = None,
    workers: int = 1,
    cache: Cache | None = None,
    takes_gpu: bool = True,
) -> Installed:
    """Choose the mode, and have Triton run and show kernels as the instrument needs it.

    Call it before anything imports Triton. Raises TooLate where that cannot be made good.

    targets: names of the GPUs that kernels are compiled for where a check names none
    worker: the name of this process, "gw3", if several share the GPUs out; it gets the fourth
    workers: how many processes share this machine's cores
    cache: keeps what was measured of the GPU for later runs
    takes_gpu: whether this process is one that runs kernels
    """
    if settings.compiling:
        # The compiler's process imports files that say this at their top.
        return Installed(False, "cpu")
    interpreted = choose_mode()
    import torch

    from kernelgauge.interpreter import patches
    from kernelgauge.interpreter import selftest as interpreter_selftest
    from kernelgauge.memory import executor
    from kernelgauge.memory import selftest as memory_selftest
    from kernelgauge.speed import gpu
    from kernelgauge.speed import selftest as speed_selftest
    from kernelgauge.subject import autotuning
    from kernelgauge.subject import selftest as subject_selftest

    # In a container torch starts as many threads as the host has cores.
    most = MAX_THREADS_INTERPRETED if interpreted else MAX_THREADS
    torch.set_num_threads(max(1, min(most, torch.get_num_threads()) // workers))
    settings.interpreted, settings.targets = interpreted, tuple(targets)
    settings.device = "cpu" if interpreted else "cuda"
    if not interpreted:
        settings.capability = torch.cuda.get_device_capability()
        settings.multiprocessors = torch.cuda.get_device_properties("cuda").multi_processor_count
        if takes_gpu:
            gpu.take(worker, cache)
    autotuning.install()
    complaints = subject_selftest.failures()
    if interpreted:
        patches.install()
        executor.install()
        _install_gluon()
        complaints += interpreter_selftest.failures() + memory_selftest.failures()
    else:
        complaints += speed_selftest.failures()
    settings.installed = True
    return Installed(interpreted, settings.device, tuple(complaints))


def _install_gluon() -> None:
    from kernelgauge.gluon import executor

    executor.install()
