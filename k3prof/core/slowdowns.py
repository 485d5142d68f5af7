"""What held devices back while they were measured: limits of power and heat, slow links, the cgroup's quota."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from k3prof.core.device import Device, DeviceKind
from k3prof.core.timeline import BUSY_COUNTERS, Counter, Phase, PhaseKind, Series, mean_share, reading
from k3prof.core.trial import Caveat

Intervals = Mapping[PhaseKind, Sequence[tuple[int, int]]]
"""When devices were measured, by what they did then."""


@dataclass(frozen=True)
class Slowdown:
    """A reason for which clocks are held down, or threads kept waiting, as a counter of its time tells it.

    Attributes:
        code: Of the caveat.
        what: What happened, for "CUDA1: … for 34 % of decode".
        least_frac: Shares of the time below this are not worth a word.
        remedy: What to do about it.
    """

    code: str
    what: str
    least_frac: float
    remedy: str


_GENTLE_FRAC = 0.05
"""The driver lowers clocks in small steps against power and heat: in a twentieth of the time even a quarter less clock
makes 1.3 % of the figure, which repetitions differ by anyway."""

_HARD_FRAC = 0.01
"""The hardware halves the clock, or worse (NVML: HW Slowdown), and a quota stops threads altogether: each percent of
the time is about a percent of the figure."""

SLOWDOWNS = {
    Counter.POWER_CAPPED_NS: Slowdown(
        "power-capped",
        "the power limit held the clocks down",
        _GENTLE_FRAC,
        "compare only placements that are capped alike; raise the limit where the machine is yours: sudo nvidia-smi "
        "-pl WATTS",
    ),
    Counter.THERMAL_SLOWDOWN_NS: Slowdown(
        "gpu-hot",
        "the driver held the clocks down against heat",
        _GENTLE_FRAC,
        "better cooling, or a lower power limit, which holds the clock steady; see nvidia-smi -q -d TEMPERATURE",
    ),
    Counter.HARDWARE_THERMAL_SLOWDOWN_NS: Slowdown(
        "gpu-hot-hardware",
        "the hardware held the clocks down against heat",
        _HARD_FRAC,
        "look at its fans and airflow before anything else, or rent another machine; these figures are not the GPU's",
    ),
    Counter.POWER_BRAKE_NS: Slowdown(
        "power-brake",
        "the power supply held the clocks down",
        _HARD_FRAC,
        "the machine's power supply does not suffice: fewer GPUs at work, a lower power limit, or another machine",
    ),
    Counter.THROTTLED_NS: Slowdown(
        "cpu-quota",
        "the processor quota kept threads waiting (summed over processors)",
        _HARD_FRAC,
        "fewer threads than the quota has cores (--threads), or a larger quota: docker run --cpus",
    ),
}

_AWAKE_FRAC = 0.02
"""Devices that do less sleep between whiles, and an idle link or clock is slow to save power."""
_LOWEST_P_STATE = 2
"""P2 is what CUDA gives to GPUs for the desk; below it clocks are those of rest."""


def measured_intervals(phases: Sequence[Phase]) -> Intervals:
    """Return when prefill and decode were measured."""
    found: dict[PhaseKind, list[tuple[int, int]]] = defaultdict(list)
    for phase in phases:
        if phase.kind in (PhaseKind.PREFILL, PhaseKind.DECODE):
            found[phase.kind].append((phase.begin_ns, phase.end_ns))
    return found


def slowed_frac(series: Series, intervals: Sequence[tuple[int, int]]) -> float | None:
    """Return for which share of the intervals a slowdown held.

    Those shorter than the counter's period are left out: what it counted there can have happened before or after.
    """
    return mean_share(series, [one for one in intervals if one[1] - one[0] >= series.period_ns])


def awake(series: Sequence[Series], intervals: Sequence[tuple[int, int]]) -> set[str]:
    """Return the devices that were at work in the intervals: the link and the clock of others may rest."""
    busy = ((one.device, mean_share(one, intervals)) for one in series if one.counter in BUSY_COUNTERS)
    return {device for device, share in busy if share is not None and share >= _AWAKE_FRAC}


def slowdown_caveats(devices: Sequence[Device], phases: Sequence[Phase], series: Sequence[Series]) -> list[Caveat]:
    """Return what held devices back while prefill and decode were measured; nothing for what was not observed."""
    measured = measured_intervals(phases)
    gpus = [device for device in devices if device.kind is DeviceKind.CUDA]
    at_work = {kind: awake(series, intervals) for kind, intervals in measured.items()}
    found = [_slowdown(counter, one, measured, series) for counter, one in SLOWDOWNS.items()]
    found += [_slow_links(gpus, measured, at_work, series), _low_states(gpus, measured, at_work, series)]
    return [caveat for caveat in found if caveat is not None]


def _slowdown(counter: Counter, slowdown: Slowdown, measured: Intervals, series: Sequence[Series]) -> Caveat | None:
    told = []
    for one in series:
        if one.counter is not counter:
            continue
        shares = ((kind, slowed_frac(one, intervals)) for kind, intervals in measured.items())
        parts = [f"{share * 100:.0f} % of {kind}" for kind, share in shares if share and share >= slowdown.least_frac]
        if parts:
            told.append(f"{one.device} for {' and '.join(parts)}")
    return Caveat(slowdown.code, f"{slowdown.what}: {', '.join(told)}", slowdown.remedy) if told else None


def _slow_links(
    gpus: Sequence[Device], measured: Intervals, at_work: Mapping[PhaseKind, set[str]], series: Sequence[Series]
) -> Caveat | None:
    """Say which links were slower at work than the trial has seen those of such GPUs."""
    speeds = [_by_device(series, counter) for counter in (Counter.PCIE_GENERATION, Counter.PCIE_WIDTH)]
    told: dict[str, list[str]] = defaultdict(list)
    for gpu in gpus:
        alike = [other.name for other in gpus if other.description == gpu.description]
        best = [_highest(found, alike) for found in speeds]
        for kind, intervals in measured.items():
            now = [_usual(found.get(gpu.name), intervals) for found in speeds]
            if gpu.name in at_work[kind] and any(map(_is_below, now, best)):
                told[f"{gpu.name} at {_link(*now)}, where {_link(*best)} was seen"].append(kind)
    if not told:
        return None
    links = [f"{link} (in {' and '.join(kinds)})" for link, kinds in told.items()]
    remedy = "look for errors: sudo dmesg | grep -i -e pcie -e xid; another slot or riser, or another machine"
    return Caveat("pcie-slow", f"PCIe links were slow at work: {', '.join(links)}", remedy)


def _low_states(
    gpus: Sequence[Device], measured: Intervals, at_work: Mapping[PhaseKind, set[str]], series: Sequence[Series]
) -> Caveat | None:
    states = _by_device(series, Counter.P_STATE)
    told = [
        f"{gpu.name} P{state:.0f} (in {kind})"
        for gpu in gpus
        for kind, intervals in measured.items()
        if (state := _usual(states.get(gpu.name), intervals)) is not None
        and state > _LOWEST_P_STATE
        and gpu.name in at_work[kind]
    ]
    if not told:
        return None
    remedy = "lift clock limits: sudo nvidia-smi -rgc -rac; see nvidia-smi -q -d PERFORMANCE during a sweep"
    return Caveat("low-clocks", f"GPUs worked in the performance state of rest: {', '.join(told)}", remedy)


def _by_device(series: Sequence[Series], counter: Counter) -> dict[str, Series]:
    return {one.device: one for one in series if one.counter is counter and one.value.size}


def _usual(series: Series | None, intervals: Sequence[tuple[int, int]]) -> float | None:
    """Return the median reading in the intervals: what is now and then otherwise does not count."""
    return None if series is None else reading(series, intervals, np.median)


def _is_below(figure: float | None, best: float | None) -> bool:
    return figure is not None and best is not None and figure < best


def _highest(found: Mapping[str, Series], devices: Sequence[str]) -> float | None:
    return max((float(found[name].value.max()) for name in devices if name in found), default=None)


def _link(generation: float | None, width: float | None) -> str:
    known = (("gen", generation), ("x", width))
    return " ".join(f"{name}{figure:.0f}" for name, figure in known if figure is not None)
