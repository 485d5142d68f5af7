"""How fast a machine's memory can be read by how many threads, as measured there."""

from __future__ import annotations

from dataclasses import dataclass

from k3prof.core.layout.hardware import Bandwidth
from k3prof.core.machine.host import HostFacts

CONVENTION = "10⁹ bytes read per second, each byte counted once; nothing is written"

_PLATEAU_FRAC = 0.95


@dataclass(frozen=True)
class BandwidthReading:
    """What so many threads read together.

    Attributes:
        threads: How many, each on a processor of its own.
        rounds_gb_per_s: 10⁹ bytes per second in each round, at least one; other load only ever lowers it.
    """

    threads: int
    rounds_gb_per_s: tuple[float, ...]

    @property
    def gb_per_s(self) -> float:
        """The best round."""
        return max(self.rounds_gb_per_s)


@dataclass(frozen=True)
class HostBandwidth:
    """One measurement of the read bandwidth of a machine's memory.

    Attributes:
        cpu_model: The processor's name.
        cores_usable: Cores' worth of time that there was to measure with.
        buffer_bytes: How much memory was read over and over; far more than the caches hold.
        measured_unix_s: When.
        readings: At least one, by rising number of threads.
    """

    cpu_model: str | None
    cores_usable: float | None
    buffer_bytes: int
    measured_unix_s: int
    readings: tuple[BandwidthReading, ...]

    @property
    def best(self) -> BandwidthReading:
        """The reading with the highest bandwidth."""
        return max(self.readings, key=lambda reading: reading.gb_per_s)

    @property
    def plateau(self) -> BandwidthReading:
        """The fewest threads that come within 5 % of the best: more of them gain nothing."""
        return next(one for one in self.readings if one.gb_per_s >= _PLATEAU_FRAC * self.best.gb_per_s)

    @property
    def bandwidth(self) -> Bandwidth:
        """What a ceiling is computed with."""
        threads = self.best.threads
        return Bandwidth(f"host memory, {threads} thread{'s' * (threads > 1)}", self.best.gb_per_s, "measured")

    def is_of(self, host: HostFacts) -> bool:
        """Whether it was measured on such a machine, with as many cores."""
        return (self.cpu_model, self.cores_usable) == (host.cpu_model, host.cores_usable)


def thread_counts(most: int) -> list[int]:
    """Return with how many threads to measure: 1, 2, 3, 4, 6, 8, 12, 16, …, and the most."""
    powers = [2**exponent for exponent in range(most.bit_length())]
    between = [3 * power // 2 for power in powers[1:]]
    return sorted({count for count in (*powers, *between, most) if 0 < count <= most})
