"""Published evidence, read from TOML and checked: figures, numbers to recompute, claims to judge.

title = "…"                  # what it is about
source = "…"                 # who published the figures, and where
scatter = { frac = 0.05, because = "…" }   # how far a single figure may be off, either way; 0.10 by default

[data.ladder]                # figures as published: any tables of numbers and lists; text is a note
price_per_hour = 0.44
aggregate = [67.4, 206.6]

[[check]]                    # a number that was published, and how it follows from others
name = "USD per million tokens"
stated = [1.814, 0.592]      # confirmed when it is the recomputed value, rounded to the digits that it is stated with
unit = "USD"
formula = "ladder.price_per_hour / ladder.aggregate / 3600 * 1e6"      # names of figures, without data.
because = "price per hour over tokens per hour"

Beside these may stand: digits, where TOML drops a trailing zero (29.0) or zeros before the point are no figures
(2000 with digits = -2 is 1950 to 2050); tolerance instead of it; rounded, the names of figures that were published
rounded themselves; note; and, instead of formula, missing: what would have to be known.

[[hypothesis]]               # a claim: by a ratio, or by a figure and at_least or at_most
id = "speculation"
claim = "speculation makes decode faster"
because = "each pass yields more than one token"
baseline = "off.tg"          # a figure, or a list of repetitions
candidate = "on.tg"          # or instead of both: value = "on.tg / off.tg"
predict = [1.1, 2]           # candidate / baseline, if the claim holds
smallest = 1.05              # below this an effect does not matter

Beside these may stand: unit, scatter, if_refuted, if_supported; rests_on, the names of checks; obstacle, why no figure
decides; and corrected, the value put right: a formula, or a table of them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from k3prof.core.refutation.published import Published
from k3prof.errors import ConfigError, ConfigErrors
from k3prof.store.published_entries import read_check, read_claim, scatter_of
from k3prof.store.published_tables import EVIDENCE, EVIDENCE_KEYS
from k3prof.store.toml_file import check_each_key, collecting, read_toml, shown_path

Record = TypeVar("Record")


def load_published(file: Path) -> Published:
    """Read a file of published evidence.

    Raises:
        ConfigErrors: Everything that is wrong with it.
    """
    problems: list[ConfigError] = []
    with collecting(problems):
        return _load(file)
    raise ConfigErrors(problems)


def _load(file: Path) -> Published:
    name = shown_path(file)
    problems: list[ConfigError] = []
    table, wrong = check_each_key(EVIDENCE, read_toml(file), lambda key: f"{name}: {key}", EVIDENCE_KEYS, problems)
    if table.source is None and "source" not in wrong:
        problems.append(ConfigError(f"{name}: source: missing", "say who published the figures, and where"))
    if not table.check and not table.hypothesis and not wrong:
        hint = "write [[check]] for a number to recompute, [[hypothesis]] for a claim to judge"
        problems.append(ConfigError(f"{name}: nothing in it can be judged", hint))
    if "data" in wrong:  # without figures every formula would seem wrong
        raise ConfigErrors(problems)

    checks = _read_all(table.check, f"{name}: check", problems, lambda one, where: read_check(one, where, table.data))
    scatter, names = scatter_of(table.scatter), [check.name for check in checks]
    if len(checks) < len(table.check):  # a name that is missing may be that of a check which could not be read
        names = []
    claims = _read_all(
        table.hypothesis,
        f"{name}: hypothesis",
        problems,
        lambda one, where: read_claim(one, where, table.data, scatter, names),
    )
    problems += _repeated("name", [(check.where, check.name) for check in checks])
    problems += _repeated("id", [(claim.where, claim.id) for claim in claims])
    if problems:
        raise ConfigErrors(problems)
    return Published(table.title or file.stem, table.source or "", scatter, table.data, tuple(checks), tuple(claims))


def _read_all(
    documents: Sequence[object], where: str, problems: list[ConfigError], read: Callable[[object, str], Record]
) -> list[Record]:
    records: list[Record] = []
    for index, document in enumerate(documents):
        with collecting(problems):
            records.append(read(document, f"{where}[{index}]"))
    return records


def _repeated(key: str, named: Sequence[tuple[str, str]]) -> list[ConfigError]:
    first: dict[str, str] = {}
    problems = []
    for where, name in named:
        if name in first:
            problems.append(ConfigError(f"{where}.{key}: {name!r} is taken", f"by {first[name]}"))
        first.setdefault(name, where)
    return problems
