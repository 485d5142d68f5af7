"""What a log tells, as tables of text: memory, requests, and a model's header against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from k3prof.core.evidence.check import Agreement, Check
from k3prof.core.evidence.explanation import Explanation
from k3prof.core.evidence.loaded import HOST_DEVICE, BufferKind, LoadedServer, LoggedRequest, MemoryRow
from k3prof.core.trial import RequestStatus
from k3prof.reporters.formats import UNKNOWN, rate

_REQUESTS_SHOWN = 20
_NEEDED_FOR_TOTAL = (BufferKind.MODEL, BufferKind.KV, BufferKind.COMPUTE)

_MAPPED = (
    "A mapped buffer is the range of the file from its first to its last tensor on the host: tensors between them that "
    "lie on devices are counted twice."
)
_AGREEMENT = {Agreement.SAME: "the same", Agreement.DIFFERS: "differs", Agreement.UNKNOWN: "not in the log"}


@dataclass(frozen=True)
class Table:
    """One headed table.

    Attributes:
        heading: What it shows.
        columns: Heads.
        rows: Cells.
        words: Columns that hold words; the others hold figures.
        note: What a reader should know of it; empty for nothing.
    """

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: tuple[int, ...] = (0,)
    note: str = ""


def tables(explanation: Explanation) -> Iterator[Table]:
    """Yield the tables that a log has figures for."""
    done = explanation.done
    if done.buffers:
        yield _buffers(done)
    if done.memory is not None:
        yield _memory(done.memory)
    if done.requests:
        yield _requests(done.requests)
    if explanation.header:
        yield _header(explanation.header)


def _header(checks: Sequence[Check]) -> Table:
    rows = tuple((check.name, check.asked, check.done or UNKNOWN, _AGREEMENT[check.agreement]) for check in checks)
    return Table("The model's header against the log", ("", "header", "log", ""), rows, words=(0, 1, 2, 3))


def _buffers(done: LoadedServer) -> Table:
    kinds = [kind for kind in BufferKind if kind in done.buffers or kind is not BufferKind.STATE]
    sizes: dict[str, dict[BufferKind, float]] = {device.name: {} for device in done.devices or ()}
    for kind, buffers in done.buffers.items():
        for buffer in buffers:
            row = sizes.setdefault(buffer.device or buffer.name, {})
            row[kind] = row.get(kind, 0.0) + buffer.mib
    if HOST_DEVICE in sizes:
        sizes[HOST_DEVICE] = sizes.pop(HOST_DEVICE)
    rows = tuple(
        (name, *(_mib(done, kind, name, row) for kind in kinds), _total(done, name, row)) for name, row in sizes.items()
    )
    return Table("Memory by device, MiB", ("", *map(str, kinds), "total"), rows, note=_mapped_note(done))


def _mib(done: LoadedServer, kind: BufferKind, name: str, row: Mapping[BufferKind, float]) -> str:
    """Return a device's memory of one kind; what it lacks is nought only where every buffer's device is known."""
    if kind in row:
        return f"{row[kind]:,.2f}"
    known = kind in done.buffers and (name == HOST_DEVICE or not _spread(done, kind))
    return "0.00" if known else UNKNOWN


def _spread(done: LoadedServer, kind: BufferKind) -> bool:
    """Whether a buffer of this kind lies on several devices, or on one that the log does not tell."""
    return any(buffer.device is None for buffer in done.buffers.get(kind, ()))


def _total(done: LoadedServer, name: str, row: Mapping[BufferKind, float]) -> str:
    complete = all(kind in done.buffers for kind in _NEEDED_FOR_TOTAL)
    spread = name != HOST_DEVICE and any(_spread(done, kind) for kind in BufferKind)
    return f"{sum(row.values()):,.2f}" if complete and not spread else UNKNOWN


def _mapped_note(done: LoadedServer) -> str:
    mapped = any("_Mapped" in buffer.name for buffer in done.buffers.get(BufferKind.MODEL, ()))
    return _MAPPED if mapped else ""


def _memory(rows: Sequence[MemoryRow]) -> Table:
    columns = ("", "total", "free", "own", "model", "context", "compute", "unaccounted")
    cells = [(row.total, row.free, row.own, row.model, row.context, row.compute, row.unaccounted) for row in rows]
    shown = [tuple("" if cell is None else f"{cell:,}" for cell in line) for line in cells]
    named = tuple((row.name, *line) for row, line in zip(rows, shown, strict=True))
    return Table("The server's own account when it ended, MiB", columns, named)


def _requests(requests: Sequence[LoggedRequest]) -> Table:
    shown = requests[-_REQUESTS_SHOWN:]
    left_out = len(requests) - len(shown)
    rows = tuple(
        (
            UNKNOWN if request.task is None else str(request.task),
            _number(request.prompt_n),
            rate(request.prompt_per_s),
            _number(request.predicted_n),
            rate(request.predicted_per_s),
            UNKNOWN if request.total_ms is None else f"{request.total_ms / 1e3:,.2f}",
            _request_note(request),
        )
        for request in shown
    )
    columns = ("task", "prompt", "tok/s", "generated", "tok/s", "wall s", "notes")
    note = f"The last {len(shown)} of {len(requests):,} requests; JSON has them all." if left_out else ""
    return Table("Requests", columns, rows, words=(0, len(columns) - 1), note=note)


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def _request_note(request: LoggedRequest) -> str:
    drafts = None
    if request.draft_n:
        drafts = f"{_number(request.draft_n_accepted)} of {request.draft_n:,} drafted tokens accepted"
    implausible = request.status is not RequestStatus.OK
    doubt = f"{request.status}: {request.reason}" if implausible else None
    return ", ".join(filter(None, ("cold" if request.cold else None, drafts, doubt)))
