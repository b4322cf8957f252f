"""Data races: which accesses conflict, which atomics order them, and what the message says."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kernelgauge.core.verdict import Wrong
from kernelgauge.memory.data_races import ACQUIRING, RELEASING, History, Ledger
from kernelgauge.memory.watch import Watch
from kernelgauge.words import message, say
from tests.launching import ORDERS, copy_kernel, fault, found, interpreted_only, line_of, watched

pytestmark = interpreted_only


@triton.jit
def all_store_kernel(y_ptr, SAME: tl.constexpr):
    if SAME:
        tl.store(y_ptr + 3, 1.0)
    else:
        tl.store(y_ptr + 3, tl.program_id(0).to(tl.float32))


@pytest.mark.parametrize("same", [False, True], ids=["different values", "the same value"])
@ORDERS
def test_two_programs_store_one_element(same, order):
    message = fault(all_store_kernel, (2,), torch.empty(8), same, order=order)
    assert "race: program (" in message
    assert "writes y[3], which program (" in message
    assert "also writes at " in message
    assert "tl.atomic_add" not in message


@triton.jit
def count_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr, LOADS: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    count = 0
    count += tl.sum((tl.load(x_ptr + offs) > 0).to(y_ptr.dtype.element_ty))
    if LOADS:
        count += tl.load(y_ptr)
    tl.store(y_ptr, count)


@pytest.mark.parametrize("loads", [False, True])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float32])
@ORDERS
def test_only_counts_are_to_be_added_by_atomics(dtype, loads, order):
    wrong = fault(
        count_kernel, (2,), torch.randn(64), torch.zeros(1, dtype=dtype), 32, loads, order=order
    )
    assert ("tl.atomic_add" in wrong) is (dtype == torch.int32)


@triton.jit
def tiles_kernel(y_ptr, M, N, STEP: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * STEP + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], 1.0, mask=mask)


@pytest.mark.parametrize(("step", "said"), [(1, True), (14, False)])
@ORDERS
def test_tiles_that_begin_at_their_number(step, said, order):
    watched(tiles_kernel, (3, 2), torch.empty(40, 32), 40, 32, 16, 16)
    wrong = found(tiles_kernel, (3, 2), torch.empty(40, 32), 40, 32, step, 16, order=order)
    assert (wrong.kind, wrong.tensor) == ("race", "y")
    assert (wrong.remedy.id == "tile-number-is-not-first-index") is said
    assert ("the number of a tile is taken for its first row" in say(wrong.remedy)) is said


@triton.jit
def accumulate_kernel(x_ptr, y_ptr, ATOMIC: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0))
    if ATOMIC:
        tl.atomic_add(y_ptr, x)
    else:
        tl.store(y_ptr, tl.load(y_ptr) + x)


@ORDERS
def test_accumulation_needs_atomics(order):
    x, y = torch.ones(8), torch.zeros(1)
    message = fault(accumulate_kernel, (8,), x, y, False, order=order)
    assert "reads y[0], which program" in message
    watch = watched(accumulate_kernel, (8,), x, y.zero_(), True, order=order)
    assert y.item() == 8
    assert watch.stored(y).all()


@triton.jit
def shift_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs + 1, mask=offs + 1 < N, other=0.0)
    tl.store(y_ptr + offs, x, mask=offs < N)


@ORDERS
def test_reading_what_another_program_overwrites(order):
    x, y = torch.randn(100), torch.empty(100)
    watched(shift_kernel, (4,), x, y, 100, 32, order=order)
    assert torch.equal(y[:-1], x[1:])
    message = fault(shift_kernel, (4,), x, x, 100, 32, order=order)
    assert "tl.atomic_add" not in message
    assert "race" in message
    assert "x and y share this memory" in message
    assert "reads" in message
    assert "writes" in message


@triton.jit
def in_place_kernel(x_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=0.0)
    tl.store(x_ptr + offs, x * 2, mask=offs < N)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=offs < N) + 1, mask=offs < N)


@ORDERS
def test_a_program_may_update_its_own_elements_in_place(order):
    x = torch.randn(100)
    expected = x * 2 + 1
    watched(in_place_kernel, (4,), x, 100, 32, order=order)
    assert torch.equal(x, expected)


def test_launches_do_not_race_with_each_other():
    x, y = torch.randn(100), torch.empty(100)
    with Watch():
        for _ in range(3):
            copy_kernel[(2,)](x, y, 100, 64, "right")
            copy_kernel[(4,)](y, x, 100, 32, "right")


def test_a_race_after_other_launches():
    y = torch.empty(8)
    with Watch():
        copy_kernel[(1,)](torch.randn(8), y, 8, 8, "right")
        with pytest.raises(Wrong, match="race"):
            all_store_kernel[(2,)](y, True)


def test_arguments_that_share_memory():
    buffer = torch.randn(100)
    watched(copy_kernel, (2,), buffer[:50], buffer[50:], 50, 32, "right")
    assert torch.equal(buffer[:50], buffer[50:])
    message = fault(copy_kernel, (2,), buffer[:60], buffer[40:], 60, 32, "right")
    assert "race" in message
    assert "x and y share this memory" in message
    message = fault(accumulate_kernel, (2,), buffer[:16], buffer[16:17], False)
    assert "y[0], which program" in message
    assert "share this memory" not in message


@triton.jit
def mixed_kernel(y_ptr, PLAIN: tl.constexpr):
    if tl.program_id(0) == 0:
        if PLAIN == "store":
            tl.store(y_ptr, 0.0)
        else:
            tl.store(y_ptr + 1, tl.load(y_ptr))
    else:
        tl.atomic_add(y_ptr, 1.0)


@pytest.mark.parametrize("plain", ["store", "load"])
@pytest.mark.parametrize("seed", range(3))
def test_atomic_and_plain_access_of_one_element(plain, seed):
    message = fault(mixed_kernel, (4,), torch.zeros(2), plain, order="shuffled", seed=seed)
    assert "atomically updates" in message
    assert "use an atomic in both places" in message


@triton.jit
def local_atomic_kernel(y_ptr):
    tl.atomic_add(y_ptr, 1.0, scope="cta")


def test_an_atomic_of_scope_cta_is_none_for_other_programs():
    watched(local_atomic_kernel, (1,), torch.zeros(1))
    assert "race" in fault(local_atomic_kernel, (2,), torch.zeros(1))


@triton.jit
def sum_of_partials_kernel(x_ptr, partial_ptr, count_ptr, y_ptr, SEM: tl.constexpr):
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    offs = tl.arange(0, 16)
    tl.store(partial_ptr + pid, tl.sum(tl.load(x_ptr + pid * 16 + offs)))
    if SEM == "none":
        last = pid == programs - 1
    else:
        last = tl.atomic_add(count_ptr, 1, sem=SEM) == programs - 1
    if last:
        partials = tl.load(partial_ptr + offs, mask=offs < programs, other=0.0)
        tl.store(y_ptr, tl.sum(partials))


def partials() -> tuple[torch.Tensor, ...]:
    """Return x, partial, count and y for a sum by eight programs."""
    count = torch.zeros(1, dtype=torch.int32)
    return torch.ones(8 * 16), torch.empty(8), count, torch.empty(1)


@ORDERS
def test_the_last_program_sums_the_partials(order):
    tensors = partials()
    watched(sum_of_partials_kernel, (8,), *tensors, "acq_rel", order=order)
    assert tensors[-1].item() == 128


@pytest.mark.parametrize("sem", ["relaxed", "acquire", "release"])
@ORDERS
def test_the_last_program_reads_partials_that_nothing_orders(sem, order):
    message = fault(sum_of_partials_kernel, (8,), *partials(), sem, order=order)
    assert "reads partial[" in message
    assert ('sem="relaxed" orders nothing' in message) == (sem == "relaxed")


def test_the_last_program_without_atomics():
    assert "race" in fault(sum_of_partials_kernel, (8,), *partials(), "none")


@triton.jit
def raised_kernel(x_ptr, flags_ptr, y_ptr, HOW: tl.constexpr):
    begins = (HOW == "kept") | (HOW == "once")
    part = (tl.program_id(0) + (2 if begins else 0)) % 3
    if part < 2:
        if (HOW == "early") | (HOW == "twice"):
            tl.atomic_xchg(flags_ptr + part, 1)
        tl.store(x_ptr + part, 1.0)
        if HOW != "early":
            tl.atomic_xchg(flags_ptr + part, 1)
    else:
        if HOW == "once":
            tl.atomic_add(flags_ptr, 0)
        elif HOW != "ignored":
            while tl.atomic_add(flags_ptr, 0) == 0:
                pass
        tl.store(y_ptr, tl.load(x_ptr + (HOW == "another")))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("early", "raises flags[0] in line"),
        # Who sees 1 cannot know which of the two it is.
        ("twice", "raises flags[0] in line"),
        ("another", "looks at flags[0] in line"),
        ("another", "what it loads is stored by program (1, 0, 0), which raises flags[1]"),
        ("ignored", "looks at no flag before its load"),
    ],
)
def test_why_flags_order_nothing(how, said):
    tensors = torch.empty(2), torch.zeros(2, dtype=torch.int32), torch.empty(1)
    assert said in fault(raised_kernel, (3,), *tensors, how)


@pytest.mark.parametrize(("how", "there"), [("kept", 1), ("once", 0)])
def test_flags_that_are_not_waited_for(how, there):
    flags = torch.full((2,), there, dtype=torch.int32)
    tensors = torch.empty(2), flags, torch.empty(1)
    said = fault(raised_kernel, (3,), *tensors, how)
    assert f"finds {there} in flags[0] in line" in said


@ORDERS
def test_flags_that_are_raised_after_the_store(order):
    x, flags, y = torch.empty(2), torch.zeros(2, dtype=torch.int32), torch.zeros(1)
    watched(raised_kernel, (3,), x, flags, y, "right", order=order)
    assert y.item() == 1


@triton.jit
def late_store_kernel(partial_ptr, count_ptr, y_ptr):
    pid = tl.program_id(0)
    tl.store(partial_ptr + pid, 1.0)
    last = tl.atomic_add(count_ptr, 1) == tl.num_programs(0) - 1
    if last:
        tl.store(y_ptr, tl.load(partial_ptr))
    else:
        tl.store(partial_ptr + pid, 2.0)


def test_a_store_after_the_atomic_is_not_ordered():
    count = torch.zeros(1, dtype=torch.int32)
    message = fault(late_store_kernel, (4,), torch.empty(4), count, torch.empty(1))
    assert "reads partial[0]" in message
    assert line_of(late_store_kernel, "2.0") in message


@triton.jit
def row_counters_kernel(partial_ptr, counts_ptr, y_ptr, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial_ptr + rows * SPLIT + tl.program_id(1), 1.0 + rows)
    last = tl.atomic_add(counts_ptr + rows, 1) == SPLIT - 1
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in tl.static_range(SPLIT):
        total += tl.load(partial_ptr + rows * SPLIT + k, mask=last, other=0.0)
    tl.store(y_ptr + rows, total, mask=last)


@ORDERS
def test_a_counter_for_each_row_orders_it(order):
    y, counts = torch.empty(64), torch.zeros(64, dtype=torch.int32)
    watched(row_counters_kernel, (2, 4), torch.empty(64, 4), counts, y, 4, 32, order=order)
    assert torch.equal(y, 4 * torch.arange(1, 65).float())


@triton.jit
def lock_kernel(lock_ptr, y_ptr, RELEASE: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(y_ptr, tl.load(y_ptr) + 1)
    if RELEASE:
        tl.atomic_xchg(lock_ptr, 0)


@ORDERS
def test_a_lock_orders_what_it_protects(order):
    lock, y = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    watched(lock_kernel, (8,), lock, y, True, order=order)
    assert y.item() == 8


def test_a_lock_that_is_never_released():
    wrong = found(lock_kernel, (3,), torch.zeros(1, dtype=torch.int32), torch.zeros(1), False)
    assert wrong.kind == "deadlock"
    assert wrong.place.source == "tl.atomic_cas(lock_ptr, 0, 1)"
    assert "waits here forever" in message(wrong)


@triton.jit
def chain_kernel(x_ptr, flags_ptr, y_ptr, FORWARD: tl.constexpr):
    pid = tl.program_id(0)
    total = tl.load(x_ptr + pid)
    tl.store(y_ptr + pid, 0.0)
    before = pid - 1 if FORWARD else pid + 1
    if (before >= 0) & (before < tl.num_programs(0)):
        while tl.atomic_add(flags_ptr + before, 0, sem="acquire") == 0:
            pass
        total += tl.load(y_ptr + before)
    tl.store(y_ptr + pid, total)
    tl.atomic_xchg(flags_ptr + pid, 1)


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_programs_that_wait_for_programs_not_yet_started(forward, seed):
    x, y, flags = torch.arange(10.0), torch.empty(10), torch.zeros(10, dtype=torch.int32)
    watched(chain_kernel, (10,), x, flags, y, forward, order="shuffled", seed=seed)
    expected = x.cumsum(0) if forward else x.flip(0).cumsum(0).flip(0)
    assert torch.equal(y, expected)


@triton.jit
def flag_kernel(x_ptr, flag_ptr, y_ptr, STORE: tl.constexpr, LOAD: tl.constexpr):
    if tl.program_id(0) == 1:
        tl.store(x_ptr, 5.0)
        tl.atomic_store(flag_ptr, 1, sem=STORE)
    else:
        while tl.atomic_load(flag_ptr, sem=LOAD) == 0:
            pass
        tl.store(y_ptr, tl.load(x_ptr))


@pytest.mark.skipif(not hasattr(tl, "atomic_load"), reason="Triton 3.9 has tl.atomic_load")
def test_atomic_loads_and_stores():
    flag, y = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    watch = watched(flag_kernel, (2,), torch.zeros(1), flag, y, "release", "acquire")
    assert y.item() == 5
    assert watch.stored(flag).all()
    for orders in (("relaxed", "acquire"), ("release", "relaxed")):
        assert "race" in fault(flag_kernel, (2,), torch.zeros(1), flag.zero_(), y, *orders)


@triton.jit
def histogram_kernel(x_ptr, counts_ptr, N, BINS: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=0)
    tl.atomic_add(counts_ptr + x, 1, mask=offs < N)


@ORDERS
def test_a_histogram_by_atomics(order):
    x = torch.randint(0, 10, (1000,), dtype=torch.int32)
    counts = torch.zeros(10, dtype=torch.int32)
    watched(histogram_kernel, (4,), x, counts, 1000, 10, 256, order=order)
    assert torch.equal(counts, torch.bincount(x, minlength=10).int())
    message = fault(histogram_kernel, (4,), x + 1, counts, 1000, 10, 256)
    assert "updates counts[10] but counts has 10 elements" in message


@triton.jit
def split_k_kernel(a_ptr, b_ptr, c_ptr, K, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    offs_k = tl.program_id(0) * (K // SPLIT) + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + offs[:, None] * K + offs_k[None, :])
    b = tl.load(b_ptr + offs_k[:, None] * BLOCK + offs[None, :])
    tl.atomic_add(c_ptr + offs[:, None] * BLOCK + offs[None, :], tl.dot(a, b), sem="relaxed")


@ORDERS
def test_split_k_by_relaxed_atomics(order):
    a, b = torch.randint(-4, 5, (16, 64)).float(), torch.randint(-4, 5, (64, 16)).float()
    c = torch.zeros(16, 16)
    watch = watched(split_k_kernel, (4,), a, b, c, 64, 4, 16, order=order)
    assert torch.equal(c, a @ b)
    assert watch.stored(c).all()


# Program, verb, element and memory semantics of an access
Event = tuple[int, str, int, str]


def has_race(events: list[Event]) -> list[bool]:
    """For each event, in order of execution, whether it races with an earlier one by definition."""
    before: list[set[int]] = []
    released: dict[int, set[int]] = defaultdict(set)
    answers = []
    for now, (program, verb, element, order) in enumerate(events):
        past = {then for then in range(now) if events[then][0] == program}
        past |= set().union(*(before[then] for then in past)) if past else set()
        if verb == "updates" and order in ACQUIRING:
            past |= released[element]
        before.append(past)
        if verb == "updates" and order in RELEASING:
            released[element] |= past | {now}
        answers.append(
            any(
                events[then][0] != program
                and events[then][2] == element
                and (events[then][1], verb) not in (("reads", "reads"), ("updates", "updates"))
                and then not in past
                for then in range(now)
            )
        )
    return answers


def random_events(chance: random.Random, programs: int) -> list[Event]:
    verbs = ["reads", "reads", "writes", "updates", "updates", "updates"]
    orders = ["RELAXED", "ACQUIRE", "RELEASE", "ACQUIRE_RELEASE", "ACQUIRE_RELEASE"]
    return [
        (program, chance.choice(verbs), chance.randrange(4), chance.choice(orders))
        for program in range(programs)
        for _ in range(chance.randint(1, 5))
    ]


def first_race(events: list[Event], history: History, ledger: Ledger) -> int:
    """The number of the event at which History reports the first race, or their count."""
    history.start_launch()
    running = None
    for now, (program, verb, element, order) in enumerate(events):
        if program != running:
            running = program
            history.start_program(program)
        if history.note(verb, ledger, np.array([element]), history.access(0), order):
            return now
    return len(events)


@pytest.mark.parametrize("programs", [2, 4])
def test_races_by_their_definition(programs):
    chance = random.Random(0)
    history, ledger = History(), Ledger(64, 4)
    agreed = raced = 0
    for _ in range(2000):
        events = random_events(chance, programs)
        racing = [*has_race(events), True]
        found = first_race(events, history, ledger)
        # Never a false alarm. Of the accesses of each kind only those of the last two programs are
        # kept, so among more programs a race may be found later.
        assert racing[found]
        agreed += found == racing.index(True)
        raced += True in racing[:-1]
    assert 100 < raced < 1990
    assert agreed >= (2000 if programs == 2 else 1980)
