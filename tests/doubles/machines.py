"""Machines on which nothing is wrong, for tests that make one thing wrong."""

from __future__ import annotations

from k3prof.core.machine.gpu import GpuState, PcieLink
from k3prof.core.machine.host import HostActivity, HostFacts, HostSettings

GB = 10**9

FACTS = HostFacts(
    kernel="6.8.0",
    cpu_model="AMD EPYC 7453",
    cores_visible=4,
    cores_allowed=4,
    cpu_quota_cores=None,
    governors=("performance",),
    tickless_cores=0,
    last_level_cache_bytes=32 << 20,
    numa_nodes=1,
    memory_bytes=64 * GB,
    memory_available_bytes=60 * GB,
    memory_limit_bytes=None,
    load_average=0.1,
    ptrace_scope=0,
    shm_bytes=32 * GB,
    container=None,
)
SETTINGS = HostSettings(
    cores=((0,), (1,), (2,), (3,)),
    last_level_caches=1,
    numa_balancing=False,
    clock_source="tsc",
    swap_used_bytes=0,
    may_be_realtime=True,
    may_trace_all=False,
    nvidia_on_bus=0,
)
QUIET = HostActivity(
    interval_s=0.5,
    busy_cores=0.03,
    busy=(),
    own_cores=0.02,
    programs=(),
    steal_frac=0.0,
    steal_since_boot_frac=0.001,
    throttled_ns=0,
    swapped_in_pages=0,
)
UNTOLD_FACTS = HostFacts(**dict.fromkeys(FACTS.__dataclass_fields__) | {"governors": (), "tickless_cores": 0})


def a40(name: str) -> GpuState:
    """An idle A40 in good order; its link has slowed down, as idle links do."""
    return GpuState(
        name=name,
        memory_bytes=46068 << 20,
        free_bytes=45490 << 20,
        used_bytes=0,
        busy_frac=0.0,
        busy_window_ns=166_666_667,
        sm_mhz=210,
        highest_sm_mhz=1740,
        persistent=True,
        ecc=False,
        bus_bits=384,
        mig=None,
        link=PcieLink(1, 16, 4, 16),
    )
