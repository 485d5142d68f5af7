"""A GPU's counters that are polled: memory, power, energy, clocks, slowdowns and the PCIe link.

They are read in lanes by what a call costs (measured elsewhere on driver 610): clocks, link, memory and instant power
take microseconds; energy, mean power and the numbered fields 0.2 to 3 ms; a throughput of PCIe 20 ms, which is the
interval that it counts over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pynvml

from k3prof.collectors.nvml_library import Handle, Reader, WatchedGpu, field
from k3prof.collectors.source import Channel, Schedule
from k3prof.core.timeline import Counter

MEAN_POWER_WINDOW_NS = 1_000_000_000
INSTANT_POWER_PERIOD_NS = 100_000_000
PCIE_WINDOW_NS = 20_000_000

_MILLI = 0.001
_BYTES_PER_KB = 1000
"""The driver's documentation says KB; should it mean 1,024, throughputs are 2.4 % higher."""

_RENUMBERED_SINCE = (580, 82)

MemoryFigures = Any
"""pynvml's structure."""


@dataclass(frozen=True)
class Polled:
    """How to read one counter.

    Attributes:
        readers: Ways to read it, the best first.
        period_ns: The window it averages over, or how often the driver renews it; None where it is of the moment.
    """

    readers: tuple[Reader, ...]
    period_ns: int | None = None


class GpuCounters:
    """Counters of one GPU that are read together.

    Those that the GPU does not offer, or does not let us read, are told once and left out; one that fails later is
    unknown for as long as it fails.
    """

    def __init__(self, gpu: WatchedGpu, counters: Mapping[Counter, Polled], interval_ns: int) -> None:
        self._gpu = gpu
        self._readers: list[Reader] = []
        channels: list[Channel] = []
        for counter, polled in counters.items():
            if (reader := gpu.first_offered(counter, polled.readers)) is not None:
                self._readers.append(reader)
                channels.append(Channel(gpu.name, counter, polled.period_ns or interval_ns))
        self.channels = tuple(channels)
        self.schedule = Schedule(interval_ns)

    def read(self) -> Sequence[float | None]:
        """Return the current value of every counter that the GPU offers."""
        return [self._gpu.ask(reader) for reader in self._readers]


def quick_counters() -> dict[Counter, Polled]:
    """Return the counters whose reading takes microseconds."""
    return {
        Counter.POWER_INSTANT_W: Polled(
            (field(pynvml.NVML_FI_DEV_POWER_INSTANT, scale=_MILLI),), INSTANT_POWER_PERIOD_NS
        ),
        Counter.MEMORY_BYTES: Polled((_used_bytes, _used_and_reserved_bytes)),
        Counter.MEMORY_RESERVED_BYTES: Polled((_reserved_bytes,)),
        Counter.SM_MHZ: Polled((_clock(pynvml.NVML_CLOCK_SM),)),
        Counter.MEMORY_MHZ: Polled((_clock(pynvml.NVML_CLOCK_MEM),)),
        Counter.P_STATE: Polled((_p_state,)),
        Counter.PCIE_GENERATION: Polled((pynvml.nvmlDeviceGetCurrPcieLinkGeneration,)),
        Counter.PCIE_WIDTH: Polled((pynvml.nvmlDeviceGetCurrPcieLinkWidth,)),
    }


def slow_counters(driver: str) -> dict[Counter, Polled]:
    """Return the counters whose reading takes up to some milliseconds.

    Power that is a mean by definition is preferred; the older call is a mean over 1 s since Ampere, except on GA100.

    Args:
        driver: The driver's version: `550.54.15`.
    """
    slowdowns = {
        Counter.POWER_CAPPED_NS: pynvml.NVML_FI_DEV_PERF_POLICY_POWER,
        **dict(zip(_THERMAL_AND_BRAKE, slowdown_fields(driver), strict=True)),
    }
    return {
        Counter.POWER_W: Polled(
            (field(pynvml.NVML_FI_DEV_POWER_AVERAGE, scale=_MILLI), _power_w), MEAN_POWER_WINDOW_NS
        ),
        Counter.ENERGY_J: Polled((_energy_j,)),
        **{counter: Polled((field(number),)) for counter, number in slowdowns.items()},
    }


_THERMAL_AND_BRAKE = (Counter.THERMAL_SLOWDOWN_NS, Counter.HARDWARE_THERMAL_SLOWDOWN_NS, Counter.POWER_BRAKE_NS)


def slowdown_fields(driver: str) -> tuple[int, int, int]:
    """Return the numbers of the fields that count thermal, hardware thermal and power brake slowdown, in ns.

    Fields 251 to 273 have changed their numbers with driver 580 TRD2 (580.82): NVML API reference, known issues.
    The number of one is that of another quantity in older drivers, so it is not enough to see which one answers.
    """
    version = tuple(int(part) for part in driver.split(".")[:2] if part.isdecimal())
    return (269, 270, 271) if version >= _RENUMBERED_SINCE else (251, 252, 253)


def pcie_totals() -> dict[Counter, Polled]:
    """Return the cumulative PCIe counters, exact where the GPU has them (some 8 to 10 % are the link's protocol).

    Ones of 32 bits start over several times a second at PCIe's speeds, and are left alone.
    """
    return {
        Counter.PCIE_TX_BYTES: Polled((rising(field(pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, wide_only=True)),)),
        Counter.PCIE_RX_BYTES: Polled((rising(field(pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, wide_only=True)),)),
    }


def pcie_throughputs() -> dict[Counter, Polled]:
    """Return the PCIe counters of older GPUs: what passed in the 20 ms that each call takes."""
    return {
        Counter.PCIE_TX_BYTES_PER_S: Polled((_throughput(pynvml.NVML_PCIE_UTIL_TX_BYTES),), PCIE_WINDOW_NS),
        Counter.PCIE_RX_BYTES_PER_S: Polled((_throughput(pynvml.NVML_PCIE_UTIL_RX_BYTES),), PCIE_WINDOW_NS),
    }


def rising(read: Reader) -> Reader:
    """Return a reader of a cumulative counter that is unknown once it has fallen: it then counts from elsewhere."""
    last: float | None = 0.0

    def read_rising(handle: Handle) -> float | None:
        nonlocal last
        value = read(handle)
        if value is not None and last is not None:
            last = value if value >= last else None
        return last if value is not None else None

    return read_rising


def _used_bytes(handle: Handle) -> float | None:
    return _used(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2))


def _used_and_reserved_bytes(handle: Handle) -> float | None:
    return _used(pynvml.nvmlDeviceGetMemoryInfo(handle))


def _used(memory: MemoryFigures) -> float | None:
    return float(memory.used) if memory.used <= memory.total else None


def _reserved_bytes(handle: Handle) -> float | None:
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    return float(memory.reserved) if memory.reserved <= memory.total else None


def _power_w(handle: Handle) -> float:
    return float(pynvml.nvmlDeviceGetPowerUsage(handle)) * _MILLI


def _energy_j(handle: Handle) -> float:
    return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) * _MILLI


def _p_state(handle: Handle) -> float | None:
    state = pynvml.nvmlDeviceGetPerformanceState(handle)
    return float(state) if state <= pynvml.NVML_PSTATE_15 else None


def _clock(kind: int) -> Reader:
    return lambda handle: float(pynvml.nvmlDeviceGetClockInfo(handle, kind))


def _throughput(direction: int) -> Callable[[Handle], float]:
    return lambda handle: float(pynvml.nvmlDeviceGetPcieThroughput(handle, direction)) * _BYTES_PER_KB
