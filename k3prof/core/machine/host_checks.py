"""How a machine is set, held against what a measurement needs. Each check returns its finding, or None."""

from __future__ import annotations

from collections.abc import Callable
from math import floor

from k3prof.core.experiment import MAX_STAND_INS, MIN_STAND_INS
from k3prof.core.machine.diagnosis import Finding, Level, gigabytes, listed, ranges
from k3prof.core.machine.host import HostFacts, HostSettings

SLOW_CLOCKS = frozenset({"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit", "xen"})
"""Clock sources that cost a system call or a bus access for every reading of the time."""

_SWAP_WORTH_SAYING_BYTES = 256 * 2**20
_SHARED_MEMORY_FOR_NCCL_BYTES = 2**30

Check = Callable[[HostFacts, HostSettings], Finding | None]


def check_host(facts: HostFacts, settings: HostSettings) -> list[Finding]:
    """Return all that is wrong with a machine's settings, the worst first."""
    found = [check(facts, settings) for check in _CHECKS]
    return [finding for finding in found if finding is not None]


def limited_cores(facts: HostFacts, _: HostSettings) -> Finding | None:
    """Fewer cores than programs count: llama-server then starts too many threads, and they hinder each other."""
    visible, usable = facts.cores_visible, facts.cores_usable
    if visible is None or usable is None or usable >= visible:
        return None
    by_quota = facts.cpu_quota_cores is not None and facts.cpu_quota_cores == usable
    limit = "the CPU quota of this control group" if by_quota else "processor affinity"
    threads = max(floor(usable), 1)
    return Finding(
        Level.WARNING,
        "cores",
        f"{visible} cores are visible, {usable:g} may be used ({limit}); llama-server counts the visible ones",
        f"set threads = {threads} under [flags] in sweep.toml (on stand-ins k3prof sets 1)",
    )


def one_core(facts: HostFacts, _: HostSettings) -> Finding | None:
    """One core cannot do two things at once."""
    if facts.cores_usable is None or facts.cores_usable >= MIN_STAND_INS:
        return None
    return Finding(
        Level.WARNING,
        "cores",
        "with less than 2 cores nothing can overlap: server, stand-ins, client and sampler take turns",
        "use a machine with at least 2 cores",
    )


def slow_governor(facts: HostFacts, _: HostSettings) -> Finding | None:
    """A governor that lowers frequencies lets figures depend on what ran before."""
    slow = [governor for governor in facts.governors if governor != "performance"]
    if not slow:
        return None
    return Finding(
        Level.WARNING,
        "frequency",
        f"the frequency governor is {listed(slow)}: speed depends on what ran just before",
        "sudo cpupower frequency-set -g performance",
    )


def page_migration(facts: HostFacts, settings: HostSettings) -> Finding | None:
    """Automatic NUMA balancing moves pages while they are read; llama.cpp warns of it too."""
    if not settings.numa_balancing or (facts.numa_nodes or 1) < 2:
        return None
    return Finding(
        Level.WARNING,
        "NUMA",
        "the kernel moves memory between nodes while it is used (numa_balancing)",
        "echo 0 | sudo tee /proc/sys/kernel/numa_balancing",
    )


def memory_nodes(facts: HostFacts, _: HostSettings) -> Finding | None:
    """Weights on another node's memory are read more slowly."""
    if facts.numa_nodes is None or facts.numa_nodes < 2:
        return None
    return Finding(
        Level.NOTE,
        "NUMA",
        f"{facts.numa_nodes} memory nodes: what the host computes depends on where its weights happen to lie",
        'set numa = "distribute" under [flags], and compare with k3prof under `numactl --cpunodebind=0 --membind=0`',
    )


def tickless(facts: HostFacts, _: HostSettings) -> Finding | None:
    """Without a scheduler tick the kernel keeps no fresh books of processor time."""
    if not facts.tickless_cores:
        return None
    return Finding(
        Level.WARNING,
        "counters",
        f"{facts.tickless_cores} processors run without a scheduler tick (nohz_full): "
        "what stand-ins use of them shows up to 1 s late",
        "run k3prof on the others: taskset -c LIST k3prof sweep …",
    )


def slow_clock(_: HostFacts, settings: HostSettings) -> Finding | None:
    """Reading the time often must cost next to nothing."""
    if settings.clock_source not in SLOW_CLOCKS:
        return None
    return Finding(
        Level.WARNING,
        "clock",
        f"the kernel reads the time from {settings.clock_source}, which is slow; llama.cpp and k3prof ask often",
        "boot with tsc=reliable clocksource=tsc, or use another machine",
    )


