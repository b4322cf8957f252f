"""The race, run by a simulated GPU: what it measures is known, what it concludes must follow."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
import torch

from judge.core.settings import settings
from judge.core.tensors import on_cpu
from judge.core.verdict import Wrong
from judge.speed import measure
from judge.speed.buffers import Buffers, copy
from judge.speed.interval import interval_of
from judge.speed.measure import race
from judge.speed.result import RaceResult
from judge.speed.roofline import Limits

MB = 10**6
H200 = Limits(
    name="NVIDIA H200",
    uuid="0",
    torch="2.13.0",
    multiprocessors=132,
    l2_bytes=60 * MB,
    copy=4.28e12,
    read=4.2e12,
    matmul={"float16": 700e12},
)


@dataclass
class SimulatedGpu:
    """Stands for CudaTimer and for the clock. Calls say how long they take: `work(ms)`.

    spread: of a time, relative, of a normal distribution
    outliers: the part of the calls that takes 10 % longer
    drift: relative slowdown a second
    first_penalty: relative slowdown of every other call, the first of each pair
    late_ms: how much later one of the streams wakes beside a kernel than without one
    stalls: the part of the audits in which the host stops for 4 ms: before the last call, or
        before it looks at the device
    waits: whether the call waits for its own stream
    waits_elsewhere: whether it waits for another one that waits for the start
    host_ms: what a call costs besides, by the clock
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
        # Waking a stream costs 50 to 90 us, each its own, and a second kernel is launched when all
        # are awake; the last span is the whole device's.
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


def double(gpu: SimulatedGpu, ms: float):
    """A function that takes so long and doubles its argument."""

    def function(x):
        gpu.work(ms)
        return 2 * x

    return function


def check_doubled(inputs, result):
    if not torch.equal(result, 2 * inputs[0]):
        raise Wrong("y[0] is not 2 * x[0]")


def run(gpu: SimulatedGpu, subject, reference=None, at_least=1.0, **options) -> RaceResult:
    return race(
        subject,
        reference or double(gpu, 1.0),
        (torch.arange(1000.0),),
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
noises = pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)


@noises
def test_the_same_kernel_is_as_fast_as_itself_in_20_of_20(noise):
    for seed in range(20):
        gpu = SimulatedGpu(seed, **noise)
        found = run(gpu, double(gpu, 1.0))
        assert found.low <= 1 <= found.high
        assert found.high - found.low < 0.02
        assert found.verdict == "inconclusive"


@noises
def test_a_kernel_5_percent_slower_fails_in_20_of_20(noise):
    for seed in range(20):
        gpu = SimulatedGpu(seed, **noise)
        assert run(gpu, double(gpu, 1.05)).verdict == "failed"


@noises
def test_a_kernel_2_percent_faster_passes_in_20_of_20(noise):
    for seed in range(20):
        gpu = SimulatedGpu(seed, **noise)
        assert run(gpu, double(gpu, 1 / 1.02)).verdict == "passed"


def test_the_interval_of_a_short_kernel_knows_the_resolution_of_events():
    gpu = SimulatedGpu()
    found = run(gpu, double(gpu, 0.018), double(gpu, 0.018))
    assert found.high - found.low > 0.04


def test_more_is_measured_where_the_bar_is_near():
    far, near = SimulatedGpu(), SimulatedGpu(spread=0.05)
    assert run(far, double(far, 0.5)).calls < run(near, double(near, 0.98)).calls


def test_measuring_ends_in_time_and_says_so():
    gpu = SimulatedGpu(spread=0.3, outliers=0.3, host_ms=30)
    found = run(gpu, double(gpu, 1.0), max_seconds=3.0)
    assert found.verdict == "inconclusive"
    assert gpu.now < 4
    assert "too close to call" in found.message()
    assert "no pass" in found.message()


def test_a_very_slow_kernel_is_judged_by_few_calls():
    gpu = SimulatedGpu()
    found = run(gpu, double(gpu, 7000.0), max_seconds=20.0)
    assert found.verdict == "failed"
    assert gpu.now < 40


