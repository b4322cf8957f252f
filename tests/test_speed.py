"""Races on a simulated GPU, whose times are known, so that the verdict is known too."""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import dataclass, field

import pytest
import torch

from kernelgauge import words
from kernelgauge.core.settings import settings
from kernelgauge.core.tensors import on_cpu
from kernelgauge.core.verdict import Wrong
from kernelgauge.speed import measure, selftest
from kernelgauge.speed.buffers import Buffers, copy, redrawn
from kernelgauge.speed.clocks import Clocks
from kernelgauge.speed.interval import interval_of
from kernelgauge.speed.measure import race
from tests import faults, sampling
from tests.simulated_limits import H200, MB

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

WRONG_RESULT = "a timed call returned a wrong result: y"


@dataclass
class SimulatedGpu:
    """A stand-in for CudaTimer and the clock. Calls say how long they take with `work(ms)`.

    spread: relative standard deviation of a time
    outliers: share of the calls that take 10 % longer
    drift: relative slowdown per second
    first_penalty: relative slowdown of every other call, the first of each pair
    late_ms: how much later one of the streams wakes while a kernel runs
    stalls: share of the audits in which the host stops for 4 ms, either before the last call or
        before it looks at the device
    waits: whether the call waits for its own stream
    waits_elsewhere: whether it waits for another stream, one that is held back until the start
    host_ms: what a call costs on the host
    """

    seed: int = 0
    spread: float = 0.003
    outliers: float = 0.05
    drift: float = 0.0
    first_penalty: float = 0.0
    late_ms: float = 0.0
    stalls: float = 0.0
    host_ms: float = 0.3
    waits: bool = False
    waits_elsewhere: bool = False
    behind: bool = False
    now: float = 0.0
    calls: int = 0
    launches: int = 0
    streams: list[float] = field(default_factory=lambda: [0.0] * 4)

    def __post_init__(self):
        self.random = random.Random(self.seed)

    def work(self, ms: float, stream: int = 0) -> None:
        self.streams[stream] += ms
        self.launches += stream == 0

    def clock(self) -> float:
        return self.now

    def free_bytes(self) -> int:
        return 10**9

    def time(self, call):
        self.streams = [0.0] * 4
        self.launches = 0
        returned = call()
        ms = (self.streams[0] + 0.002) * self._noise()
        ms *= 1 + self.first_penalty * (self.calls % 2 == 0)
        self.calls += 1
        self.now += (ms + self.host_ms) / 1e3
        self.behind = self.waits
        return ms, returned

    groups = 1

    def spans(self, calls, group=0):
        self.streams = [0.0] * 4
        self.launches = 0
        for call in calls:
            call()
        self.behind = self.waits or self.waits_elsewhere
        self.now += 5e-3
        # Each stream takes another 50 to 90 us to wake, and a second kernel is launched once all
        # are awake. The last span is the whole device's.
        own = [
            ms * self._noise() + (0.05 + 0.01 * n) * (n > 0) for n, ms in enumerate(self.streams)
        ]
        if self.streams[0]:
            own[-1] += self.late_ms
        if self.launches > 1:
            own[0] += 0.08
        beyond = self.random.random() * 0.01
        if self.stalls and self.random.random() < self.stalls:
            if self.random.random() < 0.5:
                own = [span + 4 for span in own]
            else:
                beyond += 4
        others = [max(own[0], span) for span in own[1:]]
        return [own[0], *others, max(own) + beyond]

    def _noise(self) -> float:
        slow = 1.1 if self.random.random() < self.outliers else 1.0
        return slow * self.random.gauss(1, self.spread) * (1 + self.drift * self.now)


def double(gpu: SimulatedGpu, *parts: float | tuple[float, int]):
    """Return a function that doubles its argument by kernels that take `ms`, or (`ms`, stream)."""

    def function(x):
        for part in parts:
            gpu.work(*part) if isinstance(part, tuple) else gpu.work(part)
        return 2 * x

    return function


def remembering(gpu: SimulatedGpu, ms: float, known_ms: float, *, key=None, forget: bool = False):
    """Return a function that doubles its argument and remembers the result, by value by default.

    forget: whether it is wrong on the fourth value and later ones, and as fast as on known values
    """
    results = {}

    def subject(x):
        name = key(x) if key else tuple(x.tolist())
        if forget and name not in results and len(results) == 3:
            gpu.work(known_ms)
            return torch.empty_like(x)
        gpu.work(known_ms if name in results else ms)
        found = results.setdefault(name, 2 * x)
        return found if key else found.clone()

    return subject


