"""What may stand in a file of published evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, PlainValidator, Strict, TypeAdapter, with_config

from k3prof.core.refutation.figures import FormulaError
from k3prof.core.refutation.formula import Formula, parse_formula
from k3prof.core.refutation.published import Scatter
from k3prof.store.hypothesis_tables import Id, Number, Prediction, Sentence
from k3prof.store.toml_file import shown
from k3prof.store.toml_tables import refusal

_MOST_ENTRIES = 1000
_MOST_DIGITS = 15
_TOO_LARGE = 1e300


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _TOO_LARGE:
        raise refusal(f"{shown(value)} is no number", "write the number as published, without its unit")
    return float(value)


def _numbers(value: object) -> tuple[float, ...]:
    if not isinstance(value, list):
        return (_number(value),)
    if not value:
        raise refusal("an empty list", "give at least one number")
    return tuple(_number(one) for one in value)


def _formula(value: object) -> Formula:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return parse_formula(repr(_number(value)))
    if not isinstance(value, str):
        raise refusal(f"{shown(value)} is no formula", 'write it as text: "7 * (512 + 64) * 2 / 1000"')
    try:
        return parse_formula(value)
    except FormulaError as error:
        raise refusal(
            f"{shown(value)}: {error}",
            "there are numbers, figures of [data], + - * / **, ( ), sum, min, max, mean, len",
        ) from error


def _names(value: object) -> tuple[Formula, ...]:
    if not isinstance(value, list):
        raise refusal(f"must be a list of figures, not {shown(value)}", 'rounded = ["ladder.aggregate"]')
    found = tuple(_formula(one) for one in value)
    for one in found:
        if one.path is None:
            raise refusal(f"{shown(one.text)} is no figure's name", 'rounded = ["ladder.aggregate"]')
    return found


def _readings(value: object) -> dict[str, Formula]:
    readings = value if isinstance(value, dict) else {"corrected": value}
    return {" ".join(str(name).split()): _formula(formula) for name, formula in readings.items()}


def _data(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise refusal(f"must be a table, not {shown(value)}", "write the figures below [data.…]")
    _check_data(value, "")
    return value


def _check_data(value: object, place: str) -> None:
    match value:
        case dict():
            for key, part in value.items():
                _check_data(part, f"{place}.{key}")
        case list():
            for at, part in enumerate(value):
                _check_data(part, f"{place}[{at}]")
        case str() | bool():
            pass
        case int() | float() if abs(value) < _TOO_LARGE:
            pass
        case _:
            raise refusal(
                f"{place.removeprefix('.')}: {shown(value)} is no figure", "numbers, lists, tables and notes stand here"
            )


def _tolerance(value: float) -> float:
    if value <= 0:
        raise refusal(f"{value:g} is no tolerance", "a number above 0, in the unit of what is stated")
    return value


def _digits(value: int) -> int:
    if abs(value) > _MOST_DIGITS:
        raise refusal(f"{value} digits", f"at most {_MOST_DIGITS} after the point; -1 for a number rounded to tens")
    return value


def _frac(value: float) -> float:
    if not 0 <= value < 1:
        raise refusal(f"{value:g} is no share", "from 0 to below 1: 0.02 is 2 % either way")
    return value


def _entries(value: object) -> list[object]:
    if not isinstance(value, list):
        raise refusal(f"must be a list of tables, not {shown(value)}", "write it in double brackets, [[…]]")
    if len(value) > _MOST_ENTRIES:
        raise refusal(f"{len(value)} of them", f"at most {_MOST_ENTRIES} stand in one file")
    return value


AFormula = Annotated[Formula, PlainValidator(_formula)]
Entries = Annotated[list[object], PlainValidator(_entries)]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class ScatterTable:
    """`[scatter]`: how far a single figure is assumed to be off."""

    frac: Annotated[Number, AfterValidator(_frac)] = Scatter.frac
    because: Sentence | None = None


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class CheckTable:
    """One `[[check]]`."""

    name: Sentence | None = None
    stated: Annotated[tuple[float, ...], PlainValidator(_numbers)] | None = None
    unit: Sentence | None = None
    formula: AFormula | None = None
    because: Sentence | None = None
    digits: Annotated[int, Strict(), AfterValidator(_digits)] | None = None
    tolerance: Annotated[Number, AfterValidator(_tolerance)] | None = None
    rounded: Annotated[tuple[Formula, ...], PlainValidator(_names)] = ()
    missing: Sentence | None = None
    note: Sentence | None = None


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class ClaimTable:
    """One `[[hypothesis]]`."""

    id: Id | None = None
    claim: Sentence | None = None
    because: Sentence | None = None
    value: AFormula | None = None
    baseline: AFormula | None = None
    candidate: AFormula | None = None
    predict: Prediction | None = None
    smallest: Number | None = None
    at_least: Number | None = None
    at_most: Number | None = None
    unit: Sentence | None = None
    scatter: ScatterTable | None = None
    rests_on: list[Sentence] = field(default_factory=list)
    obstacle: Sentence | None = None
    corrected: Annotated[dict[str, Formula], PlainValidator(_readings)] = field(default_factory=dict)
    if_refuted: Sentence | None = None
    if_supported: Sentence | None = None


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class EvidenceTable:
    """The file, its checks and hypotheses still unread."""

    title: Sentence | None = None
    source: Sentence | None = None
    scatter: ScatterTable = ScatterTable()
    data: Annotated[Mapping[str, object], PlainValidator(_data)] = field(default_factory=dict)
    check: Entries = field(default_factory=list)
    hypothesis: Entries = field(default_factory=list)


SCATTER_KEYS = tuple(key.name for key in fields(ScatterTable))
CHECK = TypeAdapter(CheckTable)
CHECK_KEYS = tuple(key.name for key in fields(CheckTable))
CLAIM = TypeAdapter(ClaimTable)
CLAIM_KEYS = (*(key.name for key in fields(ClaimTable)), *(f"scatter.{key}" for key in SCATTER_KEYS))
EVIDENCE = TypeAdapter(EvidenceTable)
EVIDENCE_KEYS = (*(key.name for key in fields(EvidenceTable)), *(f"scatter.{key}" for key in SCATTER_KEYS))
