"""How many programs of a kernel a multiprocessor holds at a time, and what limits them.

For NVIDIA these are the rules of CUDA's own cuda_occupancy.h, for AMD those by which LLVM writes
`Occupancy` into its assembly.
"""

from __future__ import annotations

from typing import NamedTuple

from kernelgauge.compilation.targets import Target

# A multiprocessor has four parts, each with a quarter of the registers.
PARTS = 4
REGISTERS_OF_PART = 64 * 1024 // PARTS
# Registers are given to a warp in units of so many, shared memory to a program in bytes.
REGISTER_UNIT = 256
SHARED_UNIT, TURING_SHARED_UNIT = 128, 256
# On AMD, registers of a lane: of a SIMD, and the unit in which a wavefront gets them.
LANE_REGISTERS, LANE_UNIT = 512, 8
LDS_UNIT = 512


class Occupancy(NamedTuple):
    """programs: on one multiprocessor at a time; limits: by what, such as "registers"."""

    programs: int
    limits: tuple[str, ...]


def occupancy(target: Target, *, registers: int, num_warps: int, shared: int) -> Occupancy:
    """Return how many programs a multiprocessor of this GPU holds.

    registers: per thread
    num_warps, shared: of a program, shared memory in bytes
    """
    most = {
        "registers": _warps_by_registers(target, registers) // num_warps,
        f"{target.warps} warps": target.warps // num_warps,
        f"{target.programs} programs": target.programs,
    }
    if shared or target.reserved:
        most["shared memory"] = target.shared_of_all // _shared_taken(target, shared)
    programs = min(most.values())
    return Occupancy(programs, tuple(what for what, limit in most.items() if limit == programs))


def _warps_by_registers(target: Target, registers: int) -> int:
    if target.backend == "hip":
        taken = _rounded_up(max(registers, 1), LANE_UNIT)
        return PARTS * (LANE_REGISTERS // taken)
    return PARTS * (REGISTERS_OF_PART // _rounded_up(registers * target.warp_size, REGISTER_UNIT))


def _shared_taken(target: Target, shared: int) -> int:
    if target.backend == "hip":
        return _rounded_up(shared, LDS_UNIT)
    unit = TURING_SHARED_UNIT if target.arch == 75 else SHARED_UNIT
    return _rounded_up(shared + target.reserved, unit)


def _rounded_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
