"""A machine as it matters to a measurement: what it is, how it is set, what it does at the moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class HostFacts:
    """A machine, as seen from this process. What it does not tell is None.

    Attributes:
        kernel: The kernel's release.
        cpu_model: The processor's name.
        cores_visible: Logical processors online.
        cores_allowed: Of these, how many this process may run on (affinity, cpuset).
        cpu_quota_cores: Cores' worth of time that the tightest control group allows; None for no quota.
        governors: Frequency governors in use, by name; empty where frequencies cannot be governed from here.
        tickless_cores: Processors without a scheduler tick, whose processor time can be stale for up to a second.
        last_level_cache_bytes: Size of one last-level cache.
        numa_nodes: Memory nodes online.
        memory_bytes: Physical memory.
        memory_available_bytes: What a new program could take now without swapping, or the limit where that is less.
        memory_limit_bytes: What the tightest control group allows; None for no limit.
        load_average: Tasks running or waiting to, averaged over the last minute.
        ptrace_scope: Yama's setting: 0 lets debuggers attach, 3 lets none; None where Yama is not in force.
        shm_bytes: Size of `/dev/shm`.
        container: Which kind of container this is in; None when none shows.
    """

    kernel: str | None
    cpu_model: str | None
    cores_visible: int | None
    cores_allowed: int | None
    cpu_quota_cores: float | None
    governors: tuple[str, ...]
    tickless_cores: int
    last_level_cache_bytes: int | None
    numa_nodes: int | None
    memory_bytes: int | None
    memory_available_bytes: int | None
    memory_limit_bytes: int | None
    load_average: float | None
    ptrace_scope: int | None
    shm_bytes: int | None
    container: str | None

    @property
    def cores_usable(self) -> float | None:
        """Cores' worth of time that this process can get: what affinity and quota both allow."""
        limits = [limit for limit in (self.cores_allowed, self.cpu_quota_cores) if limit is not None]
        return min(limits, default=None)


@dataclass(frozen=True)
class HostSettings:
    """How a machine is set, beyond `HostFacts`. What it does not tell is None.

    Attributes:
        cores: The processors that this process may run on, those of one physical core together.
        last_level_caches: How many last-level caches these processors have.
        numa_balancing: Whether the kernel moves pages between memory nodes by itself.
        clock_source: What the kernel reads the time from.
        swap_used_bytes: What lies in swap.
        may_be_realtime: Whether a process of this user may take real-time priority.
        may_trace_all: Whether this process may look into any other, whatever `ptrace_scope` says.
        nvidia_on_bus: NVIDIA GPUs on the PCI bus, whether a driver drives them or not.
    """

    cores: tuple[tuple[int, ...], ...] = ()
    last_level_caches: int | None = None
    numa_balancing: bool | None = None
    clock_source: str | None = None
    swap_used_bytes: int | None = None
    may_be_realtime: bool | None = None
    may_trace_all: bool | None = None
    nvidia_on_bus: int | None = None

    def processors(self, count: int) -> list[int]:
        """Return so many processors, spread evenly over the physical cores; cores are shared only when all are used."""
        if count <= len(self.cores):
            return [self.cores[index * len(self.cores) // count][0] for index in range(count)]
        firsts_first = sorted(
            (place, index, cpu) for index, core in enumerate(self.cores) for place, cpu in enumerate(core)
        )
        return [cpu for _, _, cpu in firsts_first][:count]


class Owner(StrEnum):
    """Who started a program."""

    SWEEP = "sweep"
    """A k3prof that is still running."""
    ORPHAN = "orphan"
    """A k3prof that is gone."""
    OTHER = "other"


@dataclass(frozen=True)
class RunningProgram:
    """One of llama.cpp's programs that runs now.

    Attributes:
        pid: Its process.
        name: Which program it is.
        owner: Who started it.
        memory_bytes: What it holds in memory; None when it does not tell.
    """

    pid: int
    name: str
    owner: Owner
    memory_bytes: int | None = None


@dataclass(frozen=True)
class BusyProcess:
    """A process that used a processor while it was watched.

    Attributes:
        pid: The process.
        name: Its program's name.
        cores: Cores' worth of time that it used.
    """

    pid: int
    name: str
    cores: float


@dataclass(frozen=True)
class HostActivity:
    """What a machine did in a short interval in which k3prof itself slept. What it does not tell is None.

    Attributes:
        interval_s: How long it was watched.
        busy_cores: Cores' worth of time spent on anything on this machine.
        busy: Processes that used some of it, the busiest first, without k3prof itself.
        own_cores: What k3prof used of it.
        programs: llama.cpp's programs that run.
        steal_frac: Share of the processor time that the hypervisor gave to other machines.
        steal_since_boot_frac: The same, since this machine was started.
        throttled_ns: Time for which quotas kept runnable threads waiting, summed over processors.
        swapped_in_pages: Pages read back from swap.
    """

    interval_s: float
    busy_cores: float | None = None
    busy: Sequence[BusyProcess] = ()
    own_cores: float = 0.0
    programs: Sequence[RunningProgram] = ()
    steal_frac: float | None = None
    steal_since_boot_frac: float | None = None
    throttled_ns: int | None = None
    swapped_in_pages: int | None = None

    @property
    def seen_cores(self) -> float:
        """Cores' worth of time that visible processes other than k3prof used."""
        return sum(process.cores for process in self.busy)

    @property
    def unseen_cores(self) -> float | None:
        """Cores' worth of time that no visible process accounts for."""
        return None if self.busy_cores is None else max(self.busy_cores - self.seen_cores - self.own_cores, 0.0)
