"""What a source of samples is: counters that are read together, or a record that is drained; and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from k3prof.core.timeline import Counter, Series


@dataclass(frozen=True)
class Channel:
    """One counter of one device, as a source offers it.

    Attributes:
        device: The device's name: `RPC0`, `CUDA1`, `CPU` (llama-server itself), `host` (the whole machine).
        counter: What is read.
        period_ns: The counter's own resolution: the window it averages over, or else the sampling interval.
    """

    device: str
    counter: Counter
    period_ns: int


@dataclass(frozen=True)
class Schedule:
    """Absolute deadlines on the monotonic clock: every multiple of the interval, shifted by the phase.

    Deadlines that depend on nothing but the clock cannot drift, however late a reading comes.

    Attributes:
        interval_ns: Time from one deadline to the next, above 0.
        phase_ns: Time from a multiple of the interval to the deadline.
    """

    interval_ns: int
    phase_ns: int = 0

    def next_after(self, time_ns: int) -> int:
        """Return the first deadline after `time_ns`; deadlines that were missed are not made up for."""
        return time_ns + self.interval_ns - (time_ns - self.phase_ns) % self.interval_ns


class Source(Protocol):
    """Counters that are read together. Reading one never raises: what cannot be read is None."""

    @property
    def channels(self) -> tuple[Channel, ...]:
        """What `read` returns, in its order."""

    @property
    def schedule(self) -> Schedule:
        """When to read."""

    def read(self) -> Sequence[float | None]:
        """Return the current value of every channel, None where it could not be read now."""


class RecordSource(Protocol):
    """Something that keeps a record, whose entries are dated by whoever wrote them. Draining one never raises."""

    @property
    def device(self) -> str:
        """The device it is about; empty when it is about several."""

    @property
    def schedule(self) -> Schedule:
        """When to drain; it may change from one time to the next."""

    def drain(self) -> Sequence[Series]:
        """Return what was recorded since the last call, in order of time, NaN for what could not be read."""

    def finish(self) -> Sequence[Series]:
        """Return the rest, since nobody will drain it again."""
