"""Turns what another program recorded into a trace: the rest of k3prof then shows it like a trial of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from k3prof.collectors.dmon import read_dmon
from k3prof.collectors.nsys import read_nsys
from k3prof.core.imported import IMPORTED, ImportedRun
from k3prof.core.imported_figures import StretchFigures, stretch_figures
from k3prof.core.imported_request import end_of_reply, placed_request
from k3prof.core.timeline import ClockAnchor
from k3prof.core.trial import Command, Outcome, RequestRecord, TrialSpec, TrialStatus
from k3prof.errors import ConfigError, TraceError
from k3prof.llama.reply import read_reply
from k3prof.reporters import imported
from k3prof.store.trace import Trace

_MOST_BYTES = 64 * 2**20
_SPANS_AT_ONCE = 250_000


@dataclass(frozen=True)
class Selection:
    """Which part of a recording is about the request of interest.

    Attributes:
        begin: When it begins, as the recording writes times, or in seconds from its begin; None when not said.
        end: When it ends.
        reply: llama-server's reply to the request, which tells prefill from decode; None when there is none.
    """

    begin: str | None = None
    end: str | None = None
    reply: Path | None = None


@dataclass(frozen=True, eq=False)
class Import:
    """What became of a recording.

    Attributes:
        run: What it says.
        figures: What that shows: as a whole first, then by phase.
        trace: Where it lies as a trace now.
    """

    run: ImportedRun
    figures: tuple[StretchFigures, ...]
    trace: Path


def import_nsys(path: Path, output: Path | None, selection: Selection) -> Import:
    """Import an Nsight Systems SQLite export.

    Raises:
        ConfigError: It is none, or nothing can be selected so.
        TraceError: The trace cannot be written.
    """
    return _import(read_nsys(path), path, output, selection)


def import_dmon(
    path: Path, output: Path | None, selection: Selection, columns: Sequence[str] = (), every_s: float | None = None
) -> Import:
    """Import what `nvidia-smi dmon` or `nvidia-smi --query-gpu` wrote; see `read_dmon`.

    Raises:
        ConfigError: It is none, or nothing can be selected so.
        TraceError: The trace cannot be written.
    """
    return _import(read_dmon(_read_text(path), str(path), columns, every_s), path, output, selection)


def _import(run: ImportedRun, path: Path, output: Path | None, selection: Selection) -> Import:
    if run.end_ns <= run.begin_ns:
        raise ConfigError(f"{path}: says something about one moment alone", "record for some seconds")
    if selection.reply is None:
        run, request = _cut(run, selection), None
    else:
        request = _request(run, selection, selection.reply)
    figures = tuple(_figures(run, request, "recording" if selection == Selection() or request else "selection"))
    trace = output or Path("traces") / f"{path.stem}.{run.kind}.sqlite"
    _write(trace, path, run, request, figures)
    return Import(run, figures, trace)


def _cut(run: ImportedRun, selection: Selection) -> ImportedRun:
    begin_ns = run.begin_ns if selection.begin is None else run.clock.time_ns(selection.begin)
    end_ns = run.end_ns if selection.end is None else run.clock.time_ns(selection.end)
    if not run.begin_ns <= begin_ns < end_ns <= run.end_ns:
        shown = [run.clock.shown(one) for one in (begin_ns, end_ns, run.begin_ns, run.end_ns)]
        raise ConfigError(
            f"--from and --to: {shown[0]} to {shown[1]} is no part of the recording, {shown[2]} to {shown[3]}",
            "write both as the recording writes times, or in seconds from its begin",
        )
    return replace(run, spans=run.spans.reaching_into(begin_ns, end_ns), begin_ns=begin_ns, end_ns=end_ns)


def _request(run: ImportedRun, selection: Selection, path: Path) -> RequestRecord:
    if selection.begin is not None and selection.end is not None:
        raise ConfigError("--timings, --from and --to: the timings say how long it took", "give --from or --to alone")
    reply = read_reply(_read_text(path), str(path))
    begin_ns = None if selection.begin is None else run.clock.time_ns(selection.begin)
    end_ns = None if selection.end is None else run.clock.time_ns(selection.end)
    if begin_ns is None and end_ns is None:
        end_ns = end_of_reply(run, reply.timings, reply.created_s)
    return placed_request(run, reply.timings, begin_ns, end_ns)


def _figures(run: ImportedRun, request: RequestRecord | None, whole: str) -> list[StretchFigures]:
    found = [stretch_figures(run, f"whole {whole}", run.begin_ns, run.end_ns)]
    if request is not None:
        first_ns, last_ns = int(request.arrivals_ns[0]), int(request.arrivals_ns[-1])
        found.append(stretch_figures(run, "prefill", request.sent_ns, first_ns))
        if last_ns > first_ns:
            found.append(stretch_figures(run, "decode", first_ns, last_ns))
    return found


def _write(
    output: Path, source: Path, run: ImportedRun, request: RequestRecord | None, figures: Sequence[StretchFigures]
) -> None:
    """Write the trace whole or not at all; the place of an earlier import is taken, nothing else's."""
    _check_output(output)
    draft = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with Trace.writable(draft) as trace:
            _fill(trace, source, run, request, figures)
        draft.replace(output)
    except OSError as error:
        raise TraceError(f"{output}: cannot be written: {error.strerror}", "name another file with -o") from error
    except TraceError as error:
        raise TraceError(error.message.replace(draft.name, output.name), "name another file with -o") from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _check_output(output: Path) -> None:
    if not output.exists():
        return
    with Trace.readable(output) as trace:
        earlier = IMPORTED in trace.last_sweep().settings
    if not earlier:
        raise TraceError(f"{output}: is the trace of a sweep, and is kept", "name another file with -o")


def _fill(
    trace: Trace, source: Path, run: ImportedRun, request: RequestRecord | None, figures: Sequence[StretchFigures]
) -> None:
    spec = TrialSpec(
        placement=source.stem,
        model=IMPORTED,
        model_path="model not recorded",
        build=f"{IMPORTED}:{run.kind}",
        devices=tuple(device.uuid or device.name for device in run.devices),
        flags={},
        env={},
        workloads=() if request is None else (request.workload,),
        repeat=1,
    )
    settings = {IMPORTED: run.kind, "file": str(source)}
    anchor = None if run.clock.unix_ns is None else ClockAnchor(0, run.clock.unix_ns)
    asked = [(spec.placement, spec.configuration)]
    sweep = trace.begin_sweep(anchor, settings, dict(imported.facts(run, figures)), asked)
    trial = trace.begin_trial(sweep, spec, run.devices, Command((), {}), predicted=None, started_ns=run.begin_ns)
    trace.add_samples(trial, run.series)
    for at in range(0, len(run.spans), _SPANS_AT_ONCE):
        trace.add_spans(trial, run.spans.where(np.arange(at, min(at + _SPANS_AT_ONCE, len(run.spans)))))
    if request is not None:
        trace.add_requests(trial, [request])
    trace.add_caveats(trial, run.caveats)
    trace.finish_trial(trial, Outcome(TrialStatus.OK), run.end_ns, {})


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise ConfigError("the file's name holds a null character") from None
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{path}: longer than {_MOST_BYTES // 2**20} MiB", "give the part of interest")
    return data.decode(errors="replace")
