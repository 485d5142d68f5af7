"""The main job: every placement of an experiment run, one after another, each finished one kept."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn, Protocol

from rich.console import Console

from k3prof.collectors.gpu_state import driver_version
from k3prof.collectors.host_facts import host_facts
from k3prof.core.plan import remaining
from k3prof.core.summary import PlacementSummary
from k3prof.core.timeline import ClockAnchor
from k3prof.core.trial import Command, Outcome, TrialSpec
from k3prof.llama.devices import stand_in_argv
from k3prof.reporters.sweep_display import SweepDisplay
from k3prof.reporters.sweep_plan import PlannedTrial, SweepPlan
from k3prof.store.trace import Trace
from k3prof.workflows.context_cost import known_bandwidths
from k3prof.workflows.export import SweepFiles, export_sweep
from k3prof.workflows.legs import BANDWIDTHS
from k3prof.workflows.progress import ProgressTracker
from k3prof.workflows.python_profile import own_profile
from k3prof.workflows.results import read_results
from k3prof.workflows.rig import PreparedSweep
from k3prof.workflows.run_trial import Patience, TrialListener, run_trial


class SweepListener(TrialListener, Protocol):
    """Who wants to know how a sweep goes."""

    def on_plan(self, waiting: list[TrialSpec], finished: list[str]) -> None:
        """What will be run, and which placements have nothing left to do."""

    def on_trial(self, spec: TrialSpec) -> None:
        """A trial begins."""

    def on_outcome(self, spec: TrialSpec, outcome: Outcome) -> None:
        """A trial has ended."""


@dataclass(frozen=True)
class SweepOptions:
    """How to run a sweep.

    Attributes:
        retry_failed: Run placements again that failed by themselves.
        patience: How long to wait without a sign of progress.
        profile_client: Record our own load generator beside the trace, as a speedscope file.
    """

    retry_failed: bool = False
    patience: Patience = dataclasses.field(default_factory=Patience)
    profile_client: bool = False


def plan(prepared: PreparedSweep, trace: Trace | None, *, retry_failed: bool) -> list[TrialSpec | None]:
    """Return what is left to do of each placement, in order; None where nothing is."""
    return [
        remaining(spec, trace.trials(spec.configuration) if trace is not None else (), retry_failed)
        for spec in prepared.specs
    ]


def run_sweep(prepared: PreparedSweep, trace: Trace, options: SweepOptions, listener: SweepListener) -> bool:
    """Run what is left of a sweep.

    Returns:
        Whether it came to its end; False when the user interrupted it.

    Raises:
        MachineError: The devices do not start.
        TraceError: The trace cannot be written any more.
    """
    for build in prepared.builds:
        trace.add_build(build)
    trace.add_model(prepared.model.fingerprint, prepared.model.header)
    sweep = trace.begin_sweep(
        ClockAnchor(time.monotonic_ns(), time.time_ns()),
        settings_of(prepared) | {BANDWIDTHS: known_bandwidths(prepared.devices)},
        host_record(),
        [(spec.placement, spec.configuration) for spec in prepared.specs],
    )
    left = plan(prepared, trace, retry_failed=options.retry_failed)
    waiting = [spec for spec in left if spec is not None]
    listener.on_plan(waiting, [spec.placement for spec, todo in zip(prepared.specs, left, strict=True) if todo is None])
    try:
        with termination_interrupts():
            for spec in waiting:
                listener.on_trial(spec)
                finished = run_trial(
                    spec,
                    prepared.predicted[spec.placement],
                    prepared.rigs[spec.placement],
                    trace,
                    sweep,
                    patience=options.patience,
                    listener=listener,
                    foreseen=prepared.skipped.get(spec.placement, ()),
                )
                listener.on_outcome(spec, finished.outcome)
    except KeyboardInterrupt:
        return False
    return True


@dataclass(frozen=True)
class FinishedSweep:
    """What a sweep leaves.

    Attributes:
        is_complete: Whether it came to its end.
        summaries: What each placement yielded.
        files: The pictures and pages beside the trace.
    """

    is_complete: bool
    summaries: list[PlacementSummary]
    files: SweepFiles


def sweep_and_export(prepared: PreparedSweep, path: Path, options: SweepOptions, console: Console) -> FinishedSweep:
    """Run what is left of a sweep, showing its progress on a console, and write its report and timeline.

    Raises:
        MachineError: The devices do not start.
        TraceError: The trace cannot be written.
    """
    with Trace.writable(path) as trace:
        with _profile(path, options, console), SweepDisplay(console) as display:
            tracker = ProgressTracker(display, prepared.experiment.settings.price_per_hour)
            is_complete = run_sweep(prepared, trace, options, tracker)
        return FinishedSweep(is_complete, read_results(trace).summaries, export_sweep(trace))


def _profile(path: Path, options: SweepOptions, console: Console) -> contextlib.AbstractContextManager[None]:
    if not options.profile_client:
        return contextlib.nullcontext()
    tell = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    return own_profile(path.with_suffix(".speedscope.json"), tell)


def planned(prepared: PreparedSweep, path: Path, *, retry_failed: bool) -> SweepPlan:
    """Return what a sweep would do, without starting anything."""
    trace = Trace.readable(path) if path.exists() else None
    with contextlib.closing(trace) if trace is not None else contextlib.nullcontext():
        left = plan(prepared, trace, retry_failed=retry_failed)
    about = {placement.name: placement.about for placement in prepared.experiment.placements}
    return SweepPlan(
        trials=[
            PlannedTrial(
                placement=spec.placement,
                about=about[spec.placement],
                workloads=todo.workloads if todo is not None else (),
                build=prepared.rigs[spec.placement].build.name,
                command=planned_command(prepared, spec),
                skipped=prepared.skipped.get(spec.placement, ()),
            )
            for spec, todo in zip(prepared.specs, left, strict=True)
        ],
        stand_ins={
            build.name: {
                device.name: tuple(stand_in_argv(build, f"{device.name}_PORT")) for device in prepared.devices.stand_ins
            }
            for build in prepared.builds
        },
        trace=str(path),
    )


def planned_command(prepared: PreparedSweep, spec: TrialSpec) -> Command:
    """Return what would start a trial's server; what is chosen at the start stands in capitals."""
    rig = prepared.rigs[spec.placement]
    endpoints = tuple(f"127.0.0.1:{device.name}_PORT" for device in rig.devices.stand_ins)
    return Command(
        tuple(rig.argv(spec, endpoints, "PORT", "ALIAS")),
        {**rig.devices.env, **spec.env, **rig.tracing.env("RING")},
    )


