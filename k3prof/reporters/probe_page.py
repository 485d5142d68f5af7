"""What an examination of a model says, in the words and rows that every form of it shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from k3prof.core.probes.probe import Outcome, Result
from k3prof.core.probes.report import Comparison, ProbeReport
from k3prof.core.probes.verdict import Score, Verdict
from k3prof.reporters import formats

GROUP_COLUMNS = ("group", "right", "90 % interval", "signs of breakage")
PROBE_COLUMNS = ("probe", "result", "signs", "wanted", "answer")
MARKS = {Outcome.PASS: "✓", Outcome.FAIL: "✗", Outcome.UNANSWERED: "?"}

_ADVICE = {
    Verdict.BROKEN: "Its speed does not matter before that is mended: try another chat template, file or build.",
    Verdict.PARTLY_BROKEN: "Read the answers below; then try another file, quantisation or build.",
    Verdict.SOUND: "If it seems slow, it is slow, not broken: `k3prof sweep` shows what it waits for.",
    Verdict.SMALL: "If it seems slow, it is slow, not broken: `k3prof sweep` shows what it waits for.",
    Verdict.TOO_SMALL: "Read the answers: clean text that is wrong is not proof of breakage.",
    Verdict.UNKNOWN: "The reasons stand beside the probes.",
}


@dataclass(frozen=True)
class GroupRow:
    """One group, as cells."""

    name: str
    right: str
    interval: str
    signs: str
    is_broken: bool


def title(report: ProbeReport) -> str:
    """Return what was examined."""
    return f"{report.model} on {report.devices}, build {report.build}"


def conclusion(report: ProbeReport) -> str:
    """Return the verdict with its reason."""
    return f"{report.judgement.verdict}: {report.judgement.reason}."


def speed(report: ProbeReport) -> str:
    """Return the speed, so that slow and broken are told apart."""
    if report.decode_tokens_per_s is None:
        return "Speed unknown: it was not measured."
    rate = formats.rate(report.decode_tokens_per_s)
    return f"It generates {rate} tok/s (one stream, {report.decode_tokens} tokens, measured once)."


def advice(report: ProbeReport) -> str:
    """Return what to do next."""
    return _ADVICE[report.judgement.verdict]


def method(report: ProbeReport) -> str:
    """Return how it was asked."""
    way = "by its chat template" if report.has_template else "by examples to continue: it has no chat template"
    return f"{len(report.results)} probes, set {report.set_version}, asked {way}; greedy, seed 42."


def group_rows(report: ProbeReport) -> Iterator[GroupRow]:
    """Yield a row per group, and one for all together."""
    for group, score in report.judgement.groups.items():
        yield _group_row(group, score, group in report.judgement.broken_groups)
    yield _group_row("all", report.judgement.total, is_broken=False)


def _group_row(name: str, score: Score, is_broken: bool) -> GroupRow:
    interval = score.interval
    unanswered = score.asked - score.answered
    return GroupRow(
        name,
        f"{score.passed} of {score.answered}" + (f" ({unanswered} unanswered)" if unanswered else ""),
        formats.UNKNOWN if interval is None else f"{100 * interval[0]:.0f}–{100 * interval[1]:.0f} %",
        str(score.garbled) if score.garbled else "",
        is_broken,
    )


def answer_text(result: Result) -> str:
    """Return the raw answer, or why there is none."""
    return f"({result.answer.reason})" if result.answer.text is None else result.answer.text


def comparison_lines(comparison: Comparison, set_version: int) -> Iterator[str]:
    """Yield what an earlier examination said and how many probes count otherwise now."""
    earlier = comparison.earlier
    yield f"Compared with {earlier.name} ({earlier.verdict}):"
    changed = formats.count(len(comparison.changes), "probe")
    yield f"{changed} changed; {comparison.reworded} the same in other words; {comparison.same} word for word."
    if earlier.set_version != set_version:
        yield f"Sets of probes differ ({earlier.set_version}, {set_version}): changes may be the probes' own."
    if comparison.not_compared:
        yield f"{formats.count(comparison.not_compared, 'probe')} not in both."
