"""What a report on hypotheses says, apart from how it looks: the text and tables that HTML and Markdown share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from k3prof.core.refutation.evidence import Block
from k3prof.core.refutation.hypothesis import Again
from k3prof.core.refutation.verdict import Ruling
from k3prof.reporters import formats
from k3prof.reporters import refutation_words as words
from k3prof.reporters.refutation_input import Judged, RefutationReport
from k3prof.reporters.shell import shell_command

OVERVIEW_COLUMNS = ("hypothesis", "verdict", "found, with its 90 % interval", "predicted", "blocks")


@dataclass(frozen=True)
class HypothesisPage:
    """One hypothesis' part of a report.

    Attributes:
        row: What it is about.
        verdict: The judgement in words.
        is_weak: Whether it rests on single figures.
        facts: Name to one or more sentences, in the order to show them.
        replaced: Earlier verdicts, and what is to be said about each.
        block_columns: What the columns of `block_rows` are.
        block_rows: The figures of each block that counts.
    """

    row: Judged
    verdict: str
    is_weak: bool
    facts: tuple[tuple[str, tuple[str, ...]], ...]
    replaced: tuple[tuple[str, str], ...]
    block_columns: tuple[str, ...]
    block_rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Conclusion:
    """One line of what was learnt.

    Attributes:
        sign: Of the judgement.
        claim: What was claimed.
        remarks: What was found, and what follows.
        row: The hypothesis that it comes from; None for noise that is none's.
    """

    sign: str
    claim: str
    remarks: tuple[str, ...]
    row: Judged | None = None

    @property
    def is_weak(self) -> bool:
        """Whether it rests on single figures."""
        return self.row is not None and words.is_weak(self.row.verdict)


@dataclass(frozen=True)
class ConclusionList:
    """Conclusions of one kind.

    Attributes:
        heading: What they have in common.
        items: The conclusions.
    """

    heading: str
    items: tuple[Conclusion, ...]


@dataclass(frozen=True)
class RefutationPage:
    """A whole report.

    Attributes:
        title: The experiment's name.
        subtitle: Devices, model, date.
        lead: The answer in one sentence.
        warning: That the devices are stand-in devices; empty when they are none.
        overview: One row of `OVERVIEW_COLUMNS` for each hypothesis.
        conclusions: What was learnt.
        hypotheses: The hypotheses, in the order of their file.
        setting: What it took, and on what.
        settings: The experiment's settings as given.
        commands: Each placement's name and command; an empty command is unknown.
    """

    title: str
    subtitle: str
    lead: str
    warning: str
    overview: tuple[tuple[str, ...], ...]
    conclusions: tuple[ConclusionList, ...]
    hypotheses: tuple[HypothesisPage, ...]
    setting: tuple[tuple[str, str], ...]
    settings: str
    commands: tuple[tuple[str, str], ...]


def refutation_page(given: RefutationReport) -> RefutationPage:
    """Return what a report on hypotheses says."""
    return RefutationPage(
        title=given.title,
        subtitle=_subtitle(given),
        lead=lead(given.rows),
        warning=stand_in_warning(given),
        overview=tuple(overview_row(row) for row in given.rows),
        conclusions=conclusions(given),
        hypotheses=tuple(_hypothesis(row) for row in given.rows),
        setting=tuple(_setting(given)),
        settings=given.settings,
        commands=tuple(
            (name, "" if command is None else shell_command(command)) for name, command in given.commands.items()
        ),
    )


def lead(rows: Sequence[Judged]) -> str:
    """Return the answer in one sentence: `Of 8 hypotheses 5 are refuted, 1 is supported, 2 are inconclusive.`."""
    if not rows:
        return "No hypothesis was judged."
    counts = [(len(_of(rows, ruling)), ruling) for ruling in (Ruling.REFUTED, Ruling.SUPPORTED, Ruling.INCONCLUSIVE)]
    told = [f"{count} {'is' if count == 1 else 'are'} {ruling}" for count, ruling in counts if count]
    noun = "hypothesis" if len(rows) == 1 else "hypotheses"
    weak = sum(words.is_weak(row.verdict) for row in rows)
    rests = "rests" if weak == 1 else "rest"
    weakness = f" {formats.count(weak, 'verdict')} {rests} on single figures." if weak else ""
    return f"Of {len(rows)} {noun}, {', '.join(told)}.{weakness}"


def effort(given: RefutationReport) -> str:
    """Return what it took and what ended it, in one sentence."""
    spent = given.effort
    parts = [formats.count(spent.rounds, "round"), _servers(given), _hours(spent.hours), _usd(spent.usd)]
    return f"{', '.join(parts)}; stopped because {spent.stopped_by}."


def stand_in_warning(given: RefutationReport) -> str:
    """Return what to know about stand-in devices; empty when there are none."""
    if not given.stand_ins:
        return ""
    return (
        "The devices are stand-in devices: processes on this machine's processor that play the part of GPUs. How work "
        "passes between them carries over to GPUs; tokens per second, and verdicts on them, do not."
    )


def overview_row(row: Judged) -> tuple[str, ...]:
    """Return one row of `OVERVIEW_COLUMNS`."""
    found = row.verdict
    counted = ", ".join(filter(None, [words.blocks(found), words.voids(found)]))
    return (found.hypothesis.claim, words.verdict(found), words.effect_of(row), words.prediction_of(row), counted)


def conclusions(given: RefutationReport) -> tuple[ConclusionList, ...]:
    """Return what was learnt: what is ruled out, what holds, what remains, and the noise; without empty lists."""
    claims = [row for row in given.rows if not isinstance(row.verdict.hypothesis.test, Again)]
    lists = (
        ConclusionList("What the ceiling is not", _decided(claims, Ruling.REFUTED)),
        ConclusionList("What holds", _decided(claims, Ruling.SUPPORTED)),
        ConclusionList("What remains", tuple(map(_open, _of(claims, Ruling.INCONCLUSIVE)))),
        ConclusionList("The noise of this rig", tuple(_noise(given))),
    )
    return tuple(one for one in lists if one.items)


def _of(rows: Sequence[Judged], ruling: Ruling) -> list[Judged]:
    return [row for row in rows if row.verdict.ruling is ruling]


def _decided(rows: Sequence[Judged], ruling: Ruling) -> tuple[Conclusion, ...]:
    return tuple(
        _conclusion(row, [words.finding(row), words.magnitude(row.verdict), *_follows(row)])
        for row in _of(rows, ruling)
    )


def _follows(row: Judged) -> Iterator[str]:
    return (f"→ {what}" for what in words.consequences(row.verdict))


def _open(row: Judged) -> Conclusion:
    found = row.verdict
    measured = [words.finding(row)] if found.effect is not None else []
    return _conclusion(row, [*measured, *found.reasons, f"to settle it: {words.needed(found)}"])


def _conclusion(row: Judged, remarks: Sequence[str]) -> Conclusion:
    found = row.verdict
    weakness = [words.grade(found)] if words.is_weak(found) else []
    kept = tuple(filter(None, [*remarks, *weakness]))
    return Conclusion(words.SIGNS[found.ruling], found.hypothesis.claim, kept, row)


def _noise(given: RefutationReport) -> Iterator[Conclusion]:
    told = set()
    for row in given.rows:
        hypothesis = row.verdict.hypothesis
        if isinstance(hypothesis.test, Again):
            told.add((hypothesis.metric, hypothesis.test.of.workload))
            found = row.verdict
            yield _conclusion(row, [words.finding(row), words.magnitude(found), *found.reasons])
    for noise in given.noise:
        if (noise.metric, noise.workload) not in told:
            yield Conclusion("±", f"{noise.metric} in {noise.workload.name}", (words.noise(noise),))


def _hypothesis(row: Judged) -> HypothesisPage:
    found = row.verdict
    return HypothesisPage(
        row=row,
        verdict=words.verdict(found),
        is_weak=words.is_weak(found),
        facts=tuple((name, kept) for name, texts in _facts(row) if (kept := tuple(filter(None, texts)))),
        replaced=tuple(replacements(row)),
        block_columns=_block_columns(row),
        block_rows=tuple(_block_row(block) for block in found.evidence.blocks),
    )


def _facts(row: Judged) -> Iterator[tuple[str, Sequence[str]]]:
    found, hypothesis, evidence = row.verdict, row.verdict.hypothesis, row.verdict.evidence
    unit = f" ({row.metric_unit})" if row.metric_unit else ""
    yield "Because", [hypothesis.because]
    yield "Measured", [words.test(hypothesis), f"{hypothesis.metric}{unit}: {row.metric_about}"]
    yield "Predicted", [words.prediction_of(row)]
    yield "Found", [words.effect_of(row), words.magnitude(found)]
    yield "Rule", [found.rule]
    yield "Why not decided", found.reasons
    yield "Still needed", [words.needed(found)]
    yield "What follows", list(words.consequences(found))
    yield "Evidence", [words.grade(found), f"blocks: {words.blocks(found)}" if evidence.blocks else ""]
    yield "In the way", [evidence.obstacle if evidence.obstacle not in found.reasons else ""]
    yield "Void blocks", [f"round {void.round}: {void.reason}" for void in evidence.voided]
    yield "Reasons to doubt", [words.caveat(doubt) for doubt in evidence.caveats]
    yield "Note", [row.note]
    yield "Fixed beforehand", [f"{words.rules(hypothesis)}; hash {hypothesis.digest}"]


def replacements(row: Judged) -> Iterator[tuple[str, str]]:
    """Yield each earlier verdict and, apart, when it was given, what replaced it and why."""
    successors = [*(past.verdict for past in row.history), row.verdict][1:]
    for past, successor in zip(row.history, successors, strict=True):
        remark = f"given {words.when(past.unix_ns)}, replaced by {words.verdict(successor)}: {past.why}"
        yield words.replaced(past.verdict, row.metric_unit), remark


def _block_columns(row: Judged) -> tuple[str, ...]:
    arms = [arm.name for arm in row.verdict.hypothesis.arms]
    names = [*arms, f"{arms[0]}, again"] if isinstance(row.verdict.hypothesis.test, Again) else arms
    return ("round", *(f"{name}, {turn} run" for name in names for turn in ("first", "second")), "block")


def _block_row(block: Block) -> tuple[str, ...]:
    figures = [*block.baseline, *(block.candidate or ())]
    value = words.value(block)
    shown = formats.UNKNOWN if value is None else f"{value:.4g}"
    return (str(block.round), *(f"{figure.value:.5g}" for figure in figures), shown)


def _subtitle(given: RefutationReport) -> str:
    facts = [given.rig.get("model", ""), given.rig.get("devices", "")]
    return " · ".join(filter(None, [*facts, words.when(given.unix_ns)]))


def _setting(given: RefutationReport) -> Iterator[tuple[str, str]]:
    spent = given.effort
    yield "when", words.when(given.unix_ns)
    yield "rounds", f"{spent.rounds:,}"
    yield "servers", _servers(given)
    yield "time", _hours(spent.hours)
    yield "money", _usd(spent.usd)
    yield "stopped because", spent.stopped_by
    if spent.budget_left:
        yield "budget left", spent.budget_left
    yield from given.rig.items()


def _servers(given: RefutationReport) -> str:
    spent = given.effort
    return f"{formats.count(spent.legs, 'leg')} on {formats.count(spent.servers_started, 'server')} started"


def _hours(hours: float | None) -> str:
    return "time unknown" if hours is None else formats.seconds(hours * 3600)


def _usd(usd: float | None) -> str:
    return "cost unknown" if usd is None else formats.usd(usd)