def default_trace(path: Path) -> Path:
    """Return where the trace of an experiment goes: `traces/FOLDER.sqlite` under the working directory."""
    folder = path if path.is_dir() else path.parent
    return Path("traces") / f"{folder.resolve().name or 'sweep'}.sqlite"


def host_record() -> dict[str, object]:
    """Return facts of this machine as the trace keeps them, with the driver of its GPUs where there is one."""
    driver = driver_version()
    return dataclasses.asdict(host_facts()) | ({} if driver is None else {"gpu_driver": driver})


def settings_of(prepared: PreparedSweep) -> dict[str, object]:
    """Return the settings as the trace keeps them."""
    settings, placements = prepared.experiment.settings, prepared.experiment.placements
    builds = {one.name: one.build for one in placements if one.build is not None}
    return {
        "model": settings.model,
        "devices": settings.devices,
        "build": settings.build,
        **({"builds of placements": builds} if builds else {}),
        "workloads": [workload.name for workload in settings.workloads],
        "repeat": settings.repeat,
        "splits": settings.splits,
        "price_per_hour": settings.price_per_hour,
        "flags": dict(settings.flags),
        "placements": {one.name: one.about for one in placements},
    }


@contextlib.contextmanager
def termination_interrupts() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C, so that a closed terminal loses nothing either."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
