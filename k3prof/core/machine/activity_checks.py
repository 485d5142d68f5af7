"""What else a machine does at the moment, held against what a measurement can bear."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from k3prof.core.machine.diagnosis import Finding, Level, gigabytes, listed
from k3prof.core.machine.host import HostActivity, Owner, RunningProgram

_BUSY_CORES = 0.2
"""Threads of one computation wait for the slowest of them, so that even a small load elsewhere shows."""
_UNSEEN_CORES = 0.5
_UNSEEN_FRAC = 0.02
_WORTH_NAMING_CORES = 0.05
_WORTH_SAYING_BYTES = 100_000_000
_STEAL_FRAC = 0.02
_THROTTLED_FRAC = 0.01
_BUSY_LOAD_AVERAGE = 1.0


def check_activity(
    activity: HostActivity, cores_visible: int | None, cpu_quota_cores: float | None, load_average: float | None
) -> list[Finding]:
    """Return all that is wrong with what a machine does now, the worst first.

    Args:
        activity: What it was seen doing.
        cores_visible: Processors online.
        cpu_quota_cores: Cores' worth of time that the control group may use; None for no quota.
        load_average: Tasks running or waiting to, averaged over the last minute.
    """
    load = [found for found in (busy_processes(activity), unseen_load(activity, cores_visible)) if found is not None]
    recent = [] if load else [recent_load(load_average)]
    others = (
        throttled(activity, cpu_quota_cores),
        *programs(activity),
        *load,
        *recent,
        steal(activity),
        swapping(activity),
    )
    return [finding for finding in others if finding is not None]


def busy_processes(activity: HostActivity) -> Finding | None:
    """Processes that use the cores which a measurement needs."""
    if activity.seen_cores < _BUSY_CORES:
        return None
    named = [process for process in activity.busy if process.cores >= _WORTH_NAMING_CORES] or activity.busy[:1]
    return Finding(
        Level.WARNING,
        "other load",
        f"{activity.seen_cores:.1f} cores are busy: "
        + listed([f"{process.name} (pid {process.pid}) {process.cores:.2f}" for process in named]),
        "stop it, or wait until it is done",
    )


def unseen_load(activity: HostActivity, cores_visible: int | None) -> Finding | None:
    """Load whose processes do not show: neighbours on the same machine."""
    unseen = activity.unseen_cores
    if unseen is None or unseen < max(_UNSEEN_CORES, _UNSEEN_FRAC * (cores_visible or 0)):
        return None
    return Finding(
        Level.WARNING,
        "neighbours",
        f"{unseen:.1f} cores are busy with what does not show here: other containers, or very short processes",
        "if it lasts, use another machine; else compare placements only within one sweep, with --repeat 5",
    )


def recent_load(load_average: float | None) -> Finding | None:
    """Load that was there a moment ago and is not now."""
    if load_average is None or load_average < _BUSY_LOAD_AVERAGE:
        return None
    return Finding(
        Level.NOTE,
        "other load",
        f"quiet now, but {load_average:.1f} tasks wanted a processor on average over the last minute",
        "run k3prof doctor again in a minute",
    )


def throttled(activity: HostActivity, cpu_quota_cores: float | None) -> Finding | None:
    """A quota that is used up stops every thread until its next period."""
    throttled_ns = activity.throttled_ns
    if throttled_ns is None or throttled_ns < _THROTTLED_FRAC * activity.interval_s * 1e9:
        return None
    quota = "" if cpu_quota_cores is None else f" of {cpu_quota_cores:g} cores"
    return Finding(
        Level.WARNING,
        "throttled",
        f"the CPU quota{quota} is used up: threads were held back {throttled_ns / 1e6:.0f} ms "
        f"in {activity.interval_s * 1e3:.0f} ms",
        "stop other work in this container; set threads under [flags] to less than the quota",
    )


def steal(activity: HostActivity) -> Finding | None:
    """Time that the hypervisor gives to other machines is missing from every measurement."""
    now, since_boot = activity.steal_frac or 0.0, activity.steal_since_boot_frac or 0.0
    if max(now, since_boot) < _STEAL_FRAC:
        return None
    return Finding(
        Level.WARNING,
        "steal",
        f"the hypervisor gave {now:.0%} of this machine's processor time to others just now, "
        f"{since_boot:.1%} since boot",
        "use a machine with dedicated cores; else compare placements only within one sweep, with --repeat 5",
    )


def swapping(activity: HostActivity) -> Finding | None:
    """Memory that comes back from disk is too short."""
    if not activity.swapped_in_pages:
        return None
    return Finding(
        Level.WARNING,
        "swap",
        f"{activity.swapped_in_pages} pages came back from swap within {activity.interval_s * 1e3:.0f} ms",
        "stop what takes the memory, or use a smaller model",
    )


def programs(activity: HostActivity) -> Iterator[Finding]:
    """llama.cpp's programs that run already: they compete for cores and memory, and hold GPUs."""
    for owner, (state, remedy) in _OWNERS.items():
        running = [program for program in activity.programs if program.owner is owner]
        if running:
            yield Finding(Level.WARNING, "servers", f"{_named(running)} {state}", remedy(running))


def _named(running: Sequence[RunningProgram]) -> str:
    counts = Counter(program.name for program in running)
    held_bytes = sum(program.memory_bytes or 0 for program in running)
    holding = f", holding {gigabytes(held_bytes)}," if held_bytes >= _WORTH_SAYING_BYTES else ""
    return listed([f"{count} {name}" for name, count in counts.items()]) + holding


def _kill(running: Sequence[RunningProgram]) -> str:
    return "kill " + " ".join(str(program.pid) for program in running)


_OWNERS: dict[Owner, tuple[str, Callable[[Sequence[RunningProgram]], str]]] = {
    Owner.ORPHAN: ("were left over by a k3prof that is gone", _kill),
    Owner.SWEEP: ("belong to another k3prof that runs now", lambda _: "wait until that sweep is done"),
    Owner.OTHER: ("run already", lambda running: f"if nobody needs them: {_kill(running)}"),
}
