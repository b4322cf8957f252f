"""The timer on a simulated CUDA, whose streams run by themselves and whose host takes time."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest

from kernelgauge.speed import timer as timer_module
from kernelgauge.speed.timer import MAX_HOLD_MS, CudaTimer

CALL_MS = 0.002
QUERY_MS = 0.001
FLUSH_MS = 0.06


class Stream:
    def __init__(self, cuda: Cuda, number: int):
        self.cuda, self.cuda_stream, self.ready = cuda, number, 0.0

    def wait_event(self, event: Event) -> None:
        self.cuda.host += CALL_MS
        self.ready = max(self.ready, event.at)

    def record_event(self) -> Event:
        event = Event(self.cuda)
        event.record(self)
        return event

    def synchronize(self) -> None:
        self.cuda.host = max(self.cuda.host, self.ready)


class Event:
    def __init__(self, cuda: Cuda):
        self.cuda, self.at = cuda, 0.0

    def record(self, stream: Stream) -> None:
        self.cuda.host += CALL_MS
        self.at = max(stream.ready, self.cuda.host)

    def query(self) -> bool:
        self.cuda.host += QUERY_MS
        return self.at <= self.cuda.host

    def synchronize(self) -> None:
        self.cuda.host = max(self.cuda.host, self.at)

    def elapsed_time(self, later: Event) -> float:
        assert self.at <= self.cuda.host
        assert later.at <= self.cuda.host
        return later.at - self.at


class Cuda:
    """The part of torch.cuda that the timer uses. Times in ms; the GPU spins at 1 GHz."""

    def __init__(self):
        self.host = 0.0
        self.default = self.now = Stream(self, 0)
        self.pools = {p: [Stream(self, 32 * -p + n + 1) for n in range(32)] for p in (0, -1)}
        self.given = 7
        self.raw, self.peer = Stream(self, 999), Stream(self, 1000)

    def launch(self, ms: float, stream: Stream | None = None, host_ms: float = CALL_MS) -> None:
        stream = stream or self.now
        self.host += host_ms
        stream.ready = max(stream.ready, self.host) + ms

    def synchronize(self) -> None:
        every = [self.default, self.raw, *self.pools[0], *self.pools[-1]]
        self.host = max(self.host, *(stream.ready for stream in every))

    def _sleep(self, cycles: int) -> None:
        self.launch(cycles / 1e6)

    def make_stream(self, priority: int) -> Stream:
        self.given += 1
        return self.pools[max(priority, -1)][self.given % 32]

    def current_stream(self) -> Stream:
        return self.now

    @contextmanager
    def stream(self, stream: Stream):
        before, self.now = self.now, stream
        yield
        self.now = before

    @contextmanager
    def device(self, device):
        with self.stream(self.peer if device == "peer" else self.now):
            yield


@pytest.fixture
def cuda(monkeypatch):
    cuda = Cuda()

    def make_stream(priority):
        return cuda.make_stream(priority)

    make_stream.priority_range = lambda: (0, -3)
    evictor = SimpleNamespace(zero_=lambda: cuda.launch(FLUSH_MS))
    names = ("synchronize", "_sleep", "current_stream", "stream", "device")
    fake = SimpleNamespace(
        Stream=make_stream,
        Event=lambda enable_timing: Event(cuda),
        current_device=lambda: 0,
        get_device_properties=lambda device: SimpleNamespace(L2_cache_size=60 * 2**20),
        memory_reserved=lambda device: 30,
        memory_allocated=lambda device: 10,
        mem_get_info=lambda device: (100, 1000),
        **{name: getattr(cuda, name) for name in names},
    )
    peers = SimpleNamespace(zero_=lambda: cuda.launch(3 * FLUSH_MS), device="peer")
    torch = SimpleNamespace(
        cuda=fake,
        device=lambda *given: given,
        int32=None,
        empty=lambda *_, **__: evictor,
        empty_like=lambda *_, **__: peers,
    )

    def sleep(seconds):
        cuda.host += 1e3 * seconds + 0.05

    clock = SimpleNamespace(sleep=sleep, perf_counter=lambda: cuda.host / 1e3)
    monkeypatch.setattr(timer_module, "torch", torch)
    monkeypatch.setattr(timer_module, "time", clock)
    return cuda


@pytest.fixture
def timer(cuda):
    return CudaTimer()


def test_the_time_is_that_of_the_gpu(cuda, timer):
    ms, returned = timer.time(lambda: cuda.launch(0.5, host_ms=0.05) or "result")
    assert ms == pytest.approx(0.5)
    assert returned == "result"
    assert timer.free_bytes() == 120


def test_the_time_begins_and_ends_with_all_gpus(cuda):
    timer = CudaTimer(["peer"])
    ready = []

    def call():
        ready.append((cuda.default.ready, cuda.peer.ready))
        cuda.launch(0.1)
        cuda.launch(0.5, cuda.peer)

    ms, _ = timer.time(call)
    ((own, peer),) = ready
    assert own == peer
    assert ms == pytest.approx(0.5)
    assert cuda.host >= cuda.peer.ready


def test_a_slow_host_gets_a_longer_hold(cuda, timer):
    def call():
        for _ in range(5):
            cuda.launch(0.1, host_ms=0.3)

    first, _ = timer.time(call)
    assert timer.behind
    assert first > 0.6
    for _ in range(4):
        last, _ = timer.time(call)
    assert not timer.behind
    assert last == pytest.approx(0.5)


def test_the_time_of_a_call_that_waits_includes_its_wait(cuda, timer):
    def call():
        cuda.launch(0.1)
        cuda.now.synchronize()
        cuda.launch(0.2, host_ms=0.03)

    for _ in range(10):
        ms, _ = timer.time(call)
    assert timer.behind
    assert ms == pytest.approx(0.33)
    assert cuda.host < 10 * 5 + 30


def test_work_on_the_timed_stream_is_in_no_other_span(cuda, timer):
    idle = timer.spans([lambda: None])
    busy = timer.spans([lambda: cuda.launch(0.5)])
    assert timer.groups == 2
    assert len(idle) == len(busy) == 1 + 32 + 1
    assert max(busy[1:-1]) < 0.1
    assert busy[0] == pytest.approx(0.5)
    assert busy[-1] - idle[-1] == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("pool", [0, -1])
@pytest.mark.parametrize("wait", [False, True], ids=["", "waits"])
def test_work_on_a_side_stream_is_in_its_span(cuda, timer, pool, wait):
    side = cuda.pools[pool][5]

    def call():
        cuda.launch(0.5, side)
        if wait:
            side.synchronize()

    assert timer.time(lambda: cuda.launch(0.5, side))[0] < 0.01
    work = max(
        busy - idle
        for group in range(timer.groups)
        for idle, busy in zip(
            timer.spans([lambda: None], group), timer.spans([call], group), strict=True
        )
    )
    assert 0.5 <= work < 0.7


@pytest.mark.parametrize(("wait", "groups"), [(False, []), (True, [1])], ids=["", "waits"])
def test_a_call_that_waits_for_a_side_stream_is_noticed(cuda, timer, wait, groups):
    side = cuda.pools[0][5]

    def call():
        cuda.launch(0.5, side)
        if wait:
            side.synchronize()

    for _ in range(10):
        timer.time(call)
    assert not timer.behind
    noticed = [g for g in range(timer.groups) if timer.spans([call], g) and timer.behind]
    assert noticed == groups


def test_work_of_several_calls_adds_up_in_each_span(cuda, timer):
    def call():
        cuda.launch(0.01)
        cuda.launch(0.03, cuda.pools[0][5])

    spans = timer.spans([call] * 40, group=1)
    assert spans[0] == pytest.approx(0.4)
    assert max(spans) == pytest.approx(1.2, abs=0.1)


def test_the_gpu_waits_for_no_call_of_a_span(cuda, timer):
    """Together the calls take longer to queue than the first hold lasts."""
    call = partial(cuda.launch, 0.05, host_ms=0.2)
    assert timer.spans([call] * 30)[0] == pytest.approx(1.5)
    assert not timer.behind


def test_the_gpu_is_held_no_longer_than_it_takes_to_queue_a_span(cuda, timer):
    timer.spans([lambda: cuda.launch(0.05)])
    began = cuda.host
    timer.spans([lambda: cuda.launch(0.05)])
    assert cuda.host - began < MAX_HOLD_MS
    assert not timer.behind


def test_a_host_that_is_late_with_a_later_call_is_not_taken_for_a_wait(cuda, timer):
    timer.spans([lambda: cuda.launch(0.01), lambda: cuda.launch(0.01, host_ms=20)])
    assert not timer.behind


def test_work_on_a_stream_unknown_to_torch_shows_as_far_as_it_outlasts_the_call(cuda, timer):
    idle = timer.spans([lambda: None])
    busy = timer.spans([lambda: cuda.launch(9.0, cuda.raw)])
    assert busy[-1] - idle[-1] > 0.5


def test_the_last_span_does_not_depend_on_when_the_host_looks(cuda, timer):
    spans = []
    for host_ms in (0.002, 0.013, 0.024, 0.035, 0.046, 0.057):

        def call(host_ms=host_ms):
            cuda.launch(0.5, host_ms=host_ms)
            cuda.raw.ready = cuda.now.ready + 0.06

        spans.append(timer.spans([call])[-1])
    assert max(spans) - min(spans) < 0.01
    assert min(spans) == pytest.approx(0.56, abs=0.02)


def test_the_stream_is_restored_if_the_call_changes_it(cuda, timer):
    def call():
        cuda.now = cuda.pools[0][3]

    timer.time(call)
    assert cuda.now is cuda.default
