"""The measured limits of a GPU: the arithmetic, and measuring them on a simulated CUDA."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from judge.speed import gpu, roofline
from judge.speed.roofline import Limits, format_si, measure
from tests.simulated_limits import H200, MB


def test_json_round_trip():
    assert Limits.from_json(H200.to_json()) == H200
    with pytest.raises((TypeError, ValueError)):
        Limits.from_json('{"name": "NVIDIA H200"}')


def test_the_bound_is_the_larger_time():
    assert H200.bound(None, None) is None
    assert H200.bound(None, (1e12, "int8")) is None
    memory = H200.bound(428 * MB, (1e9, torch.float16))
    assert (memory.ms, memory.limit) == (pytest.approx(0.1), "copy bandwidth")
    arithmetic = H200.bound(428 * MB, (1e12, "float32"))
    assert (arithmetic.ms, arithmetic.limit) == (pytest.approx(20), "float32 matmul rate")


def test_an_impossible_time_is_explained():
    assert H200.impossible(0.021, 268 * MB, None) == (
        "268 MB in 0.021 ms would be 12.8 TB/s, but this GPU copies at 4.28 TB/s"
    )
    assert H200.impossible(0.05, None, (2 * 4096**3, torch.float16)) == (
        "137 GFLOP in 0.05 ms would be 2.75 PFLOP/s, but this GPU multiplies float16 at 700 TFLOP/s"
    )


@pytest.mark.parametrize("part_of_limit", [0.5, 1.0, 1.05])
def test_a_time_near_the_limit_is_possible(part_of_limit):
    ms = 268e6 / (part_of_limit * 4.28e12) * 1e3
    assert H200.impossible(ms, 268 * MB, None) is None
    ms = 1e12 / (1.1 * part_of_limit * 700e12) * 1e3
    assert H200.impossible(ms, None, (1e12, "float16")) is None
    assert H200.impossible(1e-6, None, (1e12, "int8")) is None


def test_written_bytes_may_stay_in_the_l2():
    ms = 100e6 / 4.28e12 * 1e3
    assert H200.impossible(ms, 150 * MB, None, written=50 * MB) is None
    assert H200.impossible(ms, 150 * MB, None, written=0) is not None
    assert H200.impossible(ms, 300 * MB, None, written=200 * MB) is not None


def test_the_faster_of_copy_and_read_counts():
    fast_reader = replace(H200, read=6e12)
    assert H200.impossible(0.2, 10**9, None) is not None
    assert fast_reader.impossible(0.2, 10**9, None) is None
    assert "reads at 6 TB/s" in fast_reader.impossible(0.02, 10**9, None)


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0, "0 B"),
        (5, "5 B"),
        (999.6, "1 kB"),
        (268e6, "268 MB"),
        (4.28e12, "4.28 TB"),
        (999.9e9, "1 TB"),
        (2.5e18, "2500 PB"),
    ],
)
def test_amounts_have_three_digits(amount, words):
    assert format_si(amount, "B") == words


class Event:
    """Events on a GPU that takes 1 ns per byte copied, 2 ns per byte summed, 1 fs per operation."""

    now = 0.0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = Event.now

    def elapsed_time(self, later):
        return (later.at - self.at) * 1e3


@pytest.fixture
def products(monkeypatch):
    """Simulate CUDA in judge.speed.roofline. Returns (size, dtype, precision) of each product."""
    products = []

    class Tensor:
        def __init__(self, size, dtype=torch.float32):
            self.size, self.dtype = size, dtype
            self.nbytes = size * 4 if isinstance(size, int) else None

        def to(self, dtype):
            return Tensor(self.size, dtype)

        def copy_(self, other):
            Event.now += 2 * self.nbytes * 1e-9

    def total(tensor, dim, out):
        Event.now += tensor.nbytes * 2e-9

    def mm(a, b, out):
        products.append((a.size[0], a.dtype, torch.get_float32_matmul_precision()))
        Event.now += 2 * a.size[0] ** 3 * 1e-15

    properties = SimpleNamespace(
        name="Simulated", uuid="GPU-7", multi_processor_count=4, L2_cache_size=1000
    )
    cuda = SimpleNamespace(
        Event=Event,
        synchronize=lambda: None,
        empty_cache=lambda: None,
        mem_get_info=lambda: (4_000_000, 8_000_000),
        get_device_properties=lambda device: properties,
    )
    names = ("float16", "bfloat16", "float32", "__version__")
    names += ("get_float32_matmul_precision", "set_float32_matmul_precision")
    fake = SimpleNamespace(
        cuda=cuda,
        randn=lambda size, device: Tensor(size),
        empty=lambda size, device, dtype=None: Tensor(size, dtype),
        empty_like=lambda tensor: tensor,
        sum=total,
        mm=mm,
        **{name: getattr(torch, name) for name in names},
    )
    monkeypatch.setattr(roofline, "torch", fake)
    return products


def test_measuring(products):
    before = torch.get_float32_matmul_precision()
    found = measure()
    assert (found.copy, found.read) == (pytest.approx(1e9), pytest.approx(0.5e9))
    assert found.matmul == {
        dtype: pytest.approx(1e15) for dtype in ("float16", "bfloat16", "float32", "tf32")
    }
    assert (found.name, found.uuid, found.l2_bytes) == ("Simulated", "GPU-7", 1000)
    precisions = {(dtype, precision) for _, dtype, precision in products}
    assert {(torch.float32, "highest"), (torch.float32, "high")} <= precisions
    assert {size for size, _, _ in products} == {4096, 8192}
    assert torch.get_float32_matmul_precision() == before


def test_a_slow_gpu_skips_the_large_product(products, monkeypatch):
    monkeypatch.setattr(roofline, "MAX_PRODUCT_MS", 0.1)
    measure()
    assert {size for size, _, _ in products} == {4096}


@pytest.mark.usefixtures("products")
def test_limits_are_kept_by_gpu_and_version():
    assert roofline.key() == f"Simulated GPU-7 torch {torch.__version__}"


def test_limits_kept_by_another_version_are_measured_anew(monkeypatch):
    kept = {}
    cache = SimpleNamespace(get=lambda name, default: '{"old": 1}', set=kept.__setitem__)
    monkeypatch.setattr(roofline, "key", lambda: "a GPU")
    monkeypatch.setattr(roofline, "measure", lambda: H200)
    monkeypatch.setattr(gpu, "_cache", cache)
    monkeypatch.setattr(gpu, "_limits", None)
    assert gpu.measured_limits() is H200
    assert kept == {"kata/limits/a-GPU": H200.to_json()}