def check_doubled(inputs, result):
    if not torch.equal(result, 2 * inputs[0]):
        raise faults.wrong("y[0] is not 2 * x[0]")


def run(gpu: SimulatedGpu, subject, reference=None, inputs=None, at_least=1.0, **options):
    return race(
        subject,
        reference or double(gpu, 1.0),
        inputs or (torch.arange(1000.0),),
        at_least=at_least,
        timer=gpu,
        clock=gpu.clock,
        **options,
    )


NOISE = {
    "quiet": {"spread": 0.001, "outliers": 0.0},
    "usual": {"spread": 0.003, "outliers": 0.05},
    "rough": {"spread": 0.005, "outliers": 0.15},
    "warming_up": {"spread": 0.003, "outliers": 0.05, "drift": 0.02},
    "a_stream_wakes_late": {"spread": 0.003, "outliers": 0.05, "late_ms": 0.1},
    "the_host_stalls": {"spread": 0.003, "outliers": 0.05, "stalls": 0.7},
    "first_of_pair_is_slower": {"spread": 0.003, "outliers": 0.05, "first_penalty": 0.08},
}
noises = pytest.mark.parametrize(
    "noise",
    [pytest.param(it, id=name, marks=sampling.marks(name, one_in=3)) for name, it in NOISE.items()],
)


@pytest.mark.proof
@noises
def test_a_kernel_against_itself_is_inconclusive_in_20_of_20(noise):
    for seed in range(20):
        gpu = SimulatedGpu(seed, **noise)
        found = run(gpu, double(gpu, 1.0))
        assert found.interval.low <= 1 <= found.interval.high
        assert found.interval.high - found.interval.low < 0.02
        assert found.verdict == "inconclusive"


@pytest.mark.proof
@noises
@pytest.mark.parametrize(
    ("ms", "verdict"),
    [(1.05, "failed"), (1 / 1.02, "passed")],
    ids=["5_percent_slower_fails", "2_percent_faster_passes"],
)
def test_a_small_difference_decides_20_of_20(noise, ms, verdict):
    for seed in range(20):
        gpu = SimulatedGpu(seed, **noise)
        assert run(gpu, double(gpu, ms)).verdict == verdict


def test_an_inconclusive_race_says_what_the_clock_did():
    held = Clocks(1600, 1600, 1980, ("power limit",))
    readings = itertools.cycle([Clocks(1900, 1900, 1980), held])

    def notes(ms, read):
        gpu = SimulatedGpu(0)
        found = run(gpu, double(gpu, ms), read_clocks=read)
        return found, [said.id for said in found.fault().said]

    found, said = notes(1.0, lambda: next(readings))
    assert found.clocks == Clocks(1600, 1900, 1980, ("power limit",))
    assert found.plain()["clocks"]["low"] == 1600
    assert said[-1] == "clock-held-back"
    assert "clock-held-back" not in notes(2.0, lambda: next(readings))[1]
    unread, said = notes(1.0, lambda: None)
    assert unread.plain()["clocks"] is None
    assert said[-1] == "interval-contains-bar"


def test_an_interval_contains_1_despite_an_effect_of_memory_placement():
    for seed in range(20):
        gpu = SimulatedGpu(seed)
        interval = run(gpu, double(gpu, 1.003)).interval
        assert interval.low <= 1 <= interval.high


def test_the_interval_of_a_short_kernel_includes_the_resolution_of_events():
    gpu = SimulatedGpu()
    interval = run(gpu, double(gpu, 0.018), double(gpu, 0.018)).interval
    assert interval.high - interval.low > 0.04


def test_more_calls_are_timed_near_the_bar():
    far, near = SimulatedGpu(), SimulatedGpu(spread=0.05)
    assert run(far, double(far, 0.5)).calls < run(near, double(near, 0.98)).calls


def test_timing_ends_in_time_and_the_message_says_so():
    gpu = SimulatedGpu(spread=0.3, outliers=0.3, host_ms=30)
    found = run(gpu, double(gpu, 1.0), max_seconds=3.0)
    assert found.verdict == "inconclusive"
    assert gpu.now < 4
    message = words.message(found.fault())
    assert message.startswith("too close to call: ")
    assert "s of timing the interval in brackets still contains the bar" in message
    assert "not a pass" in message