def test_messages():
    gpu = SimulatedGpu()
    slow = run(gpu, double(gpu, 2.0), bytes_moved=2 * 10**9, limits=H200)
    message = slow.message()
    assert message.startswith("too slow: 0.50x [0.50, 0.50] the speed of the reference")
    assert "the spec asks for 1x" in message
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
    assert "asks for 2x, scaled by 0.75 to 1.5x" in failed.message()
    assert "bar 1.5" in failed.summary()


def test_operations_are_a_limit_too():
    gpu = SimulatedGpu()
    found = run(gpu, double(gpu, 0.5), operations=(350e9, torch.float16), limits=H200)
    assert found.limit == "float16 matmul rate"
    assert found.share == pytest.approx(1.0, rel=0.02)


def test_a_subject_that_returns_early_is_impossible():
    gpu = SimulatedGpu()
    with pytest.raises(Wrong, match=r"impossible time: 0\.002\d* ms for 208 MB would be .* TB/s"):
        run(gpu, double(gpu, 0.0), bytes_moved=208 * MB, limits=H200)


def test_a_subject_that_does_nothing_returns_wrong_results():
    gpu = SimulatedGpu()
    with pytest.raises(Wrong, match="while the time was taken is wrong: y"):
        run(gpu, torch.empty_like, check=check_doubled)


def test_a_reference_that_beats_the_floor_is_a_fault_of_the_spec():
    gpu = SimulatedGpu()
    with pytest.raises(ValueError, match="less than is counted"):
        run(gpu, double(gpu, 1.0), double(gpu, 0.01), bytes_moved=10**9, limits=H200)


@pytest.mark.parametrize("by", ["call", "address", "address_and_shape"])
def test_a_subject_that_remembers_is_wrong(by):
    gpu = SimulatedGpu()
    results = {}

    def subject(x):
        key = {"call": 0, "address": x.data_ptr(), "address_and_shape": (x.data_ptr(), x.shape)}[by]
        if key not in results:
            gpu.work(1.0)
            results[key] = 2 * x
        return results[key]

    with pytest.raises(Wrong, match="while the time was taken is wrong"):
        run(gpu, subject, check=check_doubled)


def remembering(gpu: SimulatedGpu, ms: float, known_ms: float, forget: bool = False):
    """Doubles in so many milliseconds, and on numbers that it knows in as many as these."""
    results = {}

    def subject(x):
        key = tuple(x.tolist())
        if forget and key not in results and len(results) == 3:
            gpu.work(known_ms)
            return torch.empty_like(x)
        gpu.work(known_ms if key in results else ms)
        return results.setdefault(key, 2 * x).clone()

    return subject


@pytest.mark.parametrize("known_ms", [0.02, 0.3, 0.7])
def test_a_subject_that_knows_the_numbers_is_found(known_ms):
    for seed in range(20):
        gpu = SimulatedGpu(seed, **NOISE["first_of_pair_is_slower"])
        with pytest.raises(Wrong, match="remembers what it computed"):
            run(gpu, remembering(gpu, 1.0, known_ms), check=check_doubled)


def test_a_subject_that_is_right_on_known_numbers_only_is_wrong():
    gpu = SimulatedGpu()
    with pytest.raises(Wrong, match="while the time was taken is wrong"):
        run(gpu, remembering(gpu, 1.0, 0.5, forget=True), check=check_doubled)


@noises
@pytest.mark.parametrize("ms", [0.02, 0.05, 1.0])
def test_honest_work_is_not_taken_for_memory(noise, ms):
    for seed in range(20):
        gpu = SimulatedGpu(seed, **noise)
        run(gpu, double(gpu, ms), double(gpu, 1.5 * ms), check=check_doubled)


