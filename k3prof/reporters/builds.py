"""llama.cpp builds for the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from k3prof.core.build import Build
from k3prof.reporters.untrusted import markdown, one_line

_COLUMNS = ("name", "version", "compiler", "source", "CMake flags", "ggml", "missing", "folder")

ListedBuild = tuple[Build, Sequence[str]]
"""A build, and those of llama.cpp's programs that it lacks."""


@dataclass(frozen=True)
class BuildsTable:
    """Builds as rich draws them: a name and a few lines each."""

    builds: Sequence[ListedBuild]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw them, or say that there is nothing to draw."""
        if not self.builds:
            yield Text("no builds yet: `k3prof build` makes one")
            return
        table = Table.grid(padding=(0, 3, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for build, missing in self.builds:
            table.add_row(Text(one_line(build.name), style="bold"), _about(build, missing))
        yield table


def as_markdown(builds: Sequence[ListedBuild]) -> str:
    """Return the builds as a Markdown table."""
    rows = [map(markdown, _cells(build, missing)) for build, missing in builds]
    return "".join(f"| {' | '.join(row)} |\n" for row in (_COLUMNS, ["---"] * len(_COLUMNS), *rows))


def as_json(builds: Sequence[ListedBuild]) -> str:
    """Return all that is known of the builds, as a JSON list."""
    return json.dumps([{**asdict(build), "missing": list(missing)} for build, missing in builds], indent=2)


def _about(build: Build, missing: Sequence[str]) -> Text:
    _, version, compiler, source, flags, ggml, lacks, folder = map(one_line, _cells(build, missing))
    lines = [
        Text(f"llama.cpp {version}"),
        Text(folder),
        Text(f"missing: {lacks}", style="red") if lacks else Text(),
        Text(", ".join(filter(None, [f"from {source}", compiler, ggml])), style="dim"),
        Text(flags, style="dim"),
    ]
    return Text("\n").join([line for line in lines if line.plain])


def _cells(build: Build, missing: Sequence[str]) -> tuple[str, ...]:
    return (
        build.name,
        build.version,
        build.compiler,
        build.source,
        " ".join(flag.removeprefix("-D") for flag in build.cmake_flags),
        "shared libraries" if build.shared_libraries else "static",
        ", ".join(missing),
        build.bin_dir,
    )