def test_a_very_slow_kernel_is_judged_by_few_calls():
    gpu = SimulatedGpu()
    found = run(gpu, double(gpu, 7000.0), max_seconds=20.0)
    assert found.verdict == "failed"
    assert gpu.now < 40


def test_messages():
    gpu = SimulatedGpu()
    slow = run(gpu, double(gpu, 2.0), bytes_moved=2 * 10**9, limits=H200)
    fault = slow.fault()
    assert fault.kind == "too-slow"
    assert fault.numbers["milliseconds"] == pytest.approx(
        {"subject": 2.003, "reference": 1.003}, 1e-3
    )
    message = words.message(fault)
    assert message.startswith("too slow: 0.50x [0.50, 0.50] the speed of the reference; the spec")
    assert "the spec asks for 1x" in message
    assert "yours takes 2.003 ms, the reference 1.003 ms (medians of" in message
    assert "23 % of this GPU's copy bandwidth" in message
    assert "neighbouring" in message
    assert slow.summary() == "0.50x [0.50, 0.50], bar 1; 23 % of copy bandwidth"
    assert slow.columns() == {
        "yours": "2.003 ms",
        "reference": "1.003 ms",
        "speed-up": "0.50x [0.50, 0.50]",
        "bar": "1",
        "limit": "23 % of copy bandwidth",
    }


def test_the_scale_moves_the_bar_and_the_message_says_so():
    gpu = SimulatedGpu()
    subject = double(gpu, 1.25)
    assert run(gpu, subject, scale=0.75).verdict == "passed"
    failed = run(gpu, subject, at_least=2.0, scale=0.75)
    assert failed.verdict == "failed"
    assert "asks for 2x, scaled by 0.75 to 1.5x" in words.message(failed.fault())
    assert "bar 1.5" in failed.summary()


def test_the_share_of_a_matmul_rate():
    gpu = SimulatedGpu()
    found = run(gpu, double(gpu, 0.5), operations=(350e9, torch.float16), limits=H200)
    assert found.bound.limit == "float16 matmul rate"
    assert found.share == pytest.approx(1.0, rel=0.02)


def test_an_impossible_time_is_rejected():
    gpu = SimulatedGpu()
    message = r"impossible time: 208 MB in 0\.002\d* ms would be .* TB/s, but this GPU"
    with pytest.raises(Wrong, match=message) as found:
        run(gpu, double(gpu, 0.0), bytes_moved=208 * MB, limits=H200)
    assert found.value.fault.kind == "impossible-time"


def test_a_reference_with_an_impossible_time_is_the_specs_fault():
    gpu = SimulatedGpu()
    with pytest.raises(ValueError, match="the work counted is more than the reference does: 1 GB"):
        run(gpu, double(gpu, 1.0), double(gpu, 0.01), bytes_moved=10**9, limits=H200)


@pytest.mark.parametrize(
    "make",
    [
        lambda gpu: torch.empty_like,
        lambda gpu: remembering(gpu, 1.0, 0.0, key=lambda x: 0),
        lambda gpu: remembering(gpu, 1.0, 0.0, key=lambda x: x.data_ptr()),
        lambda gpu: remembering(gpu, 1.0, 0.0, key=lambda x: (x.data_ptr(), x.shape)),
        lambda gpu: remembering(gpu, 1.0, 0.5, forget=True),
    ],
    ids=[
        "does_nothing",
        "returns_its_first_result",
        "caches_by_address",
        "caches_by_address_and_shape",
        "right_on_known_values_only",
    ],
)
def test_wrong_results_of_timed_calls_are_found(make):
    gpu = SimulatedGpu()
    with pytest.raises(Wrong, match=WRONG_RESULT):
        run(gpu, make(gpu), check=check_doubled)


def test_a_subject_that_finds_the_answer_of_the_reference_in_memory_is_wrong():
    gpu = SimulatedGpu()
    left = [torch.zeros(1000)]

    def reference(x):
        gpu.work(1.0)
        left[0] = 2 * x
        return left[0]

    def same_contents(_):
        return (torch.arange(1000.0),)

    with pytest.raises(Wrong, match=WRONG_RESULT):
        run(gpu, lambda x: left[0], reference, same_contents, check=check_doubled)


