"""The ranking after a sweep as Markdown tables, one for each workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from k3prof.core.summary import PlacementSummary
from k3prof.core.trial import Caveat, TrialStatus
from k3prof.reporters import formats, ranking
from k3prof.reporters.ladder_markdown import ladder_blocks
from k3prof.reporters.ladder_tables import ladder_sections
from k3prof.reporters.untrusted import markdown, markdown_code


def as_markdown(summaries: Sequence[PlacementSummary]) -> str:
    """Return the ranking under each workload, then what its rows only count: reasons, log lines, caveats."""
    notes = [block for summary in summaries for block in _notes(summary, ranking.own_caveats(summary, summaries))]
    if shared := ranking.shared_caveats(summaries):
        notes += ["### all placements", caveat_list(shared)]
    ladders = [block for summary in summaries for block in _ladders(summary)]
    return "\n\n".join([*ranking_tables(ranking.sections(summaries), "##"), *ladders, *notes]) + "\n"


def ranking_tables(found: Sequence[ranking.Section], heading: str) -> Iterator[str]:
    """Yield a heading and a table for each workload."""
    for section in found:
        yield f"{heading} {markdown(section.workload.name)}"
        yield _table(section)


def caveat_list(caveats: Sequence[Caveat]) -> str:
    """Return caveats with their remedies as a list."""
    return "\n".join(
        f"- **{markdown(caveat.code)}**: {markdown(caveat.message)}"
        + (f" *Remedy:* {markdown(caveat.remedy)}" if caveat.remedy else "")
        for caveat in caveats
    )


def _table(section: ranking.Section) -> str:
    columns = ["placement", "tok/s", "min–max", "n", "of best", "P", "90 % interval"]
    columns += [f"busy {markdown(device)}" for device in section.devices]
    columns += ["load", "notes"]
    numbers = len(columns) - 2
    rows = [columns, ["---", *["---:"] * numbers, "---"], *(_cells(row, section.devices) for row in section.rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _cells(row: ranking.Row, devices: Sequence[str]) -> list[str]:
    summary, found = row.summary, row.found
    rate = found.rate if found else None
    parallelism = found.parallelism if found else None
    reasons = [formats.standing(summary.outcome), formats.note_of_caveats(row.caveats)]
    note = ", ".join(filter(None, [markdown(row.build), *reasons]))
    name = markdown(summary.placement)
    return [
        f"**{name}**" if row.place == 1 else name,
        formats.rate(rate.median if rate else None),
        formats.rate_range(rate),
        str(rate.n) if rate else "",
        formats.times_best(row.relative),
        formats.degree(parallelism),
        formats.interval(parallelism),
        *(formats.share(found.busy_frac.get(device) if found else None) for device in devices),
        formats.seconds(summary.load_s),
        note,
    ]


def _ladders(summary: PlacementSummary) -> Iterator[str]:
    if sections := ladder_sections(summary):
        yield f"## {markdown(summary.placement)}"
        yield from ladder_blocks(sections, "###")


def _notes(summary: PlacementSummary, caveats: Sequence[Caveat]) -> Iterator[str]:
    outcome = summary.outcome
    if outcome.status is TrialStatus.OK and not caveats:
        return
    yield f"### {markdown(summary.placement)}"
    if outcome.status is not TrialStatus.OK:
        yield markdown(". ".join(filter(None, [formats.standing(outcome), outcome.message])))
    if outcome.evidence:
        yield markdown_code(outcome.evidence)
    if caveats:
        yield caveat_list(caveats)
