"""Hypotheses and their verdicts as Markdown, for an issue or a wiki: the same words and figures, without pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from k3prof.reporters.refutation_input import RefutationReport
from k3prof.reporters.refutation_legend import READING
from k3prof.reporters.refutation_page import (
    OVERVIEW_COLUMNS,
    Conclusion,
    HypothesisPage,
    RefutationPage,
    refutation_page,
)
from k3prof.reporters.untrusted import markdown, markdown_code


def as_markdown(given: RefutationReport) -> str:
    """Return the report."""
    return "\n\n".join(_blocks(refutation_page(given))) + "\n"


def _blocks(page: RefutationPage) -> Iterator[str]:
    yield f"# {markdown(page.title)}"
    yield markdown(page.subtitle)
    yield f"**{markdown(page.lead)}**"
    if page.warning:
        yield f"> {markdown(page.warning)}"
    if page.overview:
        yield _table(OVERVIEW_COLUMNS, page.overview)
    yield "## How to read this"
    yield "\n".join(f"- **{name}**: {markdown(text)}" for name, text in READING)
    for one in page.conclusions:
        yield f"## {one.heading}"
        yield "\n".join(_conclusion(item) for item in one.items)
    yield "## The hypotheses, one by one"
    for hypothesis in page.hypotheses:
        yield from _hypothesis(hypothesis)
    if not page.hypotheses:
        yield "There is none."
    yield "## What was run"
    yield "\n".join(f"- **{markdown(name)}**: {markdown(value)}" for name, value in page.setting)
    if page.settings:
        yield markdown_code(page.settings.rstrip())
    for name, command in page.commands:
        yield f"### {markdown(name)}"
        yield markdown_code(command) if command else "The command of its servers is unknown."


def _conclusion(item: Conclusion) -> str:
    mark = "*" if item.is_weak else "**"
    return "\n".join(
        [f"- {item.sign} {mark}{markdown(item.claim)}{mark}", *(f"  - {markdown(one)}" for one in item.remarks)]
    )


def _hypothesis(one: HypothesisPage) -> Iterator[str]:
    hypothesis = one.row.verdict.hypothesis
    yield f"### {markdown(hypothesis.claim)}"
    mark = "*" if one.is_weak else "**"
    yield f"{mark}{markdown(one.verdict)}{mark} ({markdown(hypothesis.id)})"
    facts = [f"- {name}: {markdown('; '.join(texts))}" for name, texts in one.facts]
    yield "\n".join([*facts, *(f"- ~~{markdown(was)}~~ {markdown(remark)}" for was, remark in one.replaced)])
    if one.block_rows:
        yield _table(one.block_columns, one.block_rows, numbers=True)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = False) -> str:
    rule = ["---:" if numbers else "---"] * len(columns)
    lines = [map(markdown, columns), rule, *(map(markdown, row) for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
