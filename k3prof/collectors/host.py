"""What the whole machine does: processors, memory, page faults, throttling, frequency."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from k3prof.collectors import cgroup
from k3prof.collectors.cgroup import read_text
from k3prof.collectors.source import Channel, Schedule
from k3prof.core.timeline import Counter

HOST_DEVICE = "host"

_FREQUENCIES_READ = 8
_KHZ_PER_MHZ = 1000


@dataclass(frozen=True)
class CpuTimes:
    """Time of all processors together since boot, in the kernel's USER_HZ units.

    Attributes:
        busy: Spent on anything, other guests of the hypervisor included.
        total: Passed.
    """

    busy: int
    total: int

    def share_since(self, before: CpuTimes) -> float | None:
        """Return the busy share since an earlier reading, from 0 to 1, or None when no time was counted between."""
        total = self.total - before.total
        # The kernel's idle time can step back by a unit, so that the share would leave its range.
        return min(max((self.busy - before.busy) / total, 0.0), 1.0) if total > 0 else None


def parse_cpu_times(text: str) -> CpuTimes | None:
    """Read the first line of `/proc/stat`: user nice system idle iowait irq softirq steal; guest times are in user."""
    name, *fields = text.partition("\n")[0].split()[:9] or [""]
    if name != "cpu" or len(fields) < 4 or not all(field.isdecimal() for field in fields):
        return None
    times = [int(field) for field in fields]
    return CpuTimes(busy=sum(times) - sum(times[3:5]), total=sum(times))


def parse_named_numbers(text: str) -> dict[str, int]:
    """Read lines of a name and a number, as in `/proc/vmstat` and (in KiB) `/proc/meminfo`."""
    rows = [line.replace(":", " ").split() for line in text.splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) >= 2 and row[1].isdecimal()}


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Read the kernel's list of processors or nodes: `0-3,8` is 0, 1, 2, 3, 8.

    Raises:
        ValueError: The text is no such list.
    """
    ranges = [part.partition("-") for part in text.strip().split(",") if part]
    return tuple(cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1))


def available_bytes(root: Path = Path("/")) -> int | None:
    """Return the memory that a new program could take without swapping, or None where the kernel does not tell."""
    available_kib = parse_named_numbers(read_text(root / "proc/meminfo") or "").get("MemAvailable")
    return None if available_kib is None else available_kib * 1024


class HostSource:
    """Counters of the whole machine. Those that it does not have are not offered."""

    def __init__(self, interval_ns: int, root: Path = Path("/")) -> None:
        self._root = root
        self._cpu_times = self._read_cpu_times()
        self._frequency_files = _spread(sorted(root.glob("sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq")))
        readers: dict[Counter, Callable[[], float | None]] = {
            Counter.HOST_AVAILABLE_BYTES: lambda: available_bytes(root),
            Counter.MAJOR_FAULTS: self._major_faults,
            Counter.THROTTLED_NS: lambda: cgroup.throttled_ns(root),
            Counter.FREQUENCY_MHZ: self._frequency_mhz,
        }
        self._readers = {counter: read for counter, read in readers.items() if read() is not None}
        if self._cpu_times is not None:
            self._readers[Counter.HOST_CPU_FRAC] = self._cpu_share
        self.schedule = Schedule(interval_ns)
        self.channels = tuple(Channel(HOST_DEVICE, counter, interval_ns) for counter in self._readers)

    def read(self) -> Sequence[float | None]:
        """Return the current value of every counter that this machine has."""
        return [read() for read in self._readers.values()]

    def _read_cpu_times(self) -> CpuTimes | None:
        return parse_cpu_times(read_text(self._root / "proc/stat") or "")

    def _cpu_share(self) -> float | None:
        before, self._cpu_times = self._cpu_times, self._read_cpu_times()
        if before is None or self._cpu_times is None:
            return None
        return self._cpu_times.share_since(before)

    def _major_faults(self) -> float | None:
        return parse_named_numbers(read_text(self._root / "proc/vmstat") or "").get("pgmajfault")

    def _frequency_mhz(self) -> float | None:
        """Return the mean of a few processors: reading one may interrupt it, and some machines have hundreds."""
        texts = [(read_text(file) or "").strip() for file in self._frequency_files]
        frequencies_khz = [int(text) for text in texts if text.isdecimal()]
        return sum(frequencies_khz) / len(frequencies_khz) / _KHZ_PER_MHZ if frequencies_khz else None


def _spread(files: list[Path]) -> list[Path]:
    """Return a few of the files, evenly spread over them."""
    return files[:: -(-len(files) // _FREQUENCIES_READ)] if files else []
