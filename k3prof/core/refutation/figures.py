"""Figures by their names: where a number stands in nested tables, and what is wrong when none does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from k3prof.core.flags import nearest

Value = float | tuple[float, ...]
Data = Mapping[str, object]
"""Nested tables of numbers and lists of numbers; what else stands in them has no value."""
Path = tuple[str | int, ...]
"""Keys of tables and positions in lists, from the outside in."""

_MOST_NUMBERS = 10_000


class FormulaError(ValueError):
    """A formula that is none, or has no value."""


class MissingFigure(FormulaError):  # noqa: N818
    """A figure that a formula needs is not there."""


def look_up(path: Path, data: Data) -> Value:
    """Return the number or the numbers that stand at a place.

    Raises:
        MissingFigure: There is no such place.
        FormulaError: What stands there is no number.
    """
    found: object = data
    for position, step in enumerate(path):
        found = _part(found, step, path, position)
    if isinstance(found, list | tuple):
        if len(found) > _MOST_NUMBERS:
            raise FormulaError(f"{path_name(path)} holds more than {_MOST_NUMBERS:,} numbers")
        return tuple(_figure(one, path) for one in found)
    return _figure(found, path)


def _part(table: object, step: str | int, path: Path, position: int) -> object:
    name = path_name(path[: position + 1])
    if isinstance(table, Mapping) and isinstance(step, str):
        if step not in table:
            near = nearest(step, [str(key) for key in table])
            raise MissingFigure(f"there is no {name}" + (f"; did you mean {near}?" if near else ""))
        return table[step]
    if isinstance(table, list | tuple) and type(step) is int:
        if not -len(table) <= step < len(table):
            raise MissingFigure(f"there is no {name}: the list has {len(table)}")
        return table[step]
    raise MissingFigure(f"there is no {name}: {path_name(path[:position])} has no such parts")


def _figure(value: object, path: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        kind = "a table" if isinstance(value, Mapping) else "no number"
        raise FormulaError(f"{path_name(path)} is {kind}, where a number or a list of numbers should be")
    return finite(value)


def path_name(path: Sequence[str | int]) -> str:
    """Return a figure's name as formulas write it: `ladder.aggregate[0]`, `gpu["RTX 4090"]`."""
    first, *rest = path
    steps = [f".{step}" if isinstance(step, str) and step.isidentifier() else _subscript(step) for step in rest]
    return "".join([str(first), *steps])


def _subscript(step: str | int) -> str:
    return f'["{step}"]' if isinstance(step, str) else f"[{step}]"


def finite(number: object) -> float:
    """Return a number as a float.

    Raises:
        FormulaError: It is not real, or too large.
    """
    if isinstance(number, complex):
        raise FormulaError("a root of a negative number")
    try:
        value = float(number)  # type: ignore[arg-type]
    except OverflowError as error:
        raise FormulaError("a number beyond all bounds") from error
    if not math.isfinite(value):
        raise FormulaError("a number beyond all bounds")
    return value
