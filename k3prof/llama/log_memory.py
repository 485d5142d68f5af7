"""What the log says about `--fit` and about memory in all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from k3prof.core.evidence.loaded import FitFacts, FitStatus, MemoryRow
from k3prof.llama.log_lines import LogLine
from k3prof.llama.log_sections import FIT_OWNER

_GAVE_UP = re.compile(r"failed to fit params to free device memory: (.+)$")
_FAILED = re.compile(r"encountered an error while trying to fit params to free device memory: (.+)$")
_CONTEXT_REDUCED = re.compile(r"context size reduced from (\d{1,12}) to (\d{1,12}) ->")
_MOVED = re.compile(r"id=\d+, n_layer= *\d+|set (?:to use|ngl_per_device)")
_NO_CHANGE = re.compile(r".*no changes needed")
_SUCCEEDED = re.compile(r"successfully fit params")
_ANNOUNCED = re.compile(r"loading model '")
_PATH = re.compile(r"local path '")

_ROW = re.compile(
    r"\| +- (?P<name>\S+)(?: \(.*\))? +\| *(?:(?P<total>\d+) = +(?P<free>\d+) \+ \()? *(?P<own>\d+) = +(?P<model>\d+)"
    r" \+ +(?P<context>\d+) \+ +(?P<compute>\d+)\)?(?: \+ +(?P<rest>-?\d+))? +\|$"
)
_HEADING = re.compile(r"\| memory breakdown \[MiB\]")


def read_fit(server: Sequence[LogLine]) -> FitFacts | None:
    """Read what `--fit` did; None where the log shows neither that it ran nor that it did not."""
    said = [line.message for line in server if FIT_OWNER.fullmatch(line.owner)]
    if not said:
        return FitFacts(FitStatus.NOT_RUN) if any(map(_load_follows, server, server[1:], server[2:])) else None
    reduced = [match for message in said if (match := _CONTEXT_REDUCED.match(message))]
    status, reason = _end_of_fit(said, changed=bool(reduced) or any(_MOVED.match(message) for message in said))
    return FitFacts(
        status,
        reason,
        int(reduced[0][1]) if reduced else None,
        int(reduced[-1][2]) if reduced else None,
    )


def _end_of_fit(said: Sequence[str], changed: bool) -> tuple[FitStatus | None, str]:
    for message in said:
        if gave_up := _GAVE_UP.match(message):
            return FitStatus.ABORTED, gave_up[1].removesuffix(", abort")
        if failed := _FAILED.match(message):
            return FitStatus.FAILED, failed[1]
        if _NO_CHANGE.match(message):
            return FitStatus.UNCHANGED, ""
    ended = any(_SUCCEEDED.match(message) for message in said)
    return (FitStatus.CHANGED, "") if ended and changed else (None, "")


def _load_follows(line: LogLine, second: LogLine, third: LogLine) -> bool:
    """Whether the load begins right after its announcement, with no place left for `--fit` between them."""
    adjacent = third.number == line.number + 2 and third.owner == "llama_model_loader"
    return adjacent and _ANNOUNCED.match(line.message) is not None and _PATH.match(second.message) is not None


def read_memory(lines: Sequence[LogLine]) -> tuple[MemoryRow, ...] | None:
    """Read the last memory table of these lines; None where there is none."""
    table: tuple[MemoryRow, ...] = ()
    for line in lines:
        if line.data is not None and line.owner == "fit_memory_breakdown":
            table = _from_record(line.data) or table
        elif _HEADING.match(line.message):
            table = ()
        elif row := _ROW.match(line.message):
            table = (*table, _from_row(row.groupdict()))
    return table or None


def _from_row(row: Mapping[str, str | None]) -> MemoryRow:
    def number(key: str) -> int | None:
        text = row[key]
        return None if text is None else int(text)

    return MemoryRow(
        name=row["name"] or "",
        total=number("total"),
        free=number("free"),
        own=number("own") or 0,
        model=number("model") or 0,
        context=number("context") or 0,
        compute=number("compute") or 0,
        unaccounted=number("rest"),
    )


def _from_record(record: Mapping[str, object]) -> tuple[MemoryRow, ...]:
    data = record.get("data")
    rows = data.get("rows") if isinstance(data, dict) else None
    return tuple(map(_from_json, filter(_is_row, rows))) if isinstance(rows, list) else ()


def _is_row(row: object) -> bool:
    needed = ("self", "model", "context", "compute")
    return isinstance(row, dict) and all(isinstance(row.get(key), int) for key in needed)


def _from_json(row: Mapping[str, object]) -> MemoryRow:
    def number(key: str) -> int | None:
        value = row.get(key)
        return value if isinstance(value, int) else None

    return MemoryRow(
        name=str(row.get("name", "")),
        total=number("total"),
        free=number("free"),
        own=number("self") or 0,
        model=number("model") or 0,
        context=number("context") or 0,
        compute=number("compute") or 0,
        unaccounted=number("unaccounted"),
    )
