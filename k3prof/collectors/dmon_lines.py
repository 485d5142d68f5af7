"""The lines that `nvidia-smi dmon` and `nvidia-smi --query-gpu` write: headers, and rows under them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from k3prof.collectors.dmon_columns import ALIASES, DMON, IDENTITIES, QUERY, Column
from k3prof.core.timeline import Counter

_QUERY_NAME = re.compile(r"([a-z][a-z0-9_.]*)(?: \[([^\]]*)\])?")
_DATE_AND_TIME = re.compile(r"\d{8} \d{2}:\d{2}:\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{3})?")
_IDENTITY = {
    "index": re.compile(r"\d{1,3}"),
    "uuid": re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{1,80}"),
    "pci.bus_id": re.compile(r"[0-9A-Fa-f]{1,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]"),
}
_MEMORY = Column(Counter.MEMORY_BYTES, "MiB", 2.0**20)
_FACTS = (*IDENTITIES, "name")
_LONGEST_LINE = 10_000


@dataclass(frozen=True)
class Layout:
    """What a header says of the rows below it.

    Attributes:
        program: What wrote them.
        names: The columns, in lower case, by their names in `--query-gpu` where there are two.
        commas: Whether commas part them, or else blanks.
        columns: What is counted in those that are understood.
    """

    program: str
    names: tuple[str, ...]
    commas: bool
    columns: Mapping[str, Column]

    @property
    def identity(self) -> str | None:
        """The column that tells GPUs apart; None when there is none."""
        return next((name for name in IDENTITIES if name in self.names), None)

    @property
    def dated(self) -> bool:
        """Whether rows say the date and the time."""
        return "timestamp" in self.names or {"date", "time"} <= set(self.names)

    @property
    def timed(self) -> bool:
        """Whether rows say at least the time of day."""
        return self.dated or "time" in self.names


@dataclass(frozen=True)
class Row:
    """One reading of one GPU.

    Attributes:
        gpu: Its index, UUID or PCI bus id.
        when: The time as written, with an arbitrary date where none is; None where no time is.
        values: What was read, NaN for what the GPU does not offer.
        facts: What the row says of the GPU: `index`, `uuid`, `pci.bus_id`, `name`.
        memory_bytes: The GPU's memory; None where the row does not say.
    """

    gpu: str
    when: datetime | None
    values: Mapping[Counter, float]
    facts: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int | None = None


def query_layout(names: Sequence[str]) -> Layout | None:
    """Return the layout of `--query-gpu` with such columns, None when they are not names of columns.

    A name may carry its unit, as in the header: `utilization.gpu [%]`.
    """
    found: list[str] = []
    for name in names:
        match = _QUERY_NAME.fullmatch(name.strip())
        if match is None:
            return None
        plain, unit = ALIASES.get(match[1], match[1]), match[2]
        if unit is not None and plain in QUERY and unit != QUERY[plain].unit:
            return None
        found.append(plain)
    if not any(name in QUERY or name in IDENTITIES or name == "timestamp" for name in found):
        return None
    return Layout("nvidia-smi --query-gpu", tuple(found), True, {name: QUERY[name] for name in found if name in QUERY})


def header(line: str) -> Layout | None:
    """Return what a line says as a header; None when it is none."""
    if not line.startswith("#"):
        return query_layout(line.split(",")) if "," in line else None
    commas = "," in line
    names = [ALIASES.get(name.lower(), name.lower()) for name in _cells(line.lstrip("#"), commas)]
    if "index" not in names:
        return None
    return Layout("nvidia-smi dmon", tuple(names), commas, {name: DMON[name] for name in names if name in DMON})


def is_units(line: str) -> bool:
    """Return whether a line is the second line of a `dmon` header, which names units."""
    return line.startswith("#") and "idx" in _cells(line.lstrip("#").lower(), "," in line)


def read_row(line: str, layout: Layout) -> Row | None:
    """Return what a line says under a layout; None when it is cut, mixed with another or otherwise no such row."""
    cells = _cells(line, layout.commas) if len(line) <= _LONGEST_LINE else []
    if len(cells) != len(layout.names) or layout.identity is None:
        return None
    by_name = dict(zip(layout.names, cells, strict=True))
    when = _when(by_name) if layout.timed else None
    if (layout.timed and when is None) or not all(
        pattern.fullmatch(by_name[name]) for name, pattern in _IDENTITY.items() if name in by_name
    ):
        return None
    values: dict[Counter, float] = {}
    for name, column in layout.columns.items():
        value = column.read(by_name[name])
        if value is None:
            return None
        values[column.counter] = value
    total = _MEMORY.read(by_name.get("memory.total", ""))
    facts = {name: by_name[name] for name in _FACTS if name in by_name}
    return Row(by_name[layout.identity], when, values, facts, int(total) if total is not None and total > 0 else None)


def _cells(line: str, commas: bool) -> list[str]:
    return [cell.strip() for cell in line.split(",")] if commas else line.split()


def _when(by_name: Mapping[str, str]) -> datetime | None:
    if "timestamp" in by_name:
        text, pattern = by_name["timestamp"].replace("/", "-"), _TIMESTAMP
    elif "date" in by_name:
        text, pattern = f"{by_name['date']} {by_name['time']}", _DATE_AND_TIME
    else:
        text, pattern = f"19700101 {by_name['time']}", _DATE_AND_TIME
    try:
        return datetime.fromisoformat(text) if pattern.fullmatch(text) else None
    except ValueError:
        return None
