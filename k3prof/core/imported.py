"""What another program recorded while a server worked, in the terms of a trace."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from k3prof.core.device import Device
from k3prof.core.spans import SpanKind, Spans, union
from k3prof.core.timeline import Counter, Series
from k3prof.core.trial import Caveat, TrialSpec
from k3prof.errors import ConfigError

IMPORTED = "imported"
"""Begins the build of a trial that another program recorded: which llama.cpp it was is not known."""

_SECONDS = re.compile(r"\d+(\.\d+)?")
_TIME_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?")
_DAY = timedelta(days=1)
_MICROSECOND = timedelta(microseconds=1)
_MOST_KNOTS = 200_000


def is_imported(spec: TrialSpec) -> bool:
    """Return whether a trial is what another program recorded: it need not have requests."""
    return spec.build.startswith(IMPORTED)


@dataclass(frozen=True)
class RecordedClock:
    """What dates the times of a recording, which count in nanoseconds from its own zero.

    Attributes:
        local: The time at zero as the recording itself writes it, without a zone; None when it writes none.
        has_date: Whether it writes the date as well; `local` has an arbitrary one otherwise.
        unix_ns: The same moment in nanoseconds since 1970 in UTC; None when the zone is not known.
    """

    local: datetime | None = None
    has_date: bool = False
    unix_ns: int | None = None

    def shown(self, time_ns: int) -> str:
        """Return a time as the recording would write it: `2026-07-24 12:00:03`, or `3.0 s` where it writes none."""
        if self.local is None:
            return f"{time_ns / 1e9:.1f} s"
        moment = self.local + timedelta(microseconds=time_ns // 1000)
        zone = "" if self.unix_ns is None else " UTC"
        return moment.isoformat(" ", "seconds") + zone if self.has_date else f"{moment:%H:%M:%S}"

    def time_ns(self, text: str) -> int:
        """Return what a person means by a time: seconds from zero, a time of day, or a date and time.

        Raises:
            ConfigError: It is none of these, or needs a clock that the recording does not have.
        """
        text = text.strip()
        if _SECONDS.fullmatch(text):
            return round(float(text) * 1e9)
        time_of_day = _TIME_OF_DAY.fullmatch(text)
        moment = None if time_of_day else _moment(text)
        if not time_of_day and moment is None:
            raise ConfigError(f"{text!r} is no time", "write 12.5 (seconds), 14:03:00 or '2026-07-24 14:03:00'")
        if self.local is None:
            raise ConfigError(f"{text!r}: the recording says no times", "write seconds from its first reading: 12.5")
        if time_of_day:
            hour, minute, second, fraction = time_of_day.groups(default="0")
            at = timedelta(0, int(second), int(fraction.ljust(6, "0")), 0, int(minute), int(hour))
            since = at - (self.local - self.local.replace(hour=0, minute=0, second=0, microsecond=0))
            return (since % _DAY) // _MICROSECOND * 1000
        assert moment is not None  # noqa: S101 - for the type checker
        if moment.tzinfo is not None:
            if self.unix_ns is None:
                raise ConfigError(f"{text!r}: the recording says no zone", "write the time as the recording does")
            return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // _MICROSECOND * 1000 - self.unix_ns
        if not self.has_date:
            raise ConfigError(f"{text!r}: the recording says no dates", "write the time of day alone: 14:03:00")
        return (moment - self.local) // _MICROSECOND * 1000


@dataclass(frozen=True, eq=False)
class ImportedRun:
    """What another program recorded. Its times count in nanoseconds from its clock's zero.

    Attributes:
        kind: What it was read as: `nsys`, `dmon`.
        source: What wrote it, for people.
        devices: The devices it is about.
        series: Samples; every device has one of the busy counters.
        spans: Single pieces of work with begin and end; empty for a recording of counters.
        begin_ns: The first moment that it says something about.
        end_ns: The last.
        clock: What dates these.
        caveats: Reasons to doubt it.
        counts: How much of what was read, and how much was left out, in the order to show them.
    """

    kind: str
    source: str
    devices: tuple[Device, ...]
    series: tuple[Series, ...]
    spans: Spans
    begin_ns: int
    end_ns: int
    clock: RecordedClock
    caveats: tuple[Caveat, ...]
    counts: Mapping[str, int]

    @property
    def exact(self) -> bool:
        """Whether begin and end of everything that ran are known, rather than shares of windows."""
        return bool(len(self.spans))


def busy_time(spans: Spans, devices: Sequence[Device], begin_ns: int, end_ns: int) -> tuple[Series, ...]:
    """Return each device's cumulative busy time from spans, which lie in the interval.

    Between two of its samples a device was busy all the time or idle all the time, so that every difference is exact;
    with very many changes, samples at equal distances instead, which are exact themselves.
    """
    return tuple(_busy_time(spans, device.name, begin_ns, end_ns) for device in devices)


def _busy_time(spans: Spans, device: str, begin_ns: int, end_ns: int) -> Series:
    work = spans.of_kind(SpanKind.COMPUTE).on(device)
    begins_ns, ends_ns = union(work.begin_ns, work.end_ns)
    lengths_ns = ends_ns - begins_ns
    total_ns = np.cumsum(lengths_ns)
    edges_ns = np.stack([begins_ns, ends_ns], axis=1).ravel()
    busy_ns = np.stack([total_ns - lengths_ns, total_ns], axis=1).ravel()
    knots_ns = np.concatenate([[begin_ns], edges_ns, [end_ns]])
    value = np.concatenate([[0], busy_ns, total_ns[-1:] if total_ns.size else [0]]).astype(np.float64)
    period_ns = 1
    if knots_ns.size > _MOST_KNOTS:
        period_ns = -(-(end_ns - begin_ns) // _MOST_KNOTS)
        ticks_ns = np.append(np.arange(begin_ns, end_ns, period_ns), end_ns)
        knots_ns, value = ticks_ns, _interpolated(ticks_ns, knots_ns, value)
    first = np.append(knots_ns[1:] > knots_ns[:-1], True)
    return Series(device, Counter.BUSY_TIME_NS, period_ns, knots_ns[first], value[first])


def _interpolated(
    at_ns: NDArray[np.int64], knots_ns: NDArray[np.int64], value: NDArray[np.float64]
) -> NDArray[np.float64]:
    # Counted from the first knot, so that nanoseconds survive in a float.
    found: NDArray[np.float64] = np.interp(at_ns - knots_ns[0], knots_ns - knots_ns[0], value)
    return found


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.replace("/", "-"))
    except ValueError:
        return None