def test_a_subject_that_cheats_now_and_then_is_found_in_time():
    found = 0
    for seed in range(20):
        gpu = SimulatedGpu(seed)

        def subject(x, gpu=gpu):
            gpu.work(0.5)
            return 2 * x if gpu.random.random() < 0.5 else torch.empty_like(x)

        try:
            run(gpu, subject, check=check_doubled)
        except Wrong:
            found += 1
    assert found > 10


def test_a_subject_that_cheats_once_it_feels_safe_is_found():
    found = 0
    for seed in range(10):
        gpu = SimulatedGpu(seed)

        def subject(x, gpu=gpu):
            gpu.work(0.5)
            return 2 * x if gpu.calls < 100 else torch.empty_like(x)

        try:
            run(gpu, subject, check=check_doubled)
        except Wrong:
            found += 1
    assert found > 8


def test_a_right_subject_passes_its_checks():
    gpu = SimulatedGpu()
    seen = []

    def check(inputs, result):
        check_doubled(inputs, result)
        seen.append(inputs[0])

    assert run(gpu, double(gpu, 0.5), check=check).verdict == "passed"
    assert len({tuple(x[:5].tolist()) for x in seen}) == 3


def test_a_subject_that_finds_the_answer_of_the_reference_in_memory_is_wrong():
    gpu = SimulatedGpu()
    left = [torch.zeros(1000)]

    def reference(x):
        gpu.work(1.0)
        left[0] = 2 * x
        return left[0]

    def same_contents(_):
        return (torch.arange(1000.0),)

    with pytest.raises(Wrong, match="while the time was taken is wrong"):
        race(
            lambda x: left[0],
            reference,
            same_contents,
            at_least=1.0,
            check=check_doubled,
            timer=gpu,
            clock=gpu.clock,
        )


def test_a_subject_that_reuses_its_output_is_judged_by_what_it_returned_then():
    gpu = SimulatedGpu()
    y = torch.empty(1000)

    def subject(x):
        gpu.work(0.5)
        return torch.mul(x, 2, out=y)

    assert run(gpu, subject, check=check_doubled).verdict == "passed"


def test_work_in_place_starts_from_fresh_inputs():
    gpu = SimulatedGpu()

    def in_place(x):
        gpu.work(0.5)
        return x.mul_(2)

    assert run(gpu, in_place, check=check_doubled).verdict == "passed"


@pytest.mark.parametrize("ms", [0.1, 1.0])
@pytest.mark.parametrize("stream", [1, 3])
def test_work_on_another_stream_is_found(ms, stream):
    gpu = SimulatedGpu()

    def subject(x):
        gpu.work(ms, stream)
        return 2 * x

    with pytest.raises(Wrong, match="work outside the timed stream"):
        run(gpu, subject)


def test_a_part_on_another_stream_is_found():
    gpu = SimulatedGpu()

    def subject(x):
        gpu.work(0.4)
        gpu.work(0.9, stream=2)
        return 2 * x

    with pytest.raises(Wrong, match=r"done after 0\.4\d* ms, the GPU after 0\.\d+ ms"):
        run(gpu, subject)


@noises
def test_honest_work_is_not_taken_for_work_elsewhere(noise):
    for seed in range(20):
        gpu = SimulatedGpu(seed, **noise)
        run(gpu, double(gpu, 0.05), double(gpu, 0.08))


def test_a_call_that_waits_for_another_stream_is_found():
    gpu = SimulatedGpu(waits_elsewhere=True)
    with pytest.raises(Wrong, match="the call waits for another stream"):
        run(gpu, double(gpu, 0.01))


# A call that waits for another stream and for its own, and one that shares its work with another.
@pytest.mark.parametrize(("waits", "hidden_ms"), [(True, 0.5), (False, 0.1)])
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

    message = r"a call takes 0\.1\d* ms, and 0\.\d+ ms where other streams begin with it"
    with pytest.raises(Wrong, match=message):
        run(gpu, subject)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("parts", [(0.004, 0.2), (0.07, 0.004), (0.01, 0.01, 0.01, 0.01, 0.01)])