@pytest.mark.parametrize(
    ("seeds", "is_honest", "least"),
    [
        (20, lambda gpu: gpu.random.random() < 0.5, 11),
        (10, lambda gpu: gpu.calls < 100, 9),
    ],
    ids=["now_and_then", "after_100_calls"],
)
def test_a_subject_that_cheats_in_some_calls_is_mostly_found(seeds, is_honest, least):
    found = 0
    for seed in range(seeds):
        gpu = SimulatedGpu(seed)

        def subject(x, gpu=gpu):
            gpu.work(0.5)
            return 2 * x if is_honest(gpu) else torch.empty_like(x)

        try:
            run(gpu, subject, check=check_doubled)
        except Wrong:
            found += 1
    assert found >= least


@pytest.mark.parametrize("known_ms", [0.02, 0.3, 0.7])
def test_a_subject_that_is_faster_on_known_values_is_found(known_ms):
    for seed in range(20):
        gpu = SimulatedGpu(seed, **NOISE["first_of_pair_is_slower"])
        message = r"remembers what it computed: a call takes .* ms on new values, but .* ms on the"
        with pytest.raises(Wrong, match=message):
            run(gpu, remembering(gpu, 1.0, known_ms), check=check_doubled)


@pytest.mark.proof
@noises
@pytest.mark.parametrize("ms", [0.02, 0.05, 1.0])
def test_honest_work_is_not_taken_for_memory(noise, ms):
    for seed in range(20):
        gpu = SimulatedGpu(seed, **noise)
        run(gpu, double(gpu, ms), double(gpu, 1.5 * ms), check=check_doubled)


def test_a_right_subject_passes_with_each_of_three_contents_checked():
    gpu = SimulatedGpu()
    seen = []

    def check(inputs, result):
        check_doubled(inputs, result)
        seen.append(inputs[0])

    assert run(gpu, double(gpu, 0.5), check=check).verdict == "passed"
    assert len({tuple(x[:5].tolist()) for x in seen}) == 3


@pytest.mark.parametrize("output", [None, torch.empty(1000)], ids=["in_place", "reused_output"])
def test_results_are_checked_as_they_were_when_returned(output):
    gpu = SimulatedGpu()

    def subject(x):
        gpu.work(0.5)
        return torch.mul(x, 2, out=x if output is None else output)

    assert run(gpu, subject, check=check_doubled).verdict == "passed"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        *(([(ms, stream)], "that stream is done after") for ms in (0.1, 1.0) for stream in (1, 3)),
        ([0.4, (0.9, 2)], r"that stream is done after 0\.4\d* ms, the GPU after 0\.\d+ ms"),
    ],
    ids=["short_on_1", "short_on_3", "long_on_1", "long_on_3", "a_part_on_2"],
)
def test_work_on_another_stream_is_found(parts, message):
    gpu = SimulatedGpu()
    with pytest.raises(Wrong, match=f"work outside the timed stream: {message}"):
        run(gpu, double(gpu, *parts))


def test_a_call_that_waits_for_another_stream_is_found():
    gpu = SimulatedGpu(waits_elsewhere=True)
    with pytest.raises(Wrong, match="the call waits for another stream"):
        run(gpu, double(gpu, 0.01))


@pytest.mark.parametrize(
    ("waits", "hidden_ms"), [(True, 0.5), (False, 0.1)], ids=["waited_for", "shared"]
)
def test_work_that_another_stream_did_before_the_call_is_found(waits, hidden_ms):
    class Hiding(SimulatedGpu):
        """In `time` the other stream works during the hold, in `spans` it begins at the start."""

        hidden_ms = 0.0

        def spans(self, calls, group=0):
            self.hidden_ms = hidden_ms
            try:
                return super().spans(calls, group)
            finally:
                self.hidden_ms = 0.0

    gpu = Hiding(waits=waits)

    def subject(x):
        gpu.work(0.1 + gpu.hidden_ms)
        return 2 * x

    message = r"a call takes 0\.1\d* ms, but 0\.\d+ ms if no other stream may start before it"
    with pytest.raises(Wrong, match=message):
        run(gpu, subject)


