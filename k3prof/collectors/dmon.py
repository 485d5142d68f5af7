"""Reads what `nvidia-smi dmon` and `nvidia-smi --query-gpu=… --format=csv` wrote into a file.

Lines that are cut, mixed with others, or of another program are counted and left out: nothing in them is guessed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import nan

import numpy as np
from numpy.typing import NDArray

from k3prof.collectors.dmon_lines import Layout, Row, header, is_units, query_layout, read_row
from k3prof.core.device import Device, DeviceKind
from k3prof.core.imported import ImportedRun, RecordedClock
from k3prof.core.spans import NO_SPANS
from k3prof.core.timeline import Counter, Series
from k3prof.core.trial import Caveat
from k3prof.errors import ConfigError

_DEFAULT_EVERY_S = 1.0
_WIDEST_WINDOW_NS = 1_000_000_000
"""The driver's utilisation counter averages over 1/6 to 1 s: NVML's description of `nvmlUtilization_t`."""
_MOST_GPUS = 256
_HALF_DAY = timedelta(hours=12)
_MICROSECOND = timedelta(microseconds=1)
_NS_PER_US, _SECOND_NS = 1000, 1_000_000_000
_DAY_US = 86_400_000_000
_HINT = "give what `nvidia-smi dmon` or `nvidia-smi --query-gpu=… --format=csv` writes"
_COLUMNS_HINT = "--columns timestamp,index,utilization.gpu,…: what was given to --query-gpu"


def read_dmon(text: str, name: str, columns: Sequence[str] = (), every_s: float | None = None) -> ImportedRun:
    """Read a recording.

    Args:
        text: The whole file.
        name: What to call it in messages.
        columns: What was given to `--query-gpu`, for a file without a header.
        every_s: How far apart readings are, for a file without times; None for what dmon does by default.

    Raises:
        ConfigError: No line of it is a reading, or it cannot be told of which GPU.
    """
    rows = _Rows()
    if columns:
        rows.layout = query_layout(columns)
        if rows.layout is None:
            raise ConfigError(f"--columns: {', '.join(columns)}: no names that --query-gpu knows", _COLUMNS_HINT)
    whole, _, rest = text.rpartition("\n")
    for number, line in enumerate(whole.split("\n"), start=1):
        rows.add(line.strip(), number)
    if rest.strip():
        # A line without an end may be cut within a number, which then is another number.
        rows.skip(text.count("\n") + 1)
    if not rows.gpus:
        raise ConfigError(f"{name}: {rows.refusal}", _COLUMNS_HINT if rows.commas else _HINT)
    return _recording(rows, every_s)


@dataclass
class _Gpu:
    """What was read of one GPU: a place in time for each reading, and a value of each counter, NaN where unknown."""

    at: array[int] = field(default_factory=lambda: array("q"))
    values: dict[Counter, array[float]] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    memory_bytes: int | None = None

    def add(self, at: int, row: Row) -> None:
        for counter in row.values.keys() - self.values.keys():
            self.values[counter] = array("d", [nan]) * len(self.at)
        for counter, values in self.values.items():
            values.append(row.values.get(counter, nan))
        self.at.append(at)
        self.facts |= row.facts
        self.memory_bytes = row.memory_bytes or self.memory_bytes


@dataclass
class _Rows:
    """Rows as they come, grouped by GPU."""

    layout: Layout | None = None
    first_layout: Layout | None = None
    gpus: dict[str, _Gpu] = field(default_factory=dict)
    origin: datetime | None = None
    skipped: int = 0
    first_skipped: int = 0
    commas: bool = False
    refusal: str = "no line of it is a reading of nvidia-smi"
    _in_round: set[str] = field(default_factory=set)
    _round: int = 0
    _midnights: int = 0
    _last: datetime | None = None

    def add(self, line: str, number: int) -> None:
        """Take the next line, free of blanks around it."""
        if not line or is_units(line):
            return
        found = header(line)
        if found is not None:
            self._begin(found)
            return
        row = read_row(line, self.layout) if self.layout is not None else None
        if row is None or not self._take(row):
            self.commas |= "," in line
            self.skip(number)

    def skip(self, number: int) -> None:
        """Leave out a line."""
        self.skipped += 1
        self.first_skipped = self.first_skipped or number

    def _begin(self, layout: Layout) -> None:
        if layout.identity is None:
            self.refusal = "its columns do not say which GPU a row is of: none is index, uuid or pci.bus_id"
        self.layout = layout

    def _take(self, row: Row) -> bool:
        """Keep a row at its place in time: microseconds since the first one, or its round where no time is written."""
        assert self.layout is not None  # noqa: S101 - for the type checker
        first = self.first_layout = self.first_layout or self.layout
        if (first.timed, first.dated, first.identity) != (self.layout.timed, self.layout.dated, self.layout.identity):
            return False
        at = self._next_round(row.gpu) if row.when is None else self._since_first(row.when, first.dated)
        gpu = self.gpus.get(row.gpu, _Gpu())
        if at < (gpu.at[-1] if gpu.at else 0):
            return False
        gpu.add(at, row)
        self.gpus[row.gpu] = gpu
        if len(self.gpus) > _MOST_GPUS:
            raise ConfigError(f"{len(self.gpus)} GPUs cannot be of one machine", _HINT)
        return True

    def _next_round(self, gpu: str) -> int:
        """Return which reading of all GPUs a row belongs to: a new one begins when a GPU comes again."""
        if gpu in self._in_round:
            self._round += 1
            self._in_round.clear()
        self._in_round.add(gpu)
        return self._round

    def _since_first(self, when: datetime, dated: bool) -> int:
        self.origin = self.origin or when
        if not dated and self._last is not None and self._last - when > _HALF_DAY:
            self._midnights += 1
        self._last = when
        return (when - self.origin) // _MICROSECOND + self._midnights * _DAY_US


def _recording(rows: _Rows, every_s: float | None) -> ImportedRun:
    assert rows.first_layout is not None  # noqa: S101 - for the type checker
    timed = rows.origin is not None
    every_ns = round((every_s or _DEFAULT_EVERY_S) * 1e9)
    gpus = sorted(rows.gpus.values(), key=lambda gpu: int(gpu.facts.get("index", 0)))
    times_ns = [_spread(np.array(gpu.at, np.int64) * (_NS_PER_US if timed else every_ns), timed) for gpu in gpus]
    steps_ns = np.concatenate([np.diff(one) for one in times_ns])
    period_ns = max(int(np.median(steps_ns)), 1) if steps_ns.size else every_ns
    devices = tuple(_device(place, gpu) for place, gpu in enumerate(gpus))
    return ImportedRun(
        kind="dmon",
        source=rows.first_layout.program,
        devices=devices,
        series=tuple(
            one
            for device, gpu, time_ns in zip(devices, gpus, times_ns, strict=True)
            for one in _series(device.name, gpu, time_ns, period_ns)
        ),
        spans=NO_SPANS,
        begin_ns=min(int(one[0]) for one in times_ns),
        end_ns=max(int(one[-1]) for one in times_ns),
        clock=RecordedClock(rows.origin, rows.first_layout.dated),
        caveats=tuple(_caveats(rows, period_ns, every_s)),
        counts={"readings": sum(len(gpu.at) for gpu in gpus), "lines left out": rows.skipped},
    )


def _spread(time_ns: NDArray[np.int64], timed: bool) -> NDArray[np.int64]:
    """Return strictly increasing times: readings that share a printed time lie spread over the time that it stands for.

    A printed second stands for all of it, so that every one of these places is as true as the printed one.
    """
    different, which, counts = np.unique(time_ns, return_inverse=True, return_counts=True)
    if different.size == time_ns.size or not timed:
        return time_ns
    whole_seconds = not (different % _SECOND_NS).any()
    width_ns = _SECOND_NS if whole_seconds else _SECOND_NS // 1000
    first = np.searchsorted(time_ns, time_ns, side="left")
    return time_ns + (np.arange(time_ns.size) - first) * width_ns // counts[which]


def _series(device: str, gpu: _Gpu, time_ns: NDArray[np.int64], period_ns: int) -> Iterator[Series]:
    for counter in Counter:
        value = np.array(gpu.values.get(counter, ()), np.float64)
        known = ~np.isnan(value)
        if known.any():
            yield Series(device, counter, period_ns, time_ns[known], value[known])


def _device(place: int, gpu: _Gpu) -> Device:
    return Device(
        name=f"GPU{int(gpu.facts.get('index', place))}",
        kind=DeviceKind.CUDA,
        description=gpu.facts.get("name", ""),
        memory_bytes=gpu.memory_bytes,
        uuid=gpu.facts.get("uuid"),
        pci_bus_id=gpu.facts.get("pci.bus_id"),
    )


def _caveats(rows: _Rows, period_ns: int, every_s: float | None) -> Iterator[Caveat]:
    if rows.origin is None:
        given = "as given" if every_s is not None else "which is what dmon does unless told otherwise"
        yield Caveat(
            "times-assumed",
            f"the recording says no times: readings are taken to be {every_s or _DEFAULT_EVERY_S:g} s apart, {given}",
            "record with `nvidia-smi dmon -o DT`, or say how far apart they are with --every",
        )
    if rows.skipped:
        are = "line is no reading and is" if rows.skipped == 1 else "lines are no readings and are"
        yield Caveat(
            "lines-skipped",
            f"{rows.skipped:,} {are} left out, beginning with line {rows.first_skipped:,}",
            "look at them: what is missing there is missing from every figure",
        )
    if period_ns > _WIDEST_WINDOW_NS:
        yield Caveat(
            "polled",
            f"read every {period_ns / 1e9:g} s: a reading is a mean over at most the second before it, and what "
            "happened between two of them is not known",
            "record with `nvidia-smi dmon -d 1 -o DT`",
        )
