"""The measured limits of a GPU: the arithmetic, and measuring them on a simulated CUDA."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from kernelgauge.speed import gpu, roofline
from kernelgauge.speed.roofline import Limits, measure
from kernelgauge.words import say
from kernelgauge.words.compiling import format_si
from tests.simulated_limits import H200, MB


def test_json_round_trip():
    assert Limits.from_json(H200.to_json()) == H200
    with pytest.raises((TypeError, ValueError)):
        Limits.from_json('{"name": "NVIDIA H200"}')
    fewer = replace(H200, matmul={"float16": 700e12})
    with pytest.raises(ValueError, match="rates of float16"):
        Limits.from_json(fewer.to_json())


def test_the_bound_is_the_larger_time():
    assert H200.bound(None, None) is None
    assert H200.bound(None, (1e12, "int4")) is None
    memory = H200.bound(428 * MB, (1e9, torch.float16))
    assert (memory.ms, memory.limit) == (pytest.approx(0.1), "copy bandwidth")
    arithmetic = H200.bound(428 * MB, (1e12, "float32"))
    assert (arithmetic.ms, arithmetic.limit) == (pytest.approx(20), "float32 matmul rate")


def test_an_impossible_time_is_explained():
    assert say(H200.impossible(0.021, 268 * MB, None)) == (
        "268 MB in 0.021 ms would be 12.8 TB/s, but this GPU copies at 4.28 TB/s"
    )
    assert say(H200.impossible(0.05, None, (2 * 4096**3, torch.float16))) == (
        "137 GFLOP in 0.05 ms would be 2.75 PFLOP/s, but this GPU multiplies float16 at 700 TFLOP/s"
    )


@pytest.mark.parametrize("part_of_limit", [0.5, 1.0, 1.05])
def test_a_time_near_the_limit_is_possible(part_of_limit):
    ms = 268e6 / (part_of_limit * 4.28e12) * 1e3
    assert H200.impossible(ms, 268 * MB, None) is None
    ms = 1e12 / (1.1 * part_of_limit * 700e12) * 1e3
    assert H200.impossible(ms, None, (1e12, "float16")) is None
    assert H200.impossible(1e-6, None, (1e12, "int4")) is None


def test_written_bytes_may_stay_in_the_l2():
    ms = 100e6 / 4.28e12 * 1e3
    assert H200.impossible(ms, 150 * MB, None, written=50 * MB) is None
    assert H200.impossible(ms, 150 * MB, None, written=0) is not None
    assert H200.impossible(ms, 300 * MB, None, written=200 * MB) is not None


def test_the_faster_of_copy_and_read_counts():
    fast_reader = replace(H200, read=6e12)
    assert H200.impossible(0.2, 10**9, None) is not None
    assert fast_reader.impossible(0.2, 10**9, None) is None
    assert "reads at 6 TB/s" in say(fast_reader.impossible(0.02, 10**9, None))


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
def products(monkeypatch, request):
    """Simulate CUDA in `roofline`. Returns (size, dtype, precision) of each product."""
    products, no_float8 = [], getattr(request, "param", None) == "no float8"

    class Tensor:
        def __init__(self, size, dtype=torch.float32):
            self.size, self.dtype = size, dtype
            self.nbytes = size * 4 if isinstance(size, int) else None

        def to(self, dtype):
            return Tensor(self.size, dtype)

        def mul_(self, factor):
            return self

        T = property(lambda self: self)

        def copy_(self, other):
            Event.now += 2 * self.nbytes * 1e-9

    def total(tensor, dim, out):
        Event.now += tensor.nbytes * 2e-9

    def mm(a, b, out):
        products.append((a.size[0], a.dtype, torch.get_float32_matmul_precision()))
        Event.now += 2 * a.size[0] ** 3 * 1e-15

    def int_mm(a, b):
        assert a.dtype == b.dtype == torch.int8
        mm(a, b, None)

    def scaled_mm(a, b, scale_a, scale_b, out_dtype, use_fast_accum):
        assert a.dtype == b.dtype == torch.float8_e4m3fn
        if no_float8:
            raise RuntimeError("torch._scaled_mm is only supported on newer devices")
        Event.now += a.size[0] ** 3 * 1e-15

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
    names = ("float16", "bfloat16", "float32", "int8", "float8_e4m3fn", "__version__")
    names += ("get_float32_matmul_precision", "set_float32_matmul_precision")
    fake = SimpleNamespace(
        cuda=cuda,
        randn=lambda size, device: Tensor(size),
        ones=lambda size, device: Tensor(size),
        empty=lambda size, device, dtype=None: Tensor(size, dtype),
        empty_like=lambda tensor: tensor,
        sum=total,
        mm=mm,
        _int_mm=int_mm,
        _scaled_mm=scaled_mm,
        **{name: getattr(torch, name) for name in names},
    )
    monkeypatch.setattr(roofline, "torch", fake)
    return products


def test_measuring(products):
    before = torch.get_float32_matmul_precision()
    found = measure()
    assert (found.copy, found.read) == (pytest.approx(1e9), pytest.approx(0.5e9))
    once, twice = pytest.approx(1e15), pytest.approx(2e15)
    assert found.matmul == {
        **dict.fromkeys(("float16", "bfloat16", "float32", "tf32"), once),
        # The simulated torch multiplies int8 no faster than float16. The hardware does.
        **dict.fromkeys(("int8", "float8_e4m3fn"), twice),
    }
    assert Limits.from_json(found.to_json()) == found
    assert (found.name, found.uuid, found.l2_bytes) == ("Simulated", "GPU-7", 1000)
    precisions = {(dtype, precision) for _, dtype, precision in products}
    assert {(torch.float32, "highest"), (torch.float32, "high")} <= precisions
    assert {size for size, _, _ in products} == {4096, 8192}
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("products", ["no float8"], indirect=True)
def test_a_gpu_without_8_bit_floats_has_no_rate_for_them(products):
    found = measure()
    assert found.matmul["float8_e4m3fn"] == 0.0
    assert found.bound(None, (1e12, "float8_e4m3fn")) is None
    assert found.impossible(1e-6, None, (1e12, "float8_e4m3fn")) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="measures a GPU")
def test_a_gpu_multiplies_8_bits_faster_than_16():
    found = measure().matmul
    assert found["int8"] > 1.2 * found["float16"]
    if torch.cuda.get_device_capability() >= (8, 9):
        assert found["float8_e4m3fn"] > 1.2 * found["float16"]


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