SEVERAL = {"short_long": (0.004, 0.2), "long_short": (0.07, 0.004), "five": (0.01,) * 5}
HONEST = {
    "one": (False, (0.05,), 0.08),
    **{name: (False, parts, 0.3) for name, parts in SEVERAL.items()},
    **{f"{name}_waiting": (True, parts, 0.3) for name, parts in SEVERAL.items()},
}


@pytest.mark.proof
@noises
@pytest.mark.parametrize(("waits", "parts", "reference_ms"), HONEST.values(), ids=HONEST)
def test_honest_kernels_are_not_taken_for_work_elsewhere(noise, waits, parts, reference_ms):
    for seed in range(20):
        gpu = SimulatedGpu(seed, waits=waits, **noise)
        run(gpu, double(gpu, *parts), double(gpu, reference_ms))


def test_what_the_subject_raises_passes_through():
    def subject(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(SimulatedGpu(), subject)


def test_subject_and_reference_take_turns_on_the_same_inputs():
    gpu = SimulatedGpu()
    calls = []

    def noting(name, ms):
        def function(x):
            gpu.work(ms)
            calls.append((name, x.data_ptr(), x[0].item()))
            return 2 * x

        return function

    run(gpu, noting("A", 0.5), noting("B", 1.0))
    names = "".join(name for name, _, _ in calls)
    start = names.index("ABBABAAB")
    timed = calls[start : names.rindex("ABBABAAB") + 8]
    assert len(timed) % 8 == 0
    pairs = list(zip(timed[::2], timed[1::2], strict=True))
    assert all({a[0], b[0]} == {"A", "B"} for a, b in pairs)
    assert all(a[1:] == b[1:] for a, b in pairs)
    assert len({place for _, place, _ in timed}) == 3
    assert len({(place, content) for _, place, content in timed}) == 9


def test_the_order_of_calls_cancels_a_drift():
    order = [who for first in measure.SUBJECT_FIRST for who in ((0, 1) if first else (1, 0))]
    assert order == [0, 1, 1, 0, 1, 0, 0, 1]
    for power in (1, 2):
        moments = [sum(t**power for t, w in enumerate(order) if w == who) for who in (0, 1)]
        assert moments[0] == moments[1]


def test_a_disturbed_call_does_not_count():
    calm = [([1.0, 1.01, 1.0, 1.01], [2.0, 2.02, 2.0, 2.02])] * 10
    disturbed = [([1.0, 1.01, 1.0, 1.9], [2.0, 2.02, 2.0, 5.0])] * 10
    assert interval_of(calm).ratio == pytest.approx(2)
    assert interval_of(disturbed).ratio == pytest.approx(2)
    assert interval_of(disturbed).subject_ms < 1.01


def test_an_interval_of_few_blocks_is_their_extremes():
    found = interval_of([([1.0, 1.2], [2.0, 3.0])])
    assert (found.low, found.high) == pytest.approx((2.0 / 1.2 * 0.995, 3.0 * 1.005))


def test_copies_keep_geometry_and_sharing():
    base = torch.arange(60.0)
    a, b = base[3:33].view(5, 6).T, base[40:45].expand(3, 5)
    a2, b2, rest = copy((a, b, (7, "tanh")))
    assert torch.equal(a, a2)
    assert torch.equal(b, b2)
    assert rest == (7, "tanh")
    assert (a2.stride(), b2.stride()) == (a.stride(), b.stride())
    assert a2.storage_offset() == 3
    assert a2.untyped_storage().data_ptr() == b2.untyped_storage().data_ptr()
    assert a2.data_ptr() != a.data_ptr()


def test_other_contents_have_other_sums_and_only_old_values():
    indices = torch.randint(0, 100, (10_000,))
    rows = torch.randn(1, 50, 8)
    buffers = Buffers((indices, rows, torch.ones(()), torch.empty(0)), 10**9)
    sums = {int(content[0].sum()) for content in buffers.contents}
    assert len(sums) == len(buffers.contents) == 3
    old_rows = set(map(tuple, rows[0].tolist()))
    for content in buffers.contents:
        assert set(content[0].tolist()) <= set(indices.tolist())
        assert set(map(tuple, content[1][0].tolist())) <= old_rows
    assert len({float(content[1].sum()) for content in buffers.contents}) == 3


def test_contents_that_would_be_invalid_are_kept():
    x, ends = torch.arange(20.0), torch.tensor([3, 9, 20])
    buffers = Buffers(redrawn((x, ends), kept=[1]), 10**9)
    buffers.renew()
    assert len({float(values.sum()) for values, _ in buffers.contents}) == len(buffers.contents)
    assert all(torch.equal(kept, ends) for _, kept in buffers.contents)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_8_bit_floats_get_other_contents(device):
    x = torch.randn(12, 7, device=device).to(torch.float8_e4m3fn)
    scale = x.float().abs().amax(1)
    buffers = Buffers((x.T.contiguous().T, scale), 10**9)
    buffers.renew()
    old_rows = set(map(tuple, x.tolist()))
    for rows, beside in buffers.contents:
        assert set(map(tuple, rows.tolist())) <= old_rows
        assert torch.equal(rows.float().abs().amax(1), beside)
    assert len({tuple(beside.tolist()) for _, beside in buffers.contents}) == 3


def test_rows_that_belong_together_stay_together():
    x = torch.randn(12, 7)
    for x2, mean2 in Buffers((x, x.mean(1)), 10**9).contents:
        assert torch.allclose(x2.mean(1), mean2)


def test_renewed_contents_are_new_and_keep_rows_together():
    x, scale, flags = torch.arange(4.0)[:, None].repeat(1, 3), torch.arange(4.0), torch.ones(1)
    buffers = Buffers((x, scale, flags), 10**9)
    seen = set()
    for _ in range(20):
        rows, beside, other = buffers.contents[buffers.renew()]
        assert torch.equal(rows, beside[:, None].expand(4, 3))
        assert set(beside.tolist()) <= set(range(4))
        assert other.tolist() == [1.0]
        seen.add(tuple(beside.tolist()))
    assert len(seen) > 15
    assert buffers.contents[0][1].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_little_memory_means_fewer_copies():
    x = torch.randn(1000)
    assert [len(Buffers((x,), free).places) for free in (10**9, 40_000, 10)] == [3, 2, 1]
    assert len(Buffers((x,), 10).contents) == 2


def test_inputs_may_be_made_by_a_function():
    buffers = Buffers(lambda number: (torch.full((4,), float(number)),), 10**9)
    assert [content[0][0].item() for content in buffers.contents] == [0, 1, 2]
    place = buffers.fill(0, 2)[0]
    assert place.tolist() == [2.0] * 4
    assert buffers.fill(3, 1)[0].data_ptr() == place.data_ptr()
    assert place.tolist() == [1.0] * 4
    assert [buffers.contents[buffers.renew()][0][0].item() for _ in range(2)] == [3, 4]


def test_gradients_do_not_accumulate():
    buffers = Buffers((torch.randn(8, requires_grad=True),), 10**9)
    place = buffers.fill(0, 1)[0]
    assert place.requires_grad
    place.sum().backward()
    assert buffers.fill(0, 1)[0].grad is None


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: x.T,
        lambda x: x[::2, ::3],
        lambda x: x[:, :1].expand(6, 30),
        lambda x: x[0, 0].expand(6, 30),
        lambda x: x.requires_grad_(),
    ],
    ids=["contiguous", "transposed", "strided", "expanded_column", "expanded_scalar", "leaf"],
)
def test_arguments_keep_their_strides_on_the_cpu(make):
    given = make(torch.randn(6, 9, device=settings.device))
    moved = on_cpu(given)
    assert moved.device.type == "cpu"
    assert moved.stride() == given.stride()
    assert moved.requires_grad == given.requires_grad
    assert torch.equal(moved, given.cpu())


@pytest.mark.parametrize("built", [False, True], ids=["without_cuda", "with_cuda"])
def test_the_self_test_names_what_torch_lacks(monkeypatch, built):
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: built)
    monkeypatch.setattr(torch._C, "_cuda_setStream", lambda *_: None, raising=False)
    assert selftest.failures() == []
    monkeypatch.setattr(torch._C, "_cuda_setStream", None)
    monkeypatch.delattr(torch.cuda, "_sleep")
    words = ["torch.cuda._sleep, which .* is missing", "_cuda_setStream, which .* is not callable"]
    lines = [it.line for it in selftest.failures()]
    assert len(lines) == (2 if built else 0)
    for line, pattern in zip(lines, words, strict=False):
        assert re.match(f"torch {re.escape(torch.__version__)}: .*{pattern}", line)
