from __future__ import annotations

import pynvml
import pytest

from k3prof.collectors.nvml_counters import (
    GpuCounters,
    pcie_throughputs,
    pcie_totals,
    quick_counters,
    rising,
    slow_counters,
    slowdown_fields,
)
from k3prof.collectors.nvml_library import WatchedGpu
from k3prof.core.events import DeviceEvent
from k3prof.core.timeline import Counter
from tests.doubles.clocks import StandingClock
from tests.doubles.nvml import FakeNvml, installed
from tests.doubles.nvml_gpu import (
    A40_BYTES,
    DRIVER_VERSION,
    HARDWARE_THERMAL,
    INSTANT_POWER,
    MEAN_POWER,
    POWER_BRAKE,
    POWER_CAP,
    SENT,
    THERMAL,
    FakeGpu,
    Fault,
)

UUID = "GPU-11111111-aaaa"
WIDE, NARROW = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
MEMORY_V2 = "nvmlDeviceGetMemoryInfo_v2"


class Reading:
    """A GPU's counters, opened once and read when asked."""

    def __init__(self, counters, gpu: FakeGpu) -> None:
        self.events: list[DeviceEvent] = []
        self.source = GpuCounters(WatchedGpu("CUDA0", gpu.uuid, self.events.append), counters, 10**9)

    def now(self) -> dict[Counter, float | None]:
        return dict(zip((channel.counter for channel in self.source.channels), self.source.read(), strict=True))


def read(counters, gpu: FakeGpu, **library) -> dict[Counter, float | None]:
    with installed(FakeNvml([gpu], **library)):
        return Reading(counters, gpu).now()


def test_what_the_driver_keeps_for_itself_is_told_apart_from_what_programs_hold():
    found = read(quick_counters(), FakeGpu(UUID, 1, used_bytes=40 << 30, reserved_bytes=600 << 20))
    assert found[Counter.MEMORY_BYTES] == 40 << 30
    assert found[Counter.MEMORY_RESERVED_BYTES] == 600 << 20


@pytest.mark.parametrize("old", [{"missing": [MEMORY_V2]}, {}], ids=["no function", "no version"])
def test_an_old_driver_counts_both_together_and_the_reserved_part_is_unknown(old):
    gpu = FakeGpu(UUID, 1, used_bytes=5 << 30, reserved_bytes=1 << 30)
    if not old:
        gpu.faults = [Fault(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, MEMORY_V2)]
    found = read(quick_counters(), gpu, **old)
    assert found[Counter.MEMORY_BYTES] == 6 << 30
    assert Counter.MEMORY_RESERVED_BYTES not in found


def test_memory_beyond_what_the_gpu_has_is_unknown():
    assert read(quick_counters(), FakeGpu(UUID, 1, used_bytes=A40_BYTES + 1))[Counter.MEMORY_BYTES] is None


def test_instant_power_and_mean_power_are_kept_apart():
    gpu = FakeGpu(UUID, 1, power_mw=1)
    gpu.fields[INSTANT_POWER] = (NARROW, lambda _: 299_500)
    gpu.fields[MEAN_POWER] = (NARROW, lambda _: 123_456)
    assert read(quick_counters(), gpu)[Counter.POWER_INSTANT_W] == pytest.approx(299.5)
    assert read(slow_counters(DRIVER_VERSION), gpu)[Counter.POWER_W] == pytest.approx(123.456)


def test_a_driver_without_the_field_of_mean_power_is_asked_with_the_older_call():
    gpu = FakeGpu(UUID, 1, power_mw=222_000)
    del gpu.fields[MEAN_POWER]
    assert read(slow_counters(DRIVER_VERSION), gpu)[Counter.POWER_W] == pytest.approx(222)


def test_periods_are_those_of_the_counters_not_of_the_reading():
    with installed(FakeNvml([FakeGpu(UUID, 1)])):
        counters = quick_counters() | slow_counters(DRIVER_VERSION) | pcie_throughputs()
        channels = Reading(counters, FakeGpu(UUID, 1)).source.channels
    periods_ms = {channel.counter: channel.period_ns / 1e6 for channel in channels}
    assert periods_ms[Counter.POWER_W] == 1000
    assert periods_ms[Counter.POWER_INSTANT_W] == 100
    assert periods_ms[Counter.PCIE_TX_BYTES_PER_S] == 20
    assert periods_ms[Counter.SM_MHZ] == 1000


