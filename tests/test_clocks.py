"""The clock beside the times: what the driver says, and silence where it says nothing."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from kernelgauge.speed import clocks
from kernelgauge.speed.clocks import Clocks
from kernelgauge.words import say


@pytest.fixture
def nvml(monkeypatch):
    """A driver's library whose readings are its attributes `mhz` and `bits`."""
    library = SimpleNamespace(mhz=1755, bits=0, NVML_CLOCK_SM=1, asked=[])
    library.nvmlInit = lambda: None
    library.nvmlDeviceGetHandleByUUID = lambda uuid: library.asked.append(uuid) or "handle"
    library.nvmlDeviceGetClockInfo = lambda handle, kind: library.mhz
    library.nvmlDeviceGetMaxClockInfo = lambda handle, kind: library.asked.append(handle) or 1980
    library.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: library.bits
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="12-34")
    )
    clocks._device.cache_clear()
    yield library
    clocks._device.cache_clear()


def test_the_clock_of_this_gpu_and_what_holds_it_back(nvml):
    assert clocks.read() == Clocks(1755, 1755, 1980)
    nvml.mhz, nvml.bits = 1500, 0x01 | 0x04 | 0x40
    assert clocks.read() == Clocks(
        1500, 1500, 1980, ("power limit", "temperature limit of hardware")
    )
    # The handle and the highest clock, which take long, once.
    assert nvml.asked == ["GPU-12-34", "handle"]


def test_an_idle_gpu_and_a_chosen_clock_are_not_held_back(nvml):
    nvml.bits = 0x01 | 0x02
    assert clocks.read().held_back == ()


def test_nothing_is_known_without_the_library(nvml, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert clocks.read() is None


def test_nothing_is_known_where_the_driver_does_not_answer(nvml):
    def refuses(*_):
        raise RuntimeError("Not Supported")

    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = refuses
    assert clocks.read() is None


def test_nothing_is_known_without_a_gpu(nvml, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert clocks.read() is None


def test_readings_join_to_their_range_and_all_reasons():
    power, heat = ("power limit",), ("temperature limit of software",)
    readings = [Clocks(1900, 1900, 1980), None, Clocks(1600, 1600, 1980, power)]
    assert clocks.joined(readings) == Clocks(1600, 1900, 1980, power)
    readings.append(Clocks(1700, 1700, 1980, (*power, *heat)))
    assert clocks.joined(readings).held_back == (*power, *heat)
    assert clocks.joined([None, None]) is None


def test_what_is_said_of_it():
    assert say(Clocks(1600, 1900, 1980, ("power limit",)).note()) == (
        "between the calls the GPU's clock was at 1600 to 1900 of 1980 MHz, held back by its power "
        "limit"
    )
    assert say(Clocks(1975, 1980, 1980).note()) == (
        "between the calls the GPU's clock was at 1975 to 1980 of 1980 MHz, and nothing held it "
        "back"
    )
