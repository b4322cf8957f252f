"""Sealed runs on a GPU, as far as none is needed: the interpreter stands in for the launches.

The cell is told of an H200; tensors that it takes for that GPU's are the judge's own on the CPU.
"""

from __future__ import annotations

import re

import pytest
import torch

from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.sealed import cell, gpus, replay
from kernelgauge.speed import measure
from tests.test_speed import SimulatedGpu

try:
    cell.in_force()
    LACKS = ""
except cell.CannotSeal as reason:
    LACKS = str(reason)
pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(bool(LACKS), reason=LACKS),
    pytest.mark.skipif(not settings.interpreted, reason="the interpreter stands in for a GPU"),
]

H200 = {
    "name": "NVIDIA H200", "major": 9, "minor": 0, "multi_processor_count": 132, "warp_size": 32,
    "shared_memory_per_block_optin": 232448, "total_memory": 150110011392,
}  # fmt: skip
FACTS = {
    "current": 0,
    "devices": [H200],
    "driver": [{"max_shared_mem": 232448, "multiprocessor_count": 132}],
    "target": ["cuda", 90, 32],
}

SUBJECT = """
import torch
import triton
import triton.language as tl

SMS = torch.cuda.get_device_properties("cuda").multi_processor_count
SPACE = {}


@triton.jit
def scale(x_ptr, y_ptr, n, by, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * by, mask=offs < n)


@triton.jit
def add(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


@triton.jit
def flags(x_ptr, flag_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.atomic_max(flag_ptr, tl.max((x > 100.0).to(tl.int32)))


def before(named):
    named["y_ptr"].fill_(-1.0)


CONFIGS = [triton.Config({"BLOCK": 16}, pre_hook=before), triton.Config({"BLOCK": 32})]
tuned = triton.autotune(CONFIGS, ["n"])(scale)


def says(x):
    with torch.cuda.device(x.device):
        stream = torch.cuda.current_stream().cuda_stream
    active = triton.runtime.driver.active
    raise ValueError(repr([
        SMS, x.is_cuda, str(x.device), x.get_device(), torch.cuda.is_available(),
        torch.cuda.get_device_capability(x.device), torch.cuda.current_device(), stream,
        torch.cuda.get_device_properties(0).shared_memory_per_block_optin,
        str(torch.empty_like(x).device), str(torch.zeros(2, device="cuda").device),
        x.to("cuda") is x, x.cuda() is x, x.device == torch.empty(1, device="cuda").device,
        active.utils.get_device_properties(active.get_current_device())["max_shared_mem"],
        active.get_current_target().arch, str(active.get_active_torch_device()),
    ]))


def on_a_stream(x):
    with torch.cuda.stream(torch.cuda.Stream()):
        return plain(x)


def plain(x):
    y = torch.empty_like(x)
    scale[triton.cdiv(x.numel(), 16),](x, y, x.numel(), 2.0, BLOCK=16)
    return y


def with_views(x):
    y = torch.empty(x.shape[::-1], device=x.device)
    for row, column in zip(x, y.T):
        scale[1,](row, column, 0, 2.0, BLOCK=16)
    z = torch.zeros(2, x.numel(), device=x.device)
    add[triton.cdiv(x.numel(), 16),](x, z[1], x.numel(), BLOCK=16)
    add[triton.cdiv(x.numel(), 16),](x, z[1], x.numel(), BLOCK=16)
    return z[1].view(x.shape)


def autotuned(x):
    y = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel(), 2.0)
    return y


def in_kept_space(x):
    space = SPACE.setdefault("of", torch.empty_like(x))
    y = torch.empty_like(x)
    scale[triton.cdiv(x.numel(), 16),](x, space, x.numel(), 4.0, BLOCK=16)
    scale[triton.cdiv(x.numel(), 16),](space, y, x.numel(), 0.5, BLOCK=16)
    return y


def reads(x):
    flag = torch.zeros(1, dtype=torch.int32, device=x.device)
    flags[triton.cdiv(x.numel(), 16),](x, flag, x.numel(), BLOCK=16)
    return plain(x) if not flag.item() else x


def in_place(x):
    scale[triton.cdiv(x.numel(), 16),](x, x, x.numel(), 2.0, BLOCK=16)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return plain(x)

    @staticmethod
    def backward(ctx, dout):
        return plain(dout)


def differentiated(x):
    return Twice.apply(x)


def kept_result(x):
    if "result" not in SPACE:
        SPACE["result"] = plain(x)
    return SPACE["result"]
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return a function that loads one of SUBJECT in a cell which is told of an H200."""
    monkeypatch.setattr(settings, "sealed", True)
    monkeypatch.setattr(settings, "subjects", tmp_path)
    monkeypatch.setattr(gpus, "facts", lambda: FACTS)
    monkeypatch.setattr(gpus, "told", lambda device: "cuda:0")
    monkeypatch.setattr(gpus, "meant", lambda device: torch.device("cpu"))
    (tmp_path / "subject.py").write_text(SUBJECT)
    replay.begin()
    yield lambda name: replay.load_subject(tmp_path / "subject.py", name)
    replay.stop()


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape or (3, 21), generator=torch.Generator().manual_seed(seed))


