"""What happened to devices while they were watched: moments, where samples are a course."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from k3prof.core.trial import Caveat


class EventKind(StrEnum):
    """What happened."""

    LOST = "lost"
    """The driver can't reach the device any more; nothing is known of it from then on."""
    XID = "xid"
    """The driver logged an error of the device, by its number."""
    ECC = "ecc"
    """A memory error that could not be corrected."""
    LACKS = "lacks"
    """A counter that the device does not offer."""
    PROCESS = "process"
    """A program was seen to compute on the device, by its pid."""
    PEER = "peer"
    """How the device reaches another one."""


@dataclass(frozen=True)
class DeviceEvent:
    """One thing that happened, or that was found out once.

    Attributes:
        time_ns: Monotonic time at which it was noticed.
        device: The device's name; empty where the driver does not tell which.
        kind: What it was.
        detail: What the driver says of it, in a few words: the error, the counter, the program.
        number: The Xid, or the pid as the driver numbers it; None for anything else.
    """

    time_ns: int
    device: str
    kind: EventKind
    detail: str
    number: int | None = None


@dataclass(frozen=True)
class Watch:
    """What the events of a trial are held against.

    Attributes:
        begun_ns: When watching began.
        served_ns: Just before the trial's own server was started: what computed on a device by then is not its.
        own_pids: The trial's own processes.
    """

    begun_ns: int
    served_ns: int
    own_pids: Collection[int]


def foreign_programs(events: Sequence[DeviceEvent], watch: Watch) -> list[DeviceEvent]:
    """Return the programs that shared a device with the trial's own.

    In a container the driver may number processes as its host does. Where none of the trial's own is among those it
    names, only programs that were there before the server are certain not to be the server.
    """
    programs = [event for event in events if event.kind is EventKind.PROCESS and event.number not in watch.own_pids]
    own_numbers = any(event.kind is EventKind.PROCESS and event.number in watch.own_pids for event in events)
    return [event for event in programs if own_numbers or event.time_ns < watch.served_ns]


def event_caveats(events: Sequence[DeviceEvent], watch: Watch) -> list[Caveat]:
    """Return what events make doubtful, the worst first."""
    return [
        *_lost(events, watch),
        *_errors(events, watch),
        *_shared(foreign_programs(events, watch)),
        *_lacking(events),
    ]


def _lost(events: Iterable[DeviceEvent], watch: Watch) -> list[Caveat]:
    return [
        Caveat(
            "device-lost",
            f"{event.device}: lost after {_seconds(event, watch)}: {event.detail}",
            "its figures end there; see what `dmesg | grep -i nvrm` says, then reset the GPU or restart the machine",
        )
        for event in events
        if event.kind is EventKind.LOST
    ]


def _errors(events: Iterable[DeviceEvent], watch: Watch) -> list[Caveat]:
    same: dict[tuple[EventKind, str, str], list[DeviceEvent]] = defaultdict(list)
    for event in events:
        if event.kind in (EventKind.XID, EventKind.ECC):
            same[event.kind, event.device, event.detail].append(event)
    return [
        Caveat(
            f"gpu-{kind}",
            f"{device or 'a GPU'}: {detail}, "
            + (f"{len(found)} times, first " if len(found) > 1 else "")
            + f"after {_seconds(found[0], watch)}",
            "figures from then on are worth little; see what `dmesg | grep Xid` says",
        )
        for (kind, device, detail), found in same.items()
    ]


def _shared(programs: Iterable[DeviceEvent]) -> list[Caveat]:
    devices = _grouped(programs, lambda event: event.detail, lambda event: event.device)
    return [
        Caveat(
            "gpu-shared",
            f"{', '.join(names)}: another program computed there: {program}",
            "repeat when it is gone: its work counts as busy time, and its memory is missing",
        )
        for program, names in devices.items()
    ]


def _lacking(events: Iterable[DeviceEvent]) -> list[Caveat]:
    lacking = [event for event in events if event.kind is EventKind.LACKS]
    by_device = _grouped(lacking, lambda event: event.device, lambda event: event.detail)
    by_counters: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for device, counters in by_device.items():
        by_counters[tuple(counters)].append(device)
    if not by_counters:
        return []
    told = [f"{', '.join(devices)}: {', '.join(counters)}" for counters, devices in by_counters.items()]
    return [Caveat("counters-missing", f"not offered by the driver: {'; '.join(told)}", "these stay unknown")]


def _grouped(
    events: Iterable[DeviceEvent], key: Callable[[DeviceEvent], str], value: Callable[[DeviceEvent], str]
) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for event in events:
        if value(event) not in found[key(event)]:
            found[key(event)].append(value(event))
    return found


def _seconds(event: DeviceEvent, watch: Watch) -> str:
    return f"{(event.time_ns - watch.begun_ns) / 1e9:.1f} s"
