"""A roofline model: about how long a call takes on a GPU that is not there.

A launch takes as long as what it has most of: bytes that cross the memory or the L2, instructions
that load and store, arithmetic, or products. What is small is left out, such as what programs wait
for; docs/estimates.md tells how far it is from times that were measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernelgauge.words.fault import Note, note

# Cycles that a multiprocessor takes for an instruction that loads or stores for the 32 lanes of a
# warp, and what of its 128 additions a cycle it comes to. Fitted to the solutions' times.
LOAD_CYCLES, STORE_CYCLES = 4.2, 6.9
ARITHMETIC = 0.73 * 128
# What of the tensor cores' rate a kernel comes to, and what of that with the older instructions.
PRODUCTS, OLDER_PRODUCTS = 0.92, 0.62
# What of the shorter phases of a program shows, unless others fill the gaps meanwhile.
EXPOSED = 0.5
# Seconds from a program's loads to the next ones that need what they bring.
LATENCY = 1.2e-6
# A tensor of so much of the L2 is still there for the next launch.
KEPT_IN_L2 = 0.6
# In so few rounds of programs the last one counts.
FEW_ROUNDS = 8
# A call takes this many times as long as its launches, or nothing is said of it.
CLEAR_OF_LAUNCHES = 4.0

# Where a lane loads so few bytes of a factor at once, products wait for registers.
NARROW = 8.0
# So many trips to memory a program may make one after the other, where one load says what to load
# next. Of short programs they may take longer than all that is counted.
TRIPS = 2
# The tensor cores of a multiprocessor wait for so few warps, which do all else in turn.
LONE_WARPS = 4
# Of the time, what launches may take of which the model knows too little.
SMALL_PART = 0.1
# Amounts that differ by less are told to be the same.
SAME = 1.1

MEMORY, L2, ACCESSES, LANES, DOTS, WAITS = LIMITS = (
    "memory", "l2", "accesses", "arithmetic", "products", "waits",
)  # fmt: skip


@dataclass(frozen=True)
class Gpu:
    """What the model knows of a GPU.

    target: what kernels are compiled for
    shared_memory: bytes of it that a program can have
    clock: cycles a second
    memory, l2: bytes a second; l2_bytes: its size
    products: operations a second of tensor cores, by the bits of a factor; 32 is tf32
    plain: operations a second without them, a multiply-add being two
    launch, another: seconds of the first launch of a call, and of each other one
    is_measured: whether estimates were compared with times of this GPU
    """

    name: str
    target: str
    multiprocessors: int
    shared_memory: int
    clock: float
    memory: float
    l2: float
    l2_bytes: int
    products: Mapping[int, float]
    plain: float
    launch: float = 5.3e-6
    another: float = 2e-6
    is_measured: bool = False


# Rates that `python -m course.benchmark` measured (reference/H200.md), and a fitted one of the L2.
H200 = Gpu(
    "H200",
    "sm_90",
    132,
    227 * 2**10,
    1.7e9,
    4.28e12,
    10e12,
    50 * 2**20,
    {8: 1480e12, 16: 780e12, 32: 405e12},
    50e12,
    is_measured=True,
)
# NVIDIA's figures ("Ada GPU Architecture", 2022), the memory's less a tenth. Nothing was measured.
RTX_4090 = Gpu(
    "RTX 4090",
    "sm_89",
    128,
    99 * 2**10,
    2.5e9,
    0.92e12,
    5e12,
    72 * 2**20,
    {8: 330e12, 16: 165e12, 32: 82e12},
    82e12,
)


@dataclass(frozen=True)
class Work:
    """What one launch does, all its programs together.

    programs: of the grid
    resident: programs that a multiprocessor holds
    warps: of a program
    loaded, stored: by storage, bytes of the sectors of all accesses
    needed: by storage, bytes that programs touch, each program's once
    sizes: by storage, bytes of the tensor
    asked: bytes of all lanes of the loads, whether they are active or not
    macs, lanes: multiply-adds of tl.dot, and operations of single lanes
    load_bytes, store_bytes: of a lane's access, on average
    bits: of a factor on the tensor cores; 0 without them
    newer: whether products are by wgmma or newer instructions
    in_flight: of those, what a program asks for at once; 0 where that is not known
    spilled: bytes that spill to memory
    atomics: whether it has any
    """

    programs: int
    resident: int
    warps: int
    loaded: Mapping[int, float]
    stored: Mapping[int, float]
    needed: Mapping[int, float]
    sizes: Mapping[int, int]
    asked: float
    macs: float
    lanes: float
    load_bytes: float
    store_bytes: float
    bits: int
    newer: bool
    in_flight: float = 0.0
    spilled: float = 0.0
    atomics: bool = False


@dataclass(frozen=True)
class Estimate:
    """About how long a call takes.

    launches_ms: of that, what it takes to launch kernels
    is_known: whether the launches that matter have programs for all multiprocessors, no atomics,
        for products no factors that are loaded by few bytes, nor too few warps, and else no
        programs so short that it depends on how many of their loads need others
    parts: milliseconds by limit, of the launches that each of them limits
    amounts: how much there is of each
    """

    ms: float
    launches_ms: float
    is_known: bool
    parts: Mapping[str, float] = field(default_factory=dict)
    amounts: Mapping[str, float] = field(default_factory=dict)

    @property
    def limit(self) -> str:
        """What takes the most time."""
        return max(self.parts, key=lambda it: self.parts[it])

    @property
    def is_clear(self) -> bool:
        """Whether the model knows what takes the time, and so whether to tell of it."""
        return self.is_known and self.ms >= CLEAR_OF_LAUNCHES * self.launches_ms

    def reason(self, other: Estimate) -> Note:
        """Return why this takes longer or less long than another: 2x the bytes."""
        slower, faster = (self, other) if self.ms >= other.ms else (other, self)
        limit = slower.limit
        more, less = slower.amounts[limit], faster.amounts[limit]
        if less and more >= SAME * less:
            ratio = self.amounts[limit] / other.amounts[limit]
            return note("more-of", ratio=ratio, limit=limit)
        if less < SAME * more and faster.limit == limit:
            return note("both-limited-by", limit=limit)
        return note("limited-by", limit=limit, whose="yours" if slower is self else "ours")


def estimate(works: Sequence[Work], gpu: Gpu) -> Estimate:
    """Return about how long these launches take, one after the other."""
    parts, amounts = dict.fromkeys(LIMITS, 0.0), dict.fromkeys(LIMITS, 0.0)
    unknown = 0.0
    known: set[int] = set()
    for work in works:
        needs = _amounts(work, gpu, known)
        known |= set(work.needed)
        times = _seconds(work, gpu, needs)
        most = max(times, key=lambda it: times[it])
        # A loop over tl.dot loads ahead.
        phases = (LANES, DOTS) if work.macs else (MEMORY, ACCESSES, LANES)
        rest = sum(times[limit] for limit in phases if limit != most)
        ms = 1e3 * (times[most] + EXPOSED * rest / work.resident)
        parts[most] += ms
        if work.macs:
            waits = work.load_bytes <= NARROW or work.resident * work.warps <= LONE_WARPS
        else:
            rounds = work.programs / (work.resident * gpu.multiprocessors)
            waits = most != WAITS and TRIPS * LATENCY * rounds > times[most]
        if work.programs < gpu.multiprocessors or work.atomics or waits:
            unknown += ms
        for limit, amount in needs.items():
            amounts[limit] += amount
    launches = 1e3 * (gpu.launch + gpu.another * (len(works) - 1))
    ms = launches + sum(parts.values())
    return Estimate(ms, launches, unknown < SMALL_PART * ms, parts, amounts)


def _amounts(work: Work, gpu: Gpu, known: set[int]) -> dict[str, float]:
    """Return how much there is of each limit.

    known: storages that an earlier launch touched
    """
    room = KEPT_IN_L2 * gpu.l2_bytes
    at_once = min(work.programs, work.resident * gpu.multiprocessors) / work.programs
    is_crowded = at_once * sum(work.needed.values()) > room
    crossing = work.spilled
    for storage, size in work.sizes.items():
        loaded, stored = (it.get(storage, 0.0) for it in (work.loaded, work.stored))
        needed = work.needed[storage]
        if not (storage in known and size <= room):
            # What neighbours share crosses once; what a program loads again, only where the L2
            # cannot hold what all programs need in the meantime.
            again = max(loaded / needed, 1.0) if is_crowded else 1.0
            crossing += min(loaded, needed, size) * again
        crossing += min(stored, needed, size)
    loaded, stored = sum(work.loaded.values()), sum(work.stored.values())
    accesses = loaded / work.load_bytes * LOAD_CYCLES + stored / work.store_bytes * STORE_CYCLES
    held = min(work.programs, work.resident * gpu.multiprocessors) * work.in_flight
    amounts = (
        crossing,
        loaded + stored + work.spilled,
        accesses / 32,
        work.lanes,
        work.macs,
        work.asked / held if held else 0.0,
    )
    return dict(zip(LIMITS, amounts, strict=True))


def _seconds(work: Work, gpu: Gpu, amounts: Mapping[str, float]) -> dict[str, float]:
    """Return how long a launch takes by each limit alone."""
    used = min(work.programs, gpu.multiprocessors) / gpu.multiprocessors
    cycles = gpu.clock * gpu.multiprocessors * used
    rounds = work.programs / gpu.multiprocessors
    last = math.ceil(rounds) / rounds if 1 < rounds <= FEW_ROUNDS * work.resident else 1.0
    rate = gpu.plain / 2
    if work.bits:
        rate = gpu.products[work.bits] * (PRODUCTS if work.newer else OLDER_PRODUCTS)
    rates = (
        gpu.memory,
        gpu.l2 * used,
        cycles,
        cycles * ARITHMETIC,
        rate / 2 * used / last,
        1 / LATENCY,
    )
    return {name: amounts[name] / rate for name, rate in zip(LIMITS, rates, strict=True)}
