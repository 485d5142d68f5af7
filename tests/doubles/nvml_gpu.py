"""GPUs that follow a script, for the doubles of NVIDIA's management library."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import pynvml

A40_BYTES = 46068 << 20
DRIVER_VERSION = "550.54.15"
RECORD_ENTRIES = 72

POWER_CAP, MEAN_POWER, INSTANT_POWER, SENT, RECEIVED = 74, 185, 186, 197, 198
THERMAL, HARDWARE_THERMAL, POWER_BRAKE = 251, 252, 253
"""Numbers of fields, as driver 550 has them."""

BusySeconds = Callable[[float], float]
"""How long a GPU had been busy since time 0, at a time in seconds."""


def idle(_at_s: float) -> float:
    """Never busy."""
    return 0.0


def square_wave(period_s: float, on_s: float, offset_s: float = 0.0) -> BusySeconds:
    """Busy for `on_s` of every `period_s`, beginning at `offset_s`."""

    def busy_seconds(at_s: float) -> float:
        cycles, rest_s = divmod(at_s - offset_s, period_s)
        return cycles * on_s + min(rest_s, on_s)

    return busy_seconds


def replayed(spans: Sequence[tuple[float, float]]) -> BusySeconds:
    """Busy in each of these spans, which begin one after another and do not overlap."""
    begins = [begin for begin, _ in spans]
    sums = list(accumulate((end - begin for begin, end in spans), initial=0.0))

    def busy_seconds(at_s: float) -> float:
        begun = bisect_right(begins, at_s)
        return sums[begun] - max(spans[begun - 1][1] - at_s, 0.0) if begun else 0.0

    return busy_seconds


@dataclass(frozen=True)
class Record:
    """How a driver keeps its record of utilisation.

    Attributes:
        epoch_s: The library's time at the zero of the record's clock, negated: what is added to date an entry.
        from_s: Nothing is recorded before.
        until_s: Nothing is recorded after.
        stray: Entries that are there as well, whatever happens: µs and percents.
        room: How many entries the driver claims to have when it is asked for the size.
    """

    epoch_s: float = 0.0
    from_s: float = 0.0
    until_s: float = math.inf
    stray: Sequence[tuple[int, int]] = ()
    room: int = 120


@dataclass(frozen=True)
class FakeError:
    """An error that the driver reports.

    Attributes:
        at_s: When.
        kind: Which kind of event.
        number: The Xid.
    """

    at_s: float
    kind: int
    number: int = 0


Field = tuple[int, Callable[[float], float]]
"""Type and value, by time, of a numbered field."""


def fields_of_an_a40() -> dict[int, Field]:
    """Return the numbered fields of a GPU at rest, whose driver keeps the order of 550."""
    wide, narrow = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
    return {
        **{number: (wide, lambda _: 0) for number in (POWER_CAP, THERMAL, HARDWARE_THERMAL, POWER_BRAKE)},
        **{number: (wide, lambda _: 0) for number in (SENT, RECEIVED)},
        **{number: (narrow, lambda _: 70_000) for number in (MEAN_POWER, INSTANT_POWER)},
    }


@dataclass(frozen=True)
class Fault:
    """An error code in place of an answer.

    Attributes:
        code: What the call returns.
        symbol: The call that fails; all calls about the GPU when empty.
        from_s: When it begins.
        until_s: When it is over.
    """

    code: int
    symbol: str = ""
    from_s: float = 0.0
    until_s: float = math.inf


@dataclass
class FakeGpu:
    """One GPU that follows a script.

    Attributes:
        uuid: NVIDIA's identifier.
        bus: PCI bus number; domain and device are 0.
        name: Product name.
        memory_bytes: Its memory.
        used_bytes: What programs use of it.
        reserved_bytes: What the driver keeps, which only the second version of the call tells apart.
        busy: When it works.
        memory_busy: When its memory is read or written.
        window_s: What its utilisation averages over.
        record: How the driver records that.
        encoder_period_us: Period of the encoder's utilisation.
        power_mw: Power, by the call that has no number.
        energy_mj: Energy, by time.
        fields: The numbered fields it has.
        pcie_kb_per_s: What it sends and receives.
        p_state: Performance state.
        errors: What the driver reports of it.
        percent: Utilisation to report whatever `busy` says; for garbage.
        persistent: Whether persistence mode is on.
        ecc: Whether error correction is on.
        mig: Whether it is divided into slices.
        bus_bits: Width of its memory's bus.
        sm_mhz: Clock of its processors, and the highest.
        memory_mhz: Clock of its memory.
        clock_reasons: Bits that say what keeps the clocks down.
        link: PCIe generation and width now, then the best of each.
        processes: pid and bytes of each program that computes on it; None where the driver does not tell.
        drawing: The same, of each program that draws.
        faults: Calls that fail.
    """

    uuid: str
    bus: int
    name: str = "NVIDIA A40"
    memory_bytes: int = A40_BYTES
    used_bytes: int = 0
    reserved_bytes: int = 600 << 20
    busy: BusySeconds = idle
    memory_busy: BusySeconds = idle
    window_s: float = 1 / 6
    record: Record = field(default_factory=Record)
    encoder_period_us: int = 0
    power_mw: int = 70_000
    energy_mj: Callable[[float], float] = lambda at_s: 70_000 * at_s
    fields: dict[int, Field] = field(default_factory=fields_of_an_a40)
    pcie_kb_per_s: tuple[int, int] = (0, 0)
    p_state: int = 0
    errors: Sequence[FakeError] = ()
    percent: int | None = None
    persistent: bool = True
    ecc: bool = False
    mig: bool = False
    bus_bits: int = 384
    sm_mhz: tuple[int, int] = (1740, 1740)
    memory_mhz: int = 7251
    clock_reasons: int = 0
    link: tuple[int, int, int, int] = (4, 16, 4, 16)
    processes: Sequence[tuple[int, int | None]] = ()
    drawing: Sequence[tuple[int, int | None]] = ()
    faults: Sequence[Fault] = field(default_factory=list)

    def utilisation(self, at_s: float) -> int:
        """Return the whole percents of the last full window."""
        return self._percent(self.busy, math.floor(at_s / self.window_s))

    def memory_utilisation(self, at_s: float) -> int:
        """The same of its memory."""
        return self._percent(self.memory_busy, math.floor(at_s / self.window_s))

    def recorded(self, kind: int, at_s: float) -> list[tuple[int, int]]:
        """Return what the driver has recorded of a kind of utilisation by a time: µs and percents."""
        busy = self.busy if kind == pynvml.NVML_GPU_UTILIZATION_SAMPLES else self.memory_busy
        newest = math.floor(min(at_s, self.record.until_s) / self.window_s)
        windows = range(max(newest - RECORD_ENTRIES + 1, 1, math.ceil(self.record.from_s / self.window_s)), newest + 1)
        dated = {number: round((number * self.window_s + self.record.epoch_s) * 1e6) for number in windows}
        return [*self.record.stray, *((at_us, self._percent(busy, number)) for number, at_us in dated.items())]

    def _percent(self, busy: BusySeconds, window: int) -> int:
        if self.percent is not None:
            return self.percent
        begin_s, end_s = (window - 1) * self.window_s, window * self.window_s
        return math.floor(100 * (busy(end_s) - busy(begin_s)) / self.window_s + 1e-9)
