"""The bandwidth of this machine's memory: measured, kept in the cache, found there again."""

from __future__ import annotations

from pathlib import Path

from k3prof.collectors.bandwidth import Progress, measure_bandwidth
from k3prof.core.machine.host import HostFacts, HostSettings
from k3prof.core.machine.host_bandwidth import HostBandwidth
from k3prof.llama.cache import cache_dir
from k3prof.store.bandwidth import read_bandwidth, write_bandwidth


def bandwidth_path() -> Path:
    """Return where the measurement is kept.

    Raises:
        MachineError: There is no cache folder.
    """
    return cache_dir() / "bandwidth.json"


def measure(facts: HostFacts, settings: HostSettings, progress: Progress) -> HostBandwidth:
    """Measure the machine's memory and keep the result.

    Raises:
        MachineError: There is too little memory, or the result cannot be kept.
    """
    measured = measure_bandwidth(facts, settings, progress)
    write_bandwidth(bandwidth_path(), measured)
    return measured


def known_bandwidth(facts: HostFacts) -> HostBandwidth | None:
    """Return what was measured on this machine with as many cores, or None.

    Raises:
        MachineError: The measurement that is kept cannot be read.
    """
    measured = read_bandwidth(bandwidth_path())
    return measured if measured is not None and measured.is_of(facts) else None