@noises
def test_several_kernels_are_not_taken_for_work_elsewhere(noise, parts, waits):
    for seed in range(20):
        gpu = SimulatedGpu(seed, waits=waits, **noise)

        def subject(x, gpu=gpu):
            for ms in parts:
                gpu.work(ms)
            return 2 * x

        run(gpu, subject, double(gpu, 0.3))


def test_what_the_subject_raises_passes_through():
    gpu = SimulatedGpu()

    def subject(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(gpu, subject)


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


def test_a_kernel_that_differs_from_itself_by_where_its_memory_lies_is_still_itself():
    for seed in range(20):
        gpu = SimulatedGpu(seed)
        found = run(gpu, double(gpu, 1.003))
        assert found.low <= 1 <= found.high


def test_a_disturbed_call_does_not_count():
    calm = [([1.0, 1.01, 1.0, 1.01], [2.0, 2.02, 2.0, 2.02])] * 10
    disturbed = [([1.0, 1.01, 1.0, 1.9], [2.0, 2.02, 2.0, 5.0])] * 10
    assert interval_of(calm).ratio == pytest.approx(2)
    assert interval_of(disturbed).ratio == pytest.approx(2)
    assert interval_of(disturbed).subject_ms < 1.01


def test_an_interval_of_few_blocks_is_their_extremes():
    found = interval_of([([1.0, 1.2], [2.0, 3.0])])
    assert (found.low, found.high) == pytest.approx((2.0 / 1.2 * 0.995, 3.0 * 1.005))


def test_the_order_of_calls_cancels_a_drift():
    order = [who for first in measure.SUBJECT_FIRST for who in ((0, 1) if first else (1, 0))]
    assert order == [0, 1, 1, 0, 1, 0, 0, 1]
    for power in (1, 2):
        moments = [sum(t**power for t, w in enumerate(order) if w == who) for who in (0, 1)]
        assert moments[0] == moments[1]


def test_copies_keep_geometry_and_sharing():
    base = torch.arange(60.0)
    a, b = base[3:33].view(5, 6).T, base[40:45].expand(3, 5)
    a2, b2, rest = copy((a, b, (7, "tanh")))
    assert torch.equal(a, a2)
    assert torch.equal(b, b2)
    assert rest == (7, "tanh")
    assert a2.stride() == a.stride()
    assert b2.stride() == b.stride()
    assert a2.storage_offset() == 3
    assert a2.untyped_storage().data_ptr() == b2.untyped_storage().data_ptr()
    assert a2.data_ptr() != a.data_ptr()


def test_other_contents_have_other_sums_and_only_old_values():
    indices = torch.randint(0, 100, (10_000,))
    rows = torch.randn(1, 50, 8)
    buffers = Buffers((indices, rows, torch.ones(()), torch.empty(0)), 10**9)
    sums = {int(content[0].sum()) for content in buffers.contents}
    assert len(sums) == len(buffers.contents) == 3
    for content in buffers.contents:
        assert set(content[0].tolist()) <= set(indices.tolist())
        assert {tuple(row) for row in content[1][0].tolist()} <= {
            tuple(row) for row in rows[0].tolist()
        }
    assert len({float(content[1].sum()) for content in buffers.contents}) == 3


def test_rows_that_belong_together_stay_together():
    x = torch.randn(12, 7)
    mean = x.mean(1)
    for x2, mean2 in Buffers((x, mean), 10**9).contents:
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
    made = Buffers(lambda number: (torch.full((4,), float(number)),), 10**9)
    assert [made.contents[made.renew()][0][0].item() for _ in range(2)] == [3, 4]


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


def test_gradients_do_not_pile_up():
    x = torch.randn(8, requires_grad=True)
    buffers = Buffers((x,), 10**9)
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
)
def test_arguments_keep_their_strides_on_the_cpu(make):
    given = make(torch.randn(6, 9, device=settings.device))
    moved = on_cpu(given)
    assert moved.device.type == "cpu"
    assert moved.stride() == given.stride()
    assert moved.requires_grad == given.requires_grad
    assert torch.equal(moved, given.cpu())