def test_energy_is_what_the_gpu_has_counted_between_two_readings():
    gpu, clock = FakeGpu(UUID, 1, energy_mj=lambda at_s: 10**12 + 300_000 * at_s), StandingClock()
    with installed(FakeNvml([gpu], clock=clock)):
        reading = Reading(slow_counters(DRIVER_VERSION), gpu)
        before = reading.now()[Counter.ENERGY_J]
        clock.now_s += 10
        after = reading.now()[Counter.ENERGY_J]
    assert after - before == pytest.approx(3000)


def test_clocks_link_and_performance_state_are_those_of_the_moment():
    gpu = FakeGpu(UUID, 1, sm_mhz=(210, 1740), memory_mhz=405, p_state=8, link=(1, 8, 4, 16))
    with installed(FakeNvml([gpu])):
        reading = Reading(quick_counters(), gpu)
        idle = reading.now()
        gpu.sm_mhz, gpu.memory_mhz, gpu.p_state, gpu.link = (1740, 1740), 7251, 0, (4, 16, 4, 16)
        at_work = reading.now()
    of = (Counter.SM_MHZ, Counter.MEMORY_MHZ, Counter.P_STATE, Counter.PCIE_GENERATION, Counter.PCIE_WIDTH)
    assert [idle[counter] for counter in of] == [210, 405, 8, 1, 8]
    assert [at_work[counter] for counter in of] == [1740, 7251, 0, 4, 16]


def test_an_unknown_performance_state_is_unknown():
    assert read(quick_counters(), FakeGpu(UUID, 1, p_state=pynvml.NVML_PSTATE_UNKNOWN))[Counter.P_STATE] is None


def test_slowdowns_are_counted_in_nanoseconds_by_their_cause():
    gpu = FakeGpu(UUID, 1)
    for place, number in enumerate((POWER_CAP, THERMAL, HARDWARE_THERMAL, POWER_BRAKE), start=1):
        gpu.fields[number] = (WIDE, lambda _, place=place: place * 10**9)
    found = read(slow_counters(DRIVER_VERSION), gpu)
    assert found[Counter.POWER_CAPPED_NS] == 1e9
    assert found[Counter.THERMAL_SLOWDOWN_NS] == 2e9
    assert found[Counter.HARDWARE_THERMAL_SLOWDOWN_NS] == 3e9
    assert found[Counter.POWER_BRAKE_NS] == 4e9


@pytest.mark.parametrize(
    ("driver", "first"),
    [("535.104.05", 251), ("580.65.06", 251), ("580.82.07", 269), ("580.100", 269), ("610.57.04", 269), ("", 251)],
)
def test_slowdown_fields_have_the_numbers_that_the_driver_gives_them(driver, first):
    """Driver 580.82 gave 251 to 253, until then slowdowns, to power smoothing: a 1 there is a switch, not a time."""
    assert slowdown_fields(driver) == (first, first + 1, first + 2)


def test_pcie_bytes_are_counted_not_glimpsed_where_the_gpu_counts_them():
    gpu, clock = FakeGpu(UUID, 1), StandingClock()
    gpu.fields[SENT] = (WIDE, lambda at_s: 2**45 + 12_500_000_000 * at_s)
    with installed(FakeNvml([gpu], clock=clock)) as library:
        reading = Reading(pcie_totals(), gpu)
        before = reading.now()[Counter.PCIE_TX_BYTES]
        clock.now_s += 4
        assert reading.now()[Counter.PCIE_TX_BYTES] - before == pytest.approx(50e9)
        assert "nvmlDeviceGetPcieThroughput" not in library.calls


def test_pcie_bytes_in_32_bits_are_left_alone():
    gpu = FakeGpu(UUID, 1)
    gpu.fields[SENT] = (NARROW, lambda _: 5)
    assert Counter.PCIE_TX_BYTES not in read(pcie_totals(), gpu)


def test_a_counter_that_has_started_over_is_unknown_from_then_on():
    values = iter([5.0, 7.0, None, 7.0, 2.0, 9.0])
    read_next = rising(lambda _: next(values))
    assert [read_next(None) for _ in range(6)] == [5.0, 7.0, None, 7.0, None, None]


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION])
def test_a_counter_that_a_gpu_does_not_offer_is_absent_and_told_and_the_others_go_on(code):
    gpu = FakeGpu(UUID, 1, faults=[Fault(code, "nvmlDeviceGetTotalEnergyConsumption")])
    with installed(FakeNvml([gpu])):
        reading = Reading(slow_counters(DRIVER_VERSION), gpu)
        found = reading.now()
        reading.now()
    assert Counter.ENERGY_J not in found
    assert len(found) == 5
    assert None not in found.values()
    assert [event.detail.partition(" (")[0] for event in reading.events] == ["energy_j"]
