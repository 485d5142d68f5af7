"""Recomputes published numbers from the figures that they are said to follow from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal

from k3prof.core.refutation.figures import Data, FormulaError, MissingFigure, Value
from k3prof.core.refutation.formula import Formula
from k3prof.core.refutation.published import Check, CheckResult, Finding, Recomputed, Tolerance

_FLOAT_NOISE = 1e-14
"""What binary fractions may add to a tolerance: 51.65 to one digit is 51.6 as well as 51.7."""


def decimals(number: float) -> int:
    """Return how many digits a number has after the point, as it is written shortest: 2 of 1.77, 0 of 7."""
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def stated_decimals(numbers: Sequence[float]) -> int:
    """Return with how many digits after the point numbers are stated: those of the one that shows most of them.

    A list shows its trailing zeros by its neighbours: 0.22 in [0.347, 0.22, 0.157] was stated as 0.220.
    """
    return max(map(decimals, numbers))


def recompute(check: Check, data: Data) -> CheckResult:
    """Return what a stated number comes to.

    Raises:
        FormulaError: The formula has no value, or another number of values than are stated.
    """
    if check.formula is None:
        return CheckResult(check, Finding.UNKNOWN, missing=check.missing)
    try:
        values = _aligned(check, check.formula.evaluate(data))
        arithmetic = check.formula.with_numbers(data)
        extremes = [_aligned(check, check.formula.evaluate(corner)) for corner in _corners(check.rounded, data)]
    except MissingFigure as missing:
        return CheckResult(check, Finding.UNKNOWN, missing=str(missing))
    numbers = tuple(
        _compared(stated, values[at], [extreme[at] for extreme in extremes], check.tolerance)
        for at, stated in enumerate(check.stated)
    )
    finding = Finding.CONFIRMED if all(one.agrees for one in numbers) else Finding.WRONG
    return CheckResult(check, finding, numbers, arithmetic)


def _aligned(check: Check, value: Value) -> tuple[float, ...]:
    values = value if isinstance(value, tuple) else (value,)
    if len(values) != len(check.stated):
        raise FormulaError(f"gives {len(values)} numbers, and {len(check.stated)} are stated")
    return values


def _compared(stated: float, value: float, extremes: Sequence[float], tolerance: Tolerance) -> Recomputed:
    low, high = min([value, *extremes]), max([value, *extremes])
    slack = tolerance.size + _FLOAT_NOISE * max(abs(stated), abs(value))
    return Recomputed(
        stated=stated,
        value=value,
        low=low,
        high=high,
        agrees=low - slack <= stated <= high + slack,
        plainly=math.isclose(stated, value, rel_tol=0.0, abs_tol=slack),
    )


def _corners(rounded: Sequence[Formula], data: Data) -> list[Data]:
    """Return the data with each rounded figure at either end of what it was rounded from, in all combinations.

    Of formulas that rise or fall steadily with each figure these hold the extremes.
    """
    corners = []
    for signs in itertools.product((-1.0, 1.0), repeat=len(rounded)):
        corner: object = data
        for figure, sign in zip(rounded, signs, strict=True):
            found = figure.evaluate(data)
            half = Tolerance.of_digits(stated_decimals(found if isinstance(found, tuple) else (found,))).size
            corner = _shifted(corner, figure.path or (), sign * half)
        corners.append(corner)
    return [corner for corner in corners if isinstance(corner, Mapping)]


def _shifted(data: object, path: Sequence[str | int], by: float) -> object:
    """Return the data with the figure at a path, or each number of the list there, shifted."""
    if path:
        step, *rest = path
        if isinstance(data, Mapping):
            return {**data, step: _shifted(data[step], rest, by)}
        if isinstance(data, list | tuple) and isinstance(step, int):
            at = step % len(data)
            return [*data[:at], _shifted(data[at], rest, by), *data[at + 1 :]]
    if isinstance(data, list | tuple):
        return [_shifted(one, (), by) for one in data]
    return data + by if isinstance(data, int | float) else data
