"""One examination of one model, and how it differs from an earlier one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from k3prof.core.probes.probe import Outcome, Result
from k3prof.core.probes.verdict import Judgement


@dataclass(frozen=True)
class EarlierAnswer:
    """What a probe's answer was and counted as."""

    outcome: Outcome
    answer: str | None


@dataclass(frozen=True)
class EarlierReport:
    """What is needed of an earlier examination.

    Attributes:
        name: What to call it.
        set_version: Version of the set of probes.
        verdict: What was said of the model.
        answers: By the probe's id.
    """

    name: str
    set_version: int
    verdict: str
    answers: Mapping[str, EarlierAnswer]


@dataclass(frozen=True)
class Change:
    """A probe that does not count as it did."""

    id: str
    before: EarlierAnswer
    after: EarlierAnswer


@dataclass(frozen=True)
class Comparison:
    """This examination beside an earlier one.

    Attributes:
        earlier: The earlier one.
        changes: The probes whose outcome is another.
        reworded: Probes that count as they did with another text.
        same: Probes with the very same text.
        not_compared: Probes that only one of them has.
    """

    earlier: EarlierReport
    changes: tuple[Change, ...]
    reworded: int
    same: int
    not_compared: int


@dataclass(frozen=True)
class ProbeReport:
    """What a model was asked, answered, and what follows.

    Attributes:
        model: The model as the user named it.
        build: The build's name and version.
        devices: Their names, and whether they are stand-ins.
        has_template: Whether it was asked by a chat template, its own or one that a flag gives; else by examples.
        results: Every probe.
        judgement: What follows.
        decode_tokens_per_s: How fast it generates, measured beside the probes; None where that was not measured.
        decode_tokens: Over so many tokens.
        set_version: Version of the set of probes.
        notes: What the reader should know.
        comparison: Beside an earlier examination; None where none was given.
    """

    model: str
    build: str
    devices: str
    has_template: bool
    results: tuple[Result, ...]
    judgement: Judgement
    decode_tokens_per_s: float | None
    decode_tokens: int
    set_version: int
    notes: tuple[str, ...] = ()
    comparison: Comparison | None = None


def compare(results: Sequence[Result], earlier: EarlierReport) -> Comparison:
    """Hold results against an earlier examination, probe by probe."""
    now = {one.probe.id: EarlierAnswer(one.outcome, one.answer.text) for one in results}
    shared = [(name, earlier.answers[name], after) for name, after in now.items() if name in earlier.answers]
    unchanged = [(before, after) for _, before, after in shared if before.outcome is after.outcome]
    same = sum(before.answer == after.answer for before, after in unchanged)
    return Comparison(
        earlier,
        changes=tuple(
            Change(name, before, after) for name, before, after in shared if before.outcome is not after.outcome
        ),
        reworded=len(unchanged) - same,
        same=same,
        not_compared=len(now.keys() ^ earlier.answers.keys()),
    )
