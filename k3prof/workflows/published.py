"""Judges figures that others published: nothing is measured, nothing starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from k3prof.core.refutation.published import PublishedReport
from k3prof.core.refutation.published_verdicts import judge_evidence
from k3prof.reporters import published_html, published_json, published_markdown
from k3prof.store.published_file import load_published


def judge_published(path: Path) -> PublishedReport:
    """Recompute every number of a file of published evidence, and judge every claim.

    Raises:
        ConfigError: Everything that is wrong with the file.
    """
    return judge_evidence(load_published(path))


def published_text(report: PublishedReport, kind: Literal["html", "md", "json"]) -> str:
    """Return a report as a page, as Markdown or as data; for a terminal, rich draws a `PublishedTable`."""
    match kind:
        case "html":
            return published_html.as_html(report)
        case "md":
            return published_markdown.as_markdown(report)
        case "json":
            return json.dumps(published_json.as_json(report), indent=2) + "\n"
