"""One `[[check]]` or `[[hypothesis]]` of a file of published evidence, checked against the file's figures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from k3prof.core.flags import nearest
from k3prof.core.refutation.figures import Data, FormulaError
from k3prof.core.refutation.hypothesis import Arm, Band, Comparison, contradiction
from k3prof.core.refutation.published import Check, PublishedHypothesis, Reading, Scatter, Tolerance
from k3prof.core.refutation.published_checks import recompute, stated_decimals
from k3prof.core.refutation.published_verdicts import judge_claim
from k3prof.core.trial import Workload
from k3prof.errors import ConfigError, ConfigErrors
from k3prof.store.published_tables import CHECK, CHECK_KEYS, CLAIM, CLAIM_KEYS, CheckTable, ClaimTable, ScatterTable
from k3prof.store.toml_file import check_each_key

_NEEDED = {
    "name": "say what the number is",
    "stated": "the number as published: stated = 1.77",
    "because": "say in words why: the arithmetic of a check, or how the prediction follows from the claim",
    "id": "a short name, of letters, digits, - and _",
    "claim": "say in one sentence what is claimed",
    "smallest": "the ratio below which a difference does not matter: smallest = 1.05",
    "baseline": "what the candidate is compared with",
    "candidate": "what is claimed to differ from the baseline",
    "predict": "the ratio candidate / baseline, if the claim holds: predict = [1.6, 2.0]",
}
_ANY_WORKLOAD = Workload("tg", 2)
_LONGEST_NAME = 60


def scatter_of(table: ScatterTable) -> Scatter:
    """Return the scatter that a table tells of."""
    return Scatter(table.frac, table.because or "")


def read_check(document: object, where: str, data: Data) -> Check:
    """Return the number to recompute that a table describes.

    Args:
        document: As read from TOML.
        where: Where it stands: `evidence.toml: check[2]`.
        data: The file's figures.

    Raises:
        ConfigErrors: Everything that is wrong with it.
    """
    entry = _Entry(document, where, "name")
    table, entry.told = check_each_key(CHECK, document, entry.place, CHECK_KEYS, entry.problems)
    entry.need("name", "stated", "because")
    entry.part("missing", "formula", "rounded")
    entry.part("tolerance", "digits")
    if table.formula is None and table.missing is None:
        entry.refuse(
            "formula", "missing", 'say how the number follows from others, or missing = "what is not published"'
        )
    entry.done()
    check = Check(
        name=table.name or "",
        stated=table.stated or (),
        unit=table.unit or "",
        because=table.because or "",
        formula=table.formula,
        tolerance=_tolerance(table),
        rounded=table.rounded,
        missing=table.missing or "",
        note=table.note or "",
        where=where,
    )
    try:
        recompute(check, data)
    except FormulaError as error:
        entry.refuse("formula", str(error), "it gives as many numbers as are stated")
    entry.done()
    return check


def read_claim(
    document: object, where: str, data: Data, scatter: Scatter, checks: Sequence[str]
) -> PublishedHypothesis:
    """Return the claim to judge that a table describes.

    Args:
        document: As read from TOML.
        where: Where it stands: `evidence.toml: hypothesis[2]`.
        data: The file's figures.
        scatter: What is assumed of single figures where the table says nothing.
        checks: Names of the file's checks; empty when they are not known.

    Raises:
        ConfigErrors: Everything that is wrong with it.
    """
    entry = _Entry(document, where, "id")
    table, entry.told = check_each_key(CLAIM, document, entry.place, CLAIM_KEYS, entry.problems)
    entry.need("id", "claim", "because")
    _check_form(entry, table)
    for name in table.rests_on:
        if checks and name not in checks:
            near = nearest(name, checks)
            entry.refuse(
                "rests_on", f"no check is named {name!r}", f"did you mean {near!r}?" if near else "name a check"
            )
    entry.done()
    claim = PublishedHypothesis(
        id=table.id or "",
        claim=table.claim or "",
        because=table.because or "",
        predict=_prediction(table),
        smallest=table.smallest,
        unit=table.unit or "",
        value=table.value,
        arms=None if table.baseline is None or table.candidate is None else (table.baseline, table.candidate),
        scatter=scatter if table.scatter is None else scatter_of(table.scatter),
        rests_on=tuple(table.rests_on),
        obstacle=table.obstacle or "",
        corrected=tuple(Reading(name, formula) for name, formula in table.corrected.items()),
        if_refuted=table.if_refuted or "",
        if_supported=table.if_supported or "",
        where=where,
    )
    alone = dataclasses.replace(claim, rests_on=(), corrected=())
    _evaluate(entry, "baseline" if claim.arms else "value", alone, data)
    for one in claim.corrected:
        _evaluate(entry, "corrected", dataclasses.replace(alone, arms=None, value=one.value), data)
    entry.done()
    return claim


def _evaluate(entry: _Entry, key: str, claim: PublishedHypothesis, data: Data) -> None:
    try:
        judge_claim(claim, data, {})
    except FormulaError as error:
        entry.refuse(key, str(error), "a number, or a list of repetitions")


class _Entry:
    """Where an entry stands, what stands in it, and at most one problem for each of its keys."""

    def __init__(self, document: object, where: str, label: str) -> None:
        self.problems: list[ConfigError] = []
        self.told: set[str] = set()
        self.given: frozenset[str] = frozenset(document if isinstance(document, dict) else ())
        self._where = where
        name = document.get(label) if isinstance(document, dict) else None
        shown = isinstance(name, str) and name.isprintable() and 0 < len(name) <= _LONGEST_NAME
        self._name = f" ({name})" if shown else ""

    def place(self, key: str) -> str:
        return f"{self._where}{'.' * bool(key)}{key}{self._name}"

    def refuse(self, key: str, message: str, hint: str) -> None:
        if key not in self.told:
            self.told.add(key)
            self.problems.append(ConfigError(f"{self.place(key)}: {message}", hint))

    def need(self, *keys: str) -> None:
        for key in keys:
            if key not in self.given:
                self.refuse(key, "missing", _NEEDED[key])

    def part(self, key: str, *others: str) -> None:
        """Refuse what cannot stand beside a key."""
        for other in others:
            if key in self.given and other in self.given:
                self.refuse(other, f"does not go with {key}", f"leave {key} or {other} out")

    def done(self) -> None:
        if self.problems:
            raise ConfigErrors(self.problems)


def _tolerance(table: CheckTable) -> Tolerance:
    if table.tolerance is not None:
        return Tolerance(table.tolerance)
    return Tolerance.of_digits(stated_decimals(table.stated or ()) if table.digits is None else table.digits)


def _check_form(entry: _Entry, table: ClaimTable) -> None:
    entry.part("value", "baseline", "candidate")
    entry.part("predict", "at_least", "at_most", "unit")
    entry.part("at_least", "at_most")
    if "predict" not in entry.given:
        entry.part("at_least", "smallest")
        entry.part("at_most", "smallest")
    if not entry.given & {"predict", "at_least", "at_most"}:
        entry.refuse("predict", "missing", f"{_NEEDED['predict']}; of a single figure, at_least or at_most")
    if entry.given & {"baseline", "candidate"}:
        entry.need("baseline", "candidate", "predict")
    if "predict" in entry.given:
        entry.need("smallest")
    if not entry.given & {"value", "baseline", "candidate", "obstacle"}:
        entry.refuse("value", "missing", "a formula; or baseline and candidate; or obstacle, why there is no figure")
    if table.predict is not None and table.smallest is not None:
        # The same contradictions as in a measured comparison, whose arms are of no interest here.
        arms = Arm("baseline", _ANY_WORKLOAD), Arm("candidate", _ANY_WORKLOAD)
        found = contradiction(Comparison(*arms, table.predict, table.smallest))
        if found is not None:
            entry.refuse(found.key, found.message, found.remedy)


def _prediction(table: ClaimTable) -> Band:
    if table.predict is not None:
        return table.predict
    return Band(
        -math.inf if table.at_least is None else table.at_least, math.inf if table.at_most is None else table.at_most
    )
