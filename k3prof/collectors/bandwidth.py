"""Measures how fast this machine's memory can be read, by how many threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from k3prof.core.machine.host import HostFacts, HostSettings
from k3prof.core.machine.host_bandwidth import BandwidthReading, HostBandwidth, thread_counts
from k3prof.errors import MachineError

_LARGEST_MEMORY_FRAC = 0.25
_CACHES_FRAC = 8
_FEWEST_CACHES_FRAC = 4
_SMALLEST_BUFFER_BYTES = 512 * 2**20
_BLOCK_BYTES = 8 * 2**20
_ROUNDS = 3
_ROUND_S = 0.25
_WARM_UP_S = 0.05

Progress = Callable[[int, int], None]
"""Told how many readings are done, and of how many."""


def buffer_bytes(facts: HostFacts, settings: HostSettings) -> int:
    """Return how much memory to read: far more than all caches hold, at most a quarter of what is free.

    Raises:
        MachineError: There is too little memory to tell it from the caches.
    """
    caches_bytes = (facts.last_level_cache_bytes or 0) * (settings.last_level_caches or 1)
    wanted_bytes = max(_CACHES_FRAC * caches_bytes, _SMALLEST_BUFFER_BYTES)
    affordable_bytes = int(_LARGEST_MEMORY_FRAC * (facts.memory_available_bytes or 0))
    needed_bytes = max(_FEWEST_CACHES_FRAC * caches_bytes, _BLOCK_BYTES)
    if affordable_bytes < needed_bytes:
        raise MachineError(
            f"memory bandwidth: {affordable_bytes / 2**20:.0f} MiB, a quarter of what is free, are too little beside "
            f"{caches_bytes / 2**20:.0f} MiB of cache",
            f"free {needed_bytes / _LARGEST_MEMORY_FRAC / 2**20:.0f} MiB of memory",
        )
    return min(wanted_bytes, affordable_bytes)


def measure_bandwidth(
    facts: HostFacts, settings: HostSettings, progress: Progress = lambda _done, _total: None
) -> HostBandwidth:
    """Measure with 1, 2, 3, … threads up to as many as there are cores to use; about a second each.

    Raises:
        MachineError: There is too little free memory, or the kernel does not tell which processors may be used.
    """
    most = int(min(facts.cores_usable or 0, sum(map(len, settings.cores))))
    if most < 1 and settings.cores:
        most = 1
    if most < 1:
        raise MachineError("memory bandwidth: the kernel does not tell which processors may be used")
    size = buffer_bytes(facts, settings)
    counts = thread_counts(most)
    readings = []
    for done, count in enumerate(counts):
        progress(done, len(counts))
        readings.append(BandwidthReading(count, read_rounds(settings.processors(count), size)))
    progress(len(counts), len(counts))
    return HostBandwidth(facts.cpu_model, facts.cores_usable, size, round(time.time()), tuple(readings))


def read_rounds(
    processors: Sequence[int], n_bytes: int, rounds: int = _ROUNDS, round_s: float = _ROUND_S
) -> tuple[float, ...]:
    """Read a buffer over and over, one thread on each processor.

    Every thread first writes its own part, so that it lies in the memory node of its processor, then reads it with
    `numpy.max`: integers, since the maximum of floats has to look for NaN. numpy releases the interpreter's lock.

    Args:
        processors: Where to run.
        n_bytes: How much to read, all threads together.
        rounds: How many times to measure.
        round_s: How long each.

    Returns:
        10⁹ bytes per second, of all threads together, in each round.
    """
    together = threading.Barrier(len(processors))
    with ThreadPoolExecutor(len(processors)) as pool:
        work = [
            pool.submit(_read_part, cpu, n_bytes // len(processors), together, [_WARM_UP_S, *[round_s] * rounds])
            for cpu in processors
        ]
        rates = [one.result() for one in work]
    return tuple(float(rate) for rate in np.sum(rates, axis=0)[1:])


def _read_part(cpu: int, n_bytes: int, together: threading.Barrier, rounds_s: Iterable[float]) -> list[float]:
    try:
        os.sched_setaffinity(0, {cpu})
        part = np.ones(max(n_bytes // np.dtype(np.int32).itemsize, 1), np.int32)
        blocks = np.array_split(part, -(-part.nbytes // _BLOCK_BYTES))
        rates = []
        for round_s in rounds_s:
            together.wait()
            rates.append(_read(blocks, round_s))
    except BaseException:
        # The others would wait for this thread for ever.
        together.abort()
        raise
    return rates


def _read(blocks: Sequence[NDArray[np.int32]], duration_s: float) -> float:
    """Read blocks in turn for a while and return 10⁹ bytes per second."""
    began_ns = now_ns = time.perf_counter_ns()
    end_ns = began_ns + int(duration_s * 1e9)
    read_bytes = place = 0
    while now_ns < end_ns:
        block = blocks[place % len(blocks)]
        block.max()
        read_bytes += block.nbytes
        place += 1
        now_ns = time.perf_counter_ns()
    return read_bytes / (now_ns - began_ns)
