"""The GPUs that kernels are compiled for, and how much shared memory each gives a program."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True)
class Target:
    """A GPU to compile for.

    product: a GPU of this kind, for messages
    shared: bytes of shared memory that one program can have
    backend, arch, warp_size: how Triton's compiler knows it
    """

    name: str
    product: str
    shared: int
    backend: str
    arch: int | str
    warp_size: int

    def __str__(self) -> str:
        return f"{self.name} ({self.product})"


def _nvidia(name: str, product: str, shared: int) -> Target:
    return Target(name, product, shared, "cuda", int(name.removeprefix("sm_")), 32)


def _amd(name: str, product: str, shared: int) -> Target:
    return Target(name, product, shared, "hip", name, 64)


# Shared memory that a thread block can opt in to: CUDA Programming Guide, "Compute Capabilities",
# technical specifications, "maximum amount of shared memory per thread block". LDS per workgroup:
# ROCm documentation, "AMD GPU specifications".
TARGETS = {
    target.name: target
    for target in (
        _nvidia("sm_75", "T4", 64 * KIB),
        _nvidia("sm_80", "A100", 163 * KIB),
        _nvidia("sm_86", "RTX 3090", 99 * KIB),
        _nvidia("sm_89", "RTX 4090, L4", 99 * KIB),
        _nvidia("sm_90", "H100", 227 * KIB),
        _nvidia("sm_100", "B200", 227 * KIB),
        _nvidia("sm_120", "RTX 5090", 99 * KIB),
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
