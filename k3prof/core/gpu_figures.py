"""What a GPU's counters say of the time in which a workload was measured: memory, power, energy, link and clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from k3prof.core.device import Device, DeviceKind
from k3prof.core.slowdowns import SLOWDOWNS, slowed_frac
from k3prof.core.timeline import Counter, Series, busy_share, reading

_NS_PER_S = 1e9


@dataclass(frozen=True)
class Stretch:
    """A measured phase and what it got done.

    Attributes:
        begin_ns: Monotonic start.
        end_ns: Monotonic end.
        tokens: Tokens generated, or processed; 0 when not known.
    """

    begin_ns: int
    end_ns: int
    tokens: int


@dataclass(frozen=True)
class GpuFigures:
    """One GPU under one workload. What was not sampled, or not for long enough, is None.

    Attributes:
        device: Its name.
        memory_bytes: The most that programs held.
        power_w: Mean power.
        energy_j_per_token: What it used for each token.
        sent_bytes_per_token: What it sent over PCIe, the link's protocol included; None where bytes are not counted.
        received_bytes_per_token: What it received, likewise.
        sent_bytes_per_s: The rate of that; where bytes are not counted, the mean of glimpses of 20 ms.
        received_bytes_per_s: Likewise.
        sm_mhz: Median clock of its processors.
        slowed_frac: Share of the time in which clocks were held down, for the reason that did so longest.
    """

    device: str
    memory_bytes: float | None
    power_w: float | None
    energy_j_per_token: float | None
    sent_bytes_per_token: float | None
    received_bytes_per_token: float | None
    sent_bytes_per_s: float | None
    received_bytes_per_s: float | None
    sm_mhz: float | None
    slowed_frac: float | None


def gpu_figures(
    devices: Sequence[Device], series: Sequence[Series], stretches: Sequence[Stretch]
) -> tuple[GpuFigures, ...]:
    """Return the figures of each GPU of which anything was sampled, in the order of the devices."""
    found = {(one.device, one.counter): one for one in series}
    sampled = {device for device, _ in found}
    return tuple(
        _figures(device.name, {counter: one for (of, counter), one in found.items() if of == device.name}, stretches)
        for device in devices
        if device.kind is DeviceKind.CUDA and device.name in sampled
    )


def _figures(device: str, of: dict[Counter, Series], stretches: Sequence[Stretch]) -> GpuFigures:
    intervals = [(one.begin_ns, one.end_ns) for one in stretches]
    energy = _growth(of.get(Counter.ENERGY_J), stretches)
    sent, received = (_growth(of.get(one), stretches) for one in (Counter.PCIE_TX_BYTES, Counter.PCIE_RX_BYTES))
    slowed = [slowed_frac(of[counter], intervals) for counter in SLOWDOWNS if counter in of]

    def mean(counter: Counter) -> float | None:
        return reading(of[counter], intervals, np.mean) if counter in of else None

    return GpuFigures(
        device=device,
        memory_bytes=reading(of[Counter.MEMORY_BYTES], intervals, np.max) if Counter.MEMORY_BYTES in of else None,
        power_w=_first(energy.per_s, mean(Counter.POWER_W)),
        energy_j_per_token=energy.per_token,
        sent_bytes_per_token=sent.per_token,
        received_bytes_per_token=received.per_token,
        sent_bytes_per_s=_first(sent.per_s, mean(Counter.PCIE_TX_BYTES_PER_S)),
        received_bytes_per_s=_first(received.per_s, mean(Counter.PCIE_RX_BYTES_PER_S)),
        sm_mhz=reading(of[Counter.SM_MHZ], intervals, np.median) if Counter.SM_MHZ in of else None,
        slowed_frac=max((one for one in slowed if one is not None), default=None),
    )


@dataclass(frozen=True)
class _Growth:
    """How much a cumulative counter grew."""

    per_s: float | None = None
    per_token: float | None = None


def _growth(series: Series | None, stretches: Sequence[Stretch]) -> _Growth:
    """Return how a cumulative counter grew in the stretches that are long enough for its period."""
    if series is None:
        return _Growth()
    long_enough = [one for one in stretches if one.end_ns - one.begin_ns >= series.period_ns]
    rates = [(busy_share(series, one.begin_ns, one.end_ns), one) for one in long_enough]
    observed = [(per_ns * (one.end_ns - one.begin_ns), one) for per_ns, one in rates if per_ns is not None]
    if not observed:
        return _Growth()
    total = sum(growth for growth, _ in observed)
    tokens = [one.tokens for _, one in observed]
    return _Growth(
        per_s=total / sum(one.end_ns - one.begin_ns for _, one in observed) * _NS_PER_S,
        per_token=total / sum(tokens) if all(tokens) else None,
    )


def _first(*figures: float | None) -> float | None:
    return next((one for one in figures if one is not None), None)
