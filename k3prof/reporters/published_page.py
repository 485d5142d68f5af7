"""A report on published evidence, section by section: what terminal, HTML and Markdown share."""

from __future__ import annotations

from dataclasses import dataclass

from k3prof.core.refutation.published import CheckResult, Finding, PublishedReport, PublishedVerdict, Scatter
from k3prof.reporters import published_words as words

CHECK_COLUMNS = ("number", "stated", "unit", "recomputed", "off by")
VERDICT_COLUMNS = ("claim", "verdict", "found", "predicted", "figures")
CORRECTED_COLUMNS = ("put right", "verdict", "figure", "arithmetic")

Row = tuple[str, ...]


@dataclass(frozen=True)
class NumberPage:
    """A number, recomputed.

    Attributes:
        row: A row of `CHECK_COLUMNS`.
        facts: Name to text: the arithmetic in words and in figures, what is missing, what it means.
    """

    row: Row
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class NumberSection:
    """All numbers of which recomputing came to the same.

    Attributes:
        finding: What it came to.
        heading: For people: `Shown wrong`.
        numbers: The numbers, the worst first where they are wrong.
    """

    finding: Finding
    heading: str
    numbers: tuple[NumberPage, ...]


@dataclass(frozen=True)
class ClaimPage:
    """A claim, judged.

    Attributes:
        id: Its short name.
        ruling: The judgement alone.
        row: A row of `VERDICT_COLUMNS`.
        facts: Name to texts: why the prediction follows, how it was decided, what follows.
        corrected: Rows of `CORRECTED_COLUMNS`; empty when nothing had to be put right.
    """

    id: str
    ruling: str
    row: Row
    facts: tuple[tuple[str, tuple[str, ...]], ...]
    corrected: tuple[Row, ...]


@dataclass(frozen=True)
class PublishedPage:
    """A whole report.

    Attributes:
        title: What it is about.
        source: Who published the figures, and where.
        lead: The answer in a sentence or two.
        doubtful: The numbers that are wrong, and those that cannot be recomputed.
        claims: The claims, in the file's order.
        confirmed: The other numbers; None when there is none.
        reading: Paragraphs on how to read it.
    """

    title: str
    source: str
    lead: str
    doubtful: tuple[NumberSection, ...]
    claims: tuple[ClaimPage, ...]
    confirmed: NumberSection | None
    reading: tuple[str, ...]


def published_page(report: PublishedReport) -> PublishedPage:
    """Return what a report on published evidence says."""
    sections = {finding: _section(report, finding) for finding in words.HEADINGS}
    published = report.published
    reading = [words.RULE] if report.checks else []
    reading += [words.GRADE, words.assumption(published.scatter)] if report.verdicts else []
    return PublishedPage(
        title=published.title,
        source=published.source,
        lead=words.lead(report),
        doubtful=tuple(filter(None, (sections[Finding.WRONG], sections[Finding.UNKNOWN]))),
        claims=tuple(_claim(verdict, published.scatter) for verdict in report.verdicts),
        confirmed=sections[Finding.CONFIRMED],
        reading=tuple(reading),
    )


def _section(report: PublishedReport, finding: Finding) -> NumberSection | None:
    numbers = tuple(map(_number, report.found(finding)))
    return NumberSection(finding, words.HEADINGS[finding], numbers) if numbers else None


def _number(result: CheckResult) -> NumberPage:
    facts = [("how", result.check.because)]
    if result.numbers:
        facts.append(("arithmetic", words.arithmetic(result)))
    facts += [("allowed", words.allowance(result)), ("missing", result.missing), ("note", result.check.note)]
    return NumberPage(words.check_row(result), tuple((name, text) for name, text in facts if text))


def _claim(found: PublishedVerdict, scatter: Scatter) -> ClaimPage:
    hypothesis, judged = found.hypothesis, found.as_published
    facts = {
        "because": (hypothesis.because,),
        "arithmetic": (judged.arithmetic,),
        "decided by": tuple(words.why(found, scatter)),
        "what follows": tuple(words.consequences(found)),
    }
    return ClaimPage(
        id=hypothesis.id,
        ruling=str(found.ruling),
        row=(
            hypothesis.claim,
            words.verdict(found),
            words.estimate(judged.estimate, hypothesis.unit),
            words.prediction(hypothesis),
            words.repetitions(judged.estimate),
        ),
        facts=tuple((name, tuple(filter(None, texts))) for name, texts in facts.items() if any(texts)),
        corrected=tuple(
            (one.name, words.reading_verdict(one), words.estimate(one.estimate, hypothesis.unit), one.arithmetic)
            for one in found.corrected
        ),
    )
