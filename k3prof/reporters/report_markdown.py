"""A sweep's report as Markdown, for an issue or a wiki: the same words and figures, without pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from k3prof.core.trial import TrialStatus
from k3prof.reporters import claim_tables, formats, gpu_tables, ledger_tables, proof_tables
from k3prof.reporters.ladder_markdown import ladder_blocks
from k3prof.reporters.ledger_tables import LedgerSection
from k3prof.reporters.measurement import Facts
from k3prof.reporters.ranking_markdown import caveat_list, ranking_tables
from k3prof.reporters.report_input import ReportInput
from k3prof.reporters.report_page import FIGURE_COLUMNS, PlacementPage, ReportPage, report_page
from k3prof.reporters.untrusted import markdown, markdown_code


def as_markdown(given: ReportInput) -> str:
    """Return the report of a sweep."""
    return "\n\n".join(_blocks(report_page(given))) + "\n"


def _blocks(page: ReportPage) -> Iterator[str]:
    yield f"# {markdown(page.title)}"
    yield markdown(page.subtitle)
    yield f"**{markdown(page.lead)}**"
    yield "## Ranking"
    yield from ranking_tables(page.rankings, "###")
    yield (
        "tok/s: median over n repetitions, then the smallest and the largest. Where two placements' ranges overlap, "
        "their order is not established."
    )
    if page.doubts:
        yield "Reasons to doubt all of these figures:"
        yield caveat_list(page.doubts)
    yield "## What P says here"
    yield from (markdown(paragraph) for paragraph in page.meaning)
    if page.claims:
        yield _table(claim_tables.CLAIM_COLUMNS, page.claims)
        yield markdown(page.claims_legend)
    yield "## Placements"
    for one in page.placements:
        yield from _placement(one)
    if not page.placements:
        yield "None ran to its end."
    if page.unfinished:
        yield "## Failed, void or interrupted"
        for one in page.unfinished:
            yield from _placement(one)
    yield "## What was run"
    yield _facts(page.setting)
    if page.settings:
        yield markdown_code(page.settings.rstrip())
    yield "## How it was measured"
    yield _facts(page.method)


def _placement(one: PlacementPage) -> Iterator[str]:
    outcome = one.summary.outcome
    yield f"### {markdown(one.summary.placement)}"
    if one.standing or outcome.message:
        yield markdown(". ".join(filter(None, [one.standing, outcome.message])))
    if outcome.evidence:
        yield "The line of the server's log that says so:"
        yield markdown_code(outcome.evidence)
    if outcome.status is TrialStatus.OK:
        yield _table(FIGURE_COLUMNS, one.figures)
        if one.gpus:
            yield _table(gpu_tables.GPU_COLUMNS, one.gpus)
            yield markdown(gpu_tables.LEGEND)
    if one.caveats:
        yield caveat_list(one.caveats)
    yield from ladder_blocks(one.ladders, "####")
    for section in one.ledgers:
        yield from _ledger(section)
    if one.memory:
        yield _table(one.memory[0], one.memory[1:])
        yield markdown(proof_tables.MEMORY_LEGEND)
    if one.checks:
        yield "Asked against done, by the server's own log:"
        yield _table(proof_tables.CHECK_COLUMNS, one.checks)
    if not one.command:
        yield f"The server's command is {formats.UNKNOWN}."
        return
    yield "The server was started with:"
    yield markdown_code(one.command)


def _ledger(section: LedgerSection) -> Iterator[str]:
    yield f"#### {markdown(section.title)}"
    yield _table(ledger_tables.LINE_COLUMNS, section.lines)
    yield markdown(ledger_tables.LEGEND)
    yield from map(markdown, section.remarks)
    if section.helps:
        yield "What would help, and at most how much:"
        yield _table(ledger_tables.WHAT_IF_COLUMNS, section.helps)
    if section.does_not_help:
        yield "What would not help (less than 5 %):"
        yield _table(ledger_tables.WHAT_IF_COLUMNS, section.does_not_help)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [columns, ("---",) * len(columns), *([markdown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _facts(facts: Facts) -> str:
    return "\n".join(f"- **{markdown(name)}**: {markdown(value)}" for name, value in facts)
