"""What a sweep would do: the order, and each server's exact command and environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from k3prof.core.trial import Caveat, Command, Workload
from k3prof.reporters.shell import shell_command
from k3prof.reporters.untrusted import one_line


@dataclass(frozen=True)
class PlannedTrial:
    """One placement of a sweep, before it runs.

    Attributes:
        placement: Its name.
        about: What its file says about it.
        workloads: What is left to measure; empty when nothing is.
        build: The llama.cpp build that it runs on.
        command: What starts its server; what is chosen at the start stands in capitals.
        skipped: The levels of ladders that its server cannot take.
    """

    placement: str
    about: str
    workloads: tuple[Workload, ...]
    build: str
    command: Command
    skipped: tuple[Caveat, ...] = ()


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep would do.

    Attributes:
        trials: In the order of running.
        stand_ins: The command that starts each stand-in, by build and device name.
        trace: Where the results would go.
    """

    trials: Sequence[PlannedTrial]
    stand_ins: Mapping[str, Mapping[str, tuple[str, ...]]]
    trace: str


def as_text(plan: SweepPlan) -> str:
    """Return the plan as commands that a shell takes, each under what it is for."""
    return "\n".join(_lines(plan)) + "\n"


def as_json(plan: SweepPlan) -> dict[str, object]:
    """Return the plan as `json.dumps` takes it."""
    trials = [{**asdict(trial), "workloads": [one.name for one in trial.workloads]} for trial in plan.trials]
    return {"trials": trials, "stand_ins": plan.stand_ins, "trace": plan.trace}


def _lines(plan: SweepPlan) -> Iterator[str]:
    yield f"# results go to {one_line(plan.trace)}"
    several = len(plan.stand_ins) > 1
    for build, stand_ins in plan.stand_ins.items():
        for name, argv in stand_ins.items():
            yield f"# for each placement{f' on build {one_line(build)}' if several else ''}, {name}:"
            yield shell_command(Command(argv, {}))
    for number, trial in enumerate(plan.trials, start=1):
        yield ""
        left = ", ".join(one.name for one in trial.workloads) or "nothing left to do"
        on = f" on build {one_line(trial.build)}" if several else ""
        yield f"# {number}/{len(plan.trials)} {one_line(trial.placement)}{on}: {left}"
        if trial.about:
            yield f"# {one_line(trial.about)}"
        for level in trial.skipped:
            yield f"# left out: {one_line(level.message)}: {one_line(level.remedy)}"
        if trial.workloads:
            yield shell_command(trial.command)