def memory_limit(facts: HostFacts, _: HostSettings) -> Finding | None:
    """A container's limit is not what programs see when they ask for the memory."""
    limit, memory = facts.memory_limit_bytes, facts.memory_bytes
    if limit is None or memory is None or limit >= memory:
        return None
    return Finding(
        Level.NOTE,
        "memory",
        f"this control group may use {gigabytes(limit)} of {gigabytes(memory)}; programs see all of it",
        "choose models by the smaller figure: k3prof doctor --model MODEL does",
    )


def swapped(_: HostFacts, settings: HostSettings) -> Finding | None:
    """What lies in swap comes back in the middle of a measurement."""
    used = settings.swap_used_bytes
    if used is None or used < _SWAP_WORTH_SAYING_BYTES:
        return None
    return Finding(
        Level.NOTE,
        "swap",
        f"{gigabytes(used)} lie in swap and may come back while a server works",
        "free memory, then: sudo swapoff -a && sudo swapon -a",
    )


def shared_cores(_: HostFacts, settings: HostSettings) -> Finding | None:
    """Two stand-ins on one physical core slow each other down."""
    processors = [cpu for core in settings.cores for cpu in core]
    if len(processors) == len(settings.cores):
        return None
    return Finding(
        Level.NOTE,
        "cores",
        f"{len(processors)} processors are {len(settings.cores)} cores with several threads each: "
        "stand-ins that share a core slow each other down",
        f"taskset -c {ranges(core[0] for core in settings.cores)} k3prof sweep …",
    )


def late_sampler(_: HostFacts, settings: HostSettings) -> Finding | None:
    """Beside busy processes, an ordinary process is woken late: see `_be_punctual` in collectors/sampling.py."""
    if settings.may_be_realtime is not False:
        return None
    return Finding(
        Level.NOTE,
        "sampler",
        "no real-time priority for the sampler: beside busy cores, samples come up to some 15 ms late",
        "run as root, or allow it: `ulimit -r 1` (docker run --cap-add SYS_NICE --ulimit rtprio=1)",
    )


def small_shared_memory(shm_bytes: int | None, n_gpus: int) -> Finding | None:
    """NCCL, with which several GPUs work on one tensor, exchanges data through `/dev/shm`."""
    if shm_bytes is None or shm_bytes >= _SHARED_MEMORY_FOR_NCCL_BYTES or n_gpus < 2:
        return None
    return Finding(
        Level.NOTE,
        "memory",
        f"shared memory (/dev/shm) is {shm_bytes / 2**20:.0f} MiB: split-mode tensor may fail, NCCL works through it",
        "docker run --shm-size=2g",
    )


def python_profile(facts: HostFacts, settings: HostSettings, installed: bool) -> Finding:
    """Whether Python programs can be profiled: py-spy reads their memory, which Yama can forbid.

    At 1 it forbids all but children, at 2 all without privilege, at 3 all.
    """
    scope = facts.ptrace_scope or 0
    if not installed:
        return Finding(
            Level.NOTE, "py-spy", "py-spy is not here: Python programs cannot be profiled", "pip install py-spy"
        )
    if scope == 0 or (settings.may_trace_all and scope < 3):
        return Finding(Level.OK, "py-spy", "Python programs can be profiled")
    reach = "only its own children" if scope == 1 else "nothing"
    return Finding(
        Level.NOTE,
        "py-spy",
        f"py-spy may look into {reach}: kernel.yama.ptrace_scope is {scope}",
        "sudo sysctl kernel.yama.ptrace_scope=0" if scope < 3 else "boot with kernel.yama.ptrace_scope below 3",
    )


def stand_ins(facts: HostFacts) -> Finding:
    """How many stand-ins run here, and how many can work at once."""
    cores = "an unknown number of cores" if facts.cores_usable is None else f"{facts.cores_usable:g} cores"
    return Finding(
        Level.OK,
        "stand-ins",
        f"rpc:{MIN_STAND_INS} to rpc:{MAX_STAND_INS}; on {cores}, which is how many can be busy at once",
    )


_CHECKS: tuple[Check, ...] = (
    limited_cores,
    one_core,
    slow_clock,
    slow_governor,
    page_migration,
    tickless,
    swapped,
    memory_limit,
    memory_nodes,
    shared_cores,
    late_sampler,
)
