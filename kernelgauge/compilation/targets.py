"""The GPUs that kernels are compiled for: what a program gets, and what a multiprocessor has."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True)
class Target:
    """A GPU to compile for.

    product: a GPU of this kind, for messages
    shared: bytes of shared memory that one program can have
    backend, arch, warp_size: how Triton's compiler knows it
    warps, programs: how many a multiprocessor holds at a time
    shared_of_all, reserved: bytes of shared memory that the programs of a multiprocessor share, and
        how many of them the system takes for each program
    """

    name: str
    product: str
    shared: int
    backend: str
    arch: int | str
    warp_size: int
    warps: int
    programs: int
    shared_of_all: int
    reserved: int

    def __str__(self) -> str:
        return f"{self.name} ({self.product})"

    def is_alike(self, other: Target) -> bool:
        """Return whether both are of NVIDIA, from sm_80 on."""
        return all(it.backend == "cuda" and int(it.arch) >= 80 for it in (self, other))


def _nvidia(name: str, product: str, shared: int, warps: int, programs: int) -> Target:
    arch = int(name.removeprefix("sm_"))
    # Of each program's shared memory the system takes 1 KiB from sm_80 on.
    reserved = KIB if arch >= 80 else 0
    return Target(
        name, product, shared, "cuda", arch, 32, warps, programs, shared + reserved, reserved
    )


def _amd(name: str, product: str, shared: int) -> Target:
    # A compute unit has four SIMDs of 8 wavefronts; a program of one wavefront takes a slot of one.
    return Target(name, product, shared, "hip", name, 64, 32, 32, shared, 0)


# CUDA Programming Guide, "Compute Capabilities", technical specifications: the "maximum amount of
# shared memory per thread block", which a thread block can opt in to, and how many warps and blocks
# reside on a multiprocessor. LDS per workgroup: ROCm documentation, "AMD GPU specifications".
TARGETS = {
    target.name: target
    for target in (
        _nvidia("sm_75", "T4", 64 * KIB, 32, 16),
        _nvidia("sm_80", "A100", 163 * KIB, 64, 32),
        _nvidia("sm_86", "RTX 3090", 99 * KIB, 48, 16),
        _nvidia("sm_89", "RTX 4090, L4", 99 * KIB, 48, 24),
        _nvidia("sm_90", "H100", 227 * KIB, 64, 32),
        _nvidia("sm_100", "B200", 227 * KIB, 64, 32),
        _nvidia("sm_120", "RTX 5090", 99 * KIB, 48, 24),
        _amd("gfx90a", "MI250", 64 * KIB),
        _amd("gfx942", "MI300X", 64 * KIB),
        _amd("gfx950", "MI350X", 160 * KIB),
    )
}


def find_target(name: str) -> Target:
    """Return the target of this name. Raises ValueError, with the known names, if there is none."""
    if name.strip() not in TARGETS:
        raise ValueError(f"unknown target {name!r}: one of {', '.join(TARGETS)}")
    return TARGETS[name.strip()]
