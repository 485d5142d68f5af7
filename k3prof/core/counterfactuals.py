"""What would help, and what would not: ceilings that a ledger sets, each with the assumption that it rests on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from k3prof.core.device import HOST
from k3prof.core.ledger import Ledger, LineKind

WORTHWHILE_FRAC = 0.05
"""A ceiling less than this above what was measured would not help."""


@dataclass(frozen=True)
class Counterfactual:
    """One thing that could be otherwise.

    Attributes:
        name: What, in a few words.
        assumption: What is taken for granted, in one sentence.
        token_ms: Time of a token then; 0 where nothing would be left.
        tokens_per_s: The ceiling: no change of this kind gives more. None where nothing would be left.
        gain_frac: How far the ceiling lies above what was measured; None likewise.
    """

    name: str
    assumption: str
    token_ms: float
    tokens_per_s: float | None
    gain_frac: float | None

    @property
    def helps(self) -> bool:
        """Whether there is at least 5 % to gain."""
        return self.gain_frac is None or self.gain_frac >= WORTHWHILE_FRAC


def counterfactuals(found: Ledger) -> tuple[Counterfactual, ...]:
    """Return what could be otherwise, highest ceiling first; without what rests on times that are not known.

    Making something free takes away the time in which nothing else was at work (Amdahl's law). What is unexplained
    stays.
    """
    return tuple(sorted(_all(found), key=lambda one: one.token_ms))


def _all(found: Ledger) -> Iterator[Counterfactual]:
    busy = {name: ms for name, ms in found.busy_ms.items() if ms is not None and name != HOST.name}
    if found.device_times_known and len(busy) > 1 and max(busy.values()) > 0:
        yield from _of_several_devices(found, busy)
    for name in busy if found.device_times_known else ():
        yield _without(
            found,
            found.ms(LineKind.DEVICE, name),
            f"{name} takes no time",
            f"all that {name} computes alone is free; the other devices, copies and the host take as long as now",
        )
    if found.ms(LineKind.HOST_COMPUTE):
        yield _without(
            found,
            found.ms(LineKind.HOST_COMPUTE),
            "nothing computed on the host",
            "what the host computes, such as experts, is moved to devices that have room and do it in no time; the "
            "copies stay",
        )
    if (copies := found.ms(LineKind.COPIES)) is not None:
        yield _without(found, copies, "copies take no time", "an endless fast link; all else as now")
    scheduler, between = found.ms(LineKind.SCHEDULER), found.ms(LineKind.BETWEEN)
    if scheduler is not None and between is not None:
        yield _without(
            found,
            scheduler + between,
            "the host takes no time",
            "scheduling, sampling and HTTP are free; all that is computed or copied takes as long as now",
        )


def _of_several_devices(found: Ledger, busy: dict[str, float]) -> Iterator[Counterfactual]:
    host_ms = found.busy_ms.get(HOST.name) or 0.0
    slowest = max(busy, key=lambda name: busy[name])
    bound_ms = max(busy[slowest], host_ms)
    bound_by = slowest if busy[slowest] >= host_ms else HOST.name
    streams = math.ceil(found.token_ms / bound_ms)
    yield _with(
        found,
        bound_ms,
        "perfect overlap",
        f"at least {streams} independent streams or micro-batches keep {bound_by} always at work, and all else hides "
        "behind it, while each stream's work takes as long as now. One stream alone gains nothing",
    )
    mean_ms = sum(busy.values()) / len(busy)
    saved_ms = min(busy[slowest] - mean_ms, found.ms(LineKind.DEVICE, slowest) or 0.0)
    yield _without(
        found,
        saved_ms,
        f"{slowest} relieved",
        f"{slowest} does its part in the devices' mean time, {mean_ms:.3g} ms instead of {busy[slowest]:.3g} ms, and "
        "no other device has more to do for it",
    )


def _without(found: Ledger, saved_ms: float | None, name: str, assumption: str) -> Counterfactual:
    return _with(found, max(found.token_ms - (saved_ms or 0.0), 0.0), name, assumption)


def _with(found: Ledger, token_ms: float, name: str, assumption: str) -> Counterfactual:
    if token_ms <= 0:
        return Counterfactual(name, assumption, 0.0, None, None)
    return Counterfactual(name, assumption, token_ms, 1000 / token_ms, found.token_ms / token_ms - 1)
