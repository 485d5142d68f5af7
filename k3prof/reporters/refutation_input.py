"""What a report on hypotheses is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from k3prof.core.refutation.verdict import Effect, Verdict
from k3prof.core.trial import Command, Workload


@dataclass(frozen=True)
class Past:
    """A verdict that a later one replaced.

    Attributes:
        unix_ns: When it was given.
        verdict: The verdict, with the hypothesis in the form that it had then.
        why: What made it obsolete: `prediction changed after data was seen: was [1.6, 2.0]`.
    """

    unix_ns: int
    verdict: Verdict
    why: str


@dataclass(frozen=True)
class Judged:
    """A hypothesis with its verdict, and what a reader needs to understand the metric.

    Attributes:
        verdict: The verdict that stands.
        metric_unit: Unit of the metric; empty for a share or a count.
        metric_about: What the metric is, in one sentence.
        history: Verdicts that later ones replaced, the oldest first.
        note: A remark on how it was judged; empty for none.
    """

    verdict: Verdict
    metric_unit: str
    metric_about: str
    history: tuple[Past, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Noise:
    """How far two runs of one placement differ (A/A).

    Attributes:
        metric: Name of the metric.
        workload: What was asked.
        effect: The ratio of the second run to the first.
    """

    metric: str
    workload: Workload
    effect: Effect


@dataclass(frozen=True)
class Effort:
    """What the verdicts cost.

    Attributes:
        rounds: Rounds that were run; in each, every placement that is still needed runs twice.
        legs: Servers that answered all that was asked of them.
        servers_started: Servers that were started, those that failed among them.
        hours: Time that it took; None when unknown.
        usd: Money that it took, in USD; None when no price was given.
        stopped_by: What ended it: `every verdict is final`, `--max-time 30m is spent`.
        budget_left: What is left to spend; empty when nothing was limited.
    """

    rounds: int
    legs: int
    servers_started: int
    hours: float | None
    usd: float | None
    stopped_by: str
    budget_left: str = ""


@dataclass(frozen=True)
class RefutationReport:
    """A set of hypotheses, judged.

    Attributes:
        title: The experiment's name.
        rows: The hypotheses, in the order of their file.
        effort: What the verdicts cost.
        noise: How far two runs of one placement differ, by metric and workload.
        stand_ins: Whether the devices are processes on the host's processor that play the part of GPUs.
        rig: Facts about build and host, name to value, in the order to show them; `model` and `devices` among them also
            stand below the title.
        settings: The experiment's settings, as given.
        commands: What started each placement's server; None where that is not known.
        unix_ns: When the first round began; None when unknown.
    """

    title: str
    rows: tuple[Judged, ...]
    effort: Effort
    noise: tuple[Noise, ...]
    stand_ins: bool
    rig: Mapping[str, str]
    settings: str
    commands: Mapping[str, Command | None]
    unix_ns: int | None
