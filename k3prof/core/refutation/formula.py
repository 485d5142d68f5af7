"""Formulas over published figures: arithmetic and nothing else, so that anybody's file can be judged.

    price_per_hour / ladder.aggregate / 3600 * 1e6
    sum(accepted_per_position) / (drafted / depth)
    gpu["RTX 4090"].bandwidth_gb_s / gpu.A40.bandwidth_gb_s

There are numbers, figures (dotted names and [index]), + - * / **, parentheses, [lists], and sum, min, max, mean and
len. Arithmetic with a list is done for each of its numbers. All numbers are floats, so that none grows without bound.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from k3prof.core.refutation.figures import Data, FormulaError, Path, Value, finite, look_up

_MOST_CHARACTERS = 500
_MOST_LEVELS = 40
_MOST_SHOWN = 8

_OPERATORS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)


_FUNCTIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": math.fsum,
    "min": min,
    "max": max,
    "mean": _mean,
    "len": len,
}


@dataclass(frozen=True)
class _Number:
    value: float


@dataclass(frozen=True)
class _Figure:
    """A place in the data, and the characters of the formula that name it."""

    path: Path
    start: int
    end: int


@dataclass(frozen=True)
class _Arithmetic:
    operation: Callable[..., float]
    operands: tuple[_Term, ...]


@dataclass(frozen=True)
class _Call:
    function: str
    arguments: tuple[_Term, ...]


@dataclass(frozen=True)
class _List:
    items: tuple[_Term, ...]


_Term = _Number | _Figure | _Arithmetic | _Call | _List


@dataclass(frozen=True)
class Formula:
    """A formula that is known to hold nothing but arithmetic.

    Attributes:
        text: As written, on one line.
    """

    text: str
    _root: _Term = field(repr=False, compare=False)

    @property
    def path(self) -> Path | None:
        """Where the figure stands that the formula is the mere name of; None when it is more than a name."""
        return self._root.path if isinstance(self._root, _Figure) else None

    def evaluate(self, data: Data) -> Value:
        """Return the formula's value: a finite number, or several.

        Raises:
            MissingFigure: A figure is not in the data.
            FormulaError: There is no such value.
        """
        try:
            return _value(self._root, data)
        except ZeroDivisionError as error:
            raise FormulaError("divides by zero") from error
        except OverflowError as error:
            raise FormulaError("a number beyond all bounds") from error

    def with_numbers(self, data: Data) -> str:
        """Return the formula with each figure's value in place of its name: `0.44 / 67.4 / 3600 * 1e6`.

        Raises:
            MissingFigure: A figure is not in the data.
            FormulaError: A name is no figure's.
        """
        text = self.text
        for figure in sorted(_figures(self._root), key=lambda one: -one.start):
            text = text[: figure.start] + _shown(look_up(figure.path, data)) + text[figure.end :]
        return text


def parse_formula(text: str) -> Formula:
    """Return the formula that a text is.

    Raises:
        FormulaError: It holds something else than arithmetic, or is too long.
    """
    line = " ".join(text.split())
    if len(line) > _MOST_CHARACTERS:
        raise FormulaError(f"longer than {_MOST_CHARACTERS} characters")
    if not line.isascii():
        raise FormulaError("holds characters that are not ASCII")
    try:
        with warnings.catch_warnings(action="ignore"):  # Python's advice on odd syntax, which is refused below
            tree = ast.parse(line, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FormulaError("no arithmetic expression") from error
    return Formula(line, _term(tree.body, _MOST_LEVELS))


def _term(node: ast.expr, levels: int) -> _Term:
    """Return what a node stands for: whatever is not named here is refused."""
    if levels == 0:
        raise FormulaError(f"nested more than {_MOST_LEVELS} levels deep")
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _Number(finite(number))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _Arithmetic(_OPERATORS[type(op)], (_term(left, levels - 1), _term(right, levels - 1)))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _Arithmetic(_OPERATORS[type(op)], (_term(operand, levels - 1),))
        case ast.List(elts=items):
            return _List(tuple(_term(item, levels - 1) for item in items))
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as arguments, keywords=[]) if name in _FUNCTIONS:
            return _Call(name, tuple(_term(argument, levels - 1) for argument in arguments))
        case ast.Call():
            raise FormulaError(f"calls something else than {', '.join(_FUNCTIONS)} of at least one list or number")
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return _Figure(_path(node), node.col_offset, node.end_col_offset or node.col_offset)
        case _:
            raise FormulaError("holds something else than numbers, figures, + - * / **, lists and parentheses")


def _path(node: ast.expr) -> Path:
    steps: list[str | int] = []
    while not isinstance(node, ast.Name):
        match node:
            case ast.Attribute(value=inner, attr=name):
                steps.append(name)
            case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as step)):
                steps.append(step)
            case ast.Subscript(
                value=inner, slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as back))
            ):
                steps.append(-back)
            case _:
                raise FormulaError('a figure is a dotted name with [number] or ["name"], and nothing else')
        node = inner
    return (node.id, *reversed(steps))


def _figures(term: _Term) -> Iterator[_Figure]:
    match term:
        case _Figure():
            yield term
        case _Arithmetic(operands=parts) | _Call(arguments=parts) | _List(items=parts):
            for part in parts:
                yield from _figures(part)


def _value(term: _Term, data: Data) -> Value:
    match term:
        case _Number(value=number):
            return number
        case _Figure(path=path):
            return look_up(path, data)
        case _Arithmetic(operation=operation, operands=operands):
            return _each(operation, [_value(one, data) for one in operands])
        case _Call(function=name, arguments=arguments):
            return finite(_FUNCTIONS[name](_numbers(name, [_value(one, data) for one in arguments])))
        case _List(items=items):
            return _flat([_value(item, data) for item in items])


def _numbers(function: str, arguments: Sequence[Value]) -> tuple[float, ...]:
    """Return what a function is taken of: the numbers of a list, or several numbers."""
    if len(arguments) == 1:
        (only,) = arguments
        if not isinstance(only, tuple):
            raise FormulaError(f"{function} of one number, where a list should be")
        if not only and function != "len":
            raise FormulaError(f"{function} of an empty list")
        return only
    return _flat(arguments)


def _flat(values: Sequence[Value]) -> tuple[float, ...]:
    numbers = [value for value in values if not isinstance(value, tuple)]
    if len(numbers) < len(values):
        raise FormulaError("a list within a list")
    return tuple(numbers)


def _each(operation: Callable[..., float], operands: Sequence[Value]) -> Value:
    """Return an operation's result; with lists, that of every number of them, side by side."""
    lengths = {len(one) for one in operands if isinstance(one, tuple)}
    if not lengths:
        return finite(operation(*operands))
    if len(lengths) > 1:
        raise FormulaError(f"combines lists of {' and '.join(str(length) for length in sorted(lengths))} numbers")
    (length,) = lengths
    columns = [one if isinstance(one, tuple) else (one,) * length for one in operands]
    return tuple(finite(operation(*row)) for row in zip(*columns, strict=True))


def _shown(value: Value) -> str:
    if not isinstance(value, tuple):
        return _number(value)
    numbers = [_number(one) for one in value]
    if len(numbers) > _MOST_SHOWN:
        numbers[_MOST_SHOWN - 1 : -1] = ["…"]
    return f"[{', '.join(numbers)}]"


def _number(value: float) -> str:
    return f"{value:.10g}" if value >= 0 else f"({value:.10g})"
