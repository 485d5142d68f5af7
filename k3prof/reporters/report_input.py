"""What a report is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from k3prof.core.build import Build
from k3prof.core.machine.gpu import GpuPath
from k3prof.core.spans import Spans
from k3prof.core.summary import PlacementSummary
from k3prof.core.timeline import ClockAnchor, Series
from k3prof.core.trial import Command, TrialRecord


@dataclass(frozen=True, eq=False)
class ReportInput:
    """One sweep, as its trace holds it.

    Attributes:
        title: The experiment's name.
        summaries: What was found, one per placement, in the order of the files.
        trials: Every trial, in order of time.
        series: The samples taken while a trial ran, by the trial's id; may load them as they are asked for.
        spans: What the split tracer saw while a trial ran, by the trial's id; none for trials that were not traced.
        commands: What started the server of a trial, by the trial's id.
        builds: The llama.cpp builds that the trials used.
        host: Facts about the machine, name to value, in the order to show them.
        settings: The experiment's settings, as given.
        anchor: What dates the monotonic times; None when unknown.
        gpu_paths: How the GPUs reach each other, as far as that was found out.
    """

    title: str
    summaries: Sequence[PlacementSummary]
    trials: Sequence[TrialRecord]
    series: Mapping[int, Sequence[Series]]
    spans: Mapping[int, Spans]
    commands: Mapping[int, Command]
    builds: Sequence[Build]
    host: Mapping[str, str]
    settings: str
    anchor: ClockAnchor | None
    gpu_paths: Sequence[GpuPath] = ()