def test_what_a_launcher_sees(load):
    with pytest.raises(ValueError, match="132") as raised:
        load("says")(drawn(0))
    seen = [132, True, "cuda:0", 0, True, (9, 0), 0, 0, H200["shared_memory_per_block_optin"]]
    seen += [
        "cuda:0",
        "cuda:0",
        True,
        True,
        True,
        FACTS["driver"][0]["max_shared_mem"],
        90,
        "cuda:0",
    ]
    assert str(raised.value) == repr(seen)


def test_another_stream_is_refused(load):
    with pytest.raises(Wrong, match="changes the CUDA stream"):
        load("on_a_stream")(drawn(0))


@pytest.mark.parametrize("name", ["plain", "with_views", "autotuned", "in_kept_space", "reads"])
def test_timed_without_a_cell(name, load):
    timed = load(name).timed()
    for seed in range(2):
        assert torch.equal(timed(drawn(seed)), 2 * drawn(seed))
    replay.stop()
    results = {seed: timed(drawn(seed)) for seed in range(2, 5)}
    for seed, result in results.items():
        assert torch.equal(result, 2 * drawn(seed))
    assert len({it.data_ptr() for it in results.values()}) == 3


def test_timed_in_place(load):
    timed = load("in_place").timed()
    for seed in range(4):
        x = drawn(seed)
        assert timed(x) is None
        assert torch.equal(x, 2 * drawn(seed))
        if seed == 1:
            replay.stop()


def test_timed_with_its_backward_pass(load):
    timed = load("differentiated").differentiable().timed()
    for seed in range(4):
        out, dx = timed(drawn(seed), dout=drawn(seed + 10))
        assert torch.equal(out, 2 * drawn(seed))
        assert torch.equal(dx, 2 * drawn(seed + 10))
        if seed == 1:
            replay.stop()


def test_values_that_change_under_the_clock(load):
    timed = load("reads").timed()
    for seed in range(3):
        timed(drawn(seed))
    with pytest.raises(Wrong, match="was 0 and is 1 with other inputs") as raised:
        timed(drawn(3) + 200)
    assert raised.value.fault.kind == "waits-for-gpu"


def test_other_shapes_are_recorded_anew(load):
    timed = load("plain").timed()
    for shape in ((3, 21), (3, 21), (2, 50), (3, 21), (2, 50), (7,)):
        x = drawn(0, *shape)
        assert torch.equal(timed(x), 2 * x)
    # With the first shape the cell is needed no more.
    replay.stop()
    assert torch.equal(timed(drawn(8)), 2 * drawn(8))


def test_nothing_is_kept_of_a_timed_call(load):
    timed = load("in_kept_space").timed()
    session = timed.session
    for seed in range(4):
        timed(drawn(seed))
    held = {number: it[0].data_ptr() for number, it in session.storages.items()}
    timed(drawn(9))
    assert {number: it[0].data_ptr() for number, it in session.storages.items()} == held
    assert len(held) == 1


@pytest.mark.parametrize(("name", "said"), [("plain", ""), ("kept_result", "timed call returned")])
def test_a_race(name, said, load):
    gpu = SimulatedGpu()

    def check(inputs, result):
        if not torch.equal(result, 2 * inputs[0]):
            measure_said = "y is wrong"
            raise Wrong(replay.Fault("mismatch", (replay.note("text", text=measure_said),)))

    timed = load(name).timed()

    def subject(x):
        gpu.work(1.0)
        return timed(x)

    def reference(x):
        gpu.work(2.0)
        return 2 * x

    def race():
        return measure.race(
            subject,
            reference,
            (drawn(0),),
            at_least=1.5,
            check=check,
            timer=gpu,
            clock=gpu.clock,
            read_clocks=lambda: None,
        )

    if said:
        with pytest.raises(Wrong) as raised:
            race()
        assert re.search(said, str(raised.value))
    else:
        assert race().verdict == "passed"
