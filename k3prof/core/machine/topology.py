"""How GPUs reach each other: which way data go between two of them, and what one may do in the other's memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from k3prof.core.events import DeviceEvent, EventKind
from k3prof.core.machine.diagnosis import Finding, Level
from k3prof.core.machine.gpu import GpuPath

_PAIRS_NAMED = 6


def told_paths(events: Iterable[DeviceEvent]) -> list[GpuPath]:
    """Return the ways between GPUs that were found out while a trial watched them."""
    told = ((event.device, *event.detail.partition(": ")) for event in events if event.kind is EventKind.PEER)
    return list(dict.fromkeys(GpuPath(device, peer, text) for device, peer, _, text in told))


def describe_paths(paths: Sequence[GpuPath]) -> list[str]:
    """Return one line for each kind of way, the rarest first, with the pairs that have it; empty without pairs."""
    pairs: dict[str, list[str]] = {}
    for path in paths:
        pairs.setdefault(path.text, []).append(f"{path.device}–{path.peer}")
    if not pairs:
        return []
    if len(pairs) == 1 and len(paths) > 1:
        return [f"all {len(paths)} pairs: {text}" for text in pairs]
    *rarer, (commonest, rest) = sorted(pairs.items(), key=lambda item: len(item[1]))
    names = ", ".join(rest) if len(rest) <= _PAIRS_NAMED else f"the other {len(rest)} pairs"
    return [*(f"{', '.join(found)}: {text}" for text, found in rarer), f"{names}: {commonest}"]


def check_paths(paths: Sequence[GpuPath]) -> list[Finding]:
    """Return what is to be told of the ways between GPUs: a line for each kind."""
    return [Finding(Level.OK, "GPU paths", line) for line in describe_paths(paths)]
