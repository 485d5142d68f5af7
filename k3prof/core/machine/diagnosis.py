"""What was found out about a machine: what it can run and measure, what spoils measurements there, and the remedies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from k3prof.core.machine.gpu import GpuPath, GpuState
from k3prof.core.machine.host import HostFacts
from k3prof.core.machine.host_bandwidth import HostBandwidth
from k3prof.errors import K3profError


class Level(StrEnum):
    """How much a finding matters, the worst first."""

    PROBLEM = "problem"
    """It stands in the way of a sweep."""
    WARNING = "warning"
    """It spoils measurements."""
    NOTE = "note"
    """Worth knowing before reading figures; or something that cannot be measured here."""
    OK = "ok"
    """What this machine can do."""


@dataclass(frozen=True)
class Finding:
    """One thing found out about a machine.

    Attributes:
        level: How much it matters.
        subject: What it is about, in a word or two.
        message: What was found, in one clause.
        remedy: What to do about it; empty where there is nothing to do.
    """

    level: Level
    subject: str
    message: str
    remedy: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All that was found out.

    Attributes:
        findings: The worst first.
        host: The machine.
        gpus: Its GPUs, as far as programs started from here see them.
        bandwidth: How fast its memory can be read; None when that was never measured.
        gpu_paths: How these GPUs reach each other, pair by pair, as far as the driver tells.
    """

    findings: Sequence[Finding]
    host: HostFacts
    gpus: Sequence[GpuState]
    bandwidth: HostBandwidth | None
    gpu_paths: Sequence[GpuPath] = ()

    @property
    def can_sweep(self) -> bool:
        """Whether nothing stands in the way of a sweep."""
        return not self.of(Level.PROBLEM)

    def of(self, level: Level) -> list[Finding]:
        """Return the findings of one level."""
        return [finding for finding in self.findings if finding.level is level]


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Order findings by how much they matter; those of one level keep their order."""
    severity = {level: place for place, level in enumerate(Level)}
    return tuple(sorted(findings, key=lambda finding: severity[finding.level]))


def refusal(subject: str, error: K3profError, level: Level = Level.PROBLEM) -> Finding:
    """Return the finding that an error is: one which a sweep would end with."""
    return Finding(level, subject, error.message, error.hint)


def gigabytes(n_bytes: float) -> str:
    """Return a size in 10⁹ bytes: `46.1 GB`."""
    return f"{n_bytes / 1e9:,.1f} GB"


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as the kernel and taskset write lists of processors: `0-3,8`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def listed(words: Sequence[str], most: int = 3) -> str:
    """Return words as a list that stops after a few: `a, b, c and 2 more`."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
