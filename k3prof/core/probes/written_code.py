"""Checks a recursive function that a model wrote, without running it: a small reader of arithmetic follows it."""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable, Mapping

from k3prof.core.probes.checks import spoken
from k3prof.core.probes.probe import Check

_FENCE = re.compile(r"```[\w+-]*\n(.*?)(?:```|\Z)", re.DOTALL)
_MOST_STEPS = 20_000
_DEEPEST = 60
_LARGEST = 10**12
_MOST_CHARACTERS = 4000
_BINARY: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class _UnreadableError(Exception):
    """The function does something that the reader does not follow."""


def recursive(cases: Mapping[int, int]) -> Check:
    """Return a check for an answer that defines a function of one number that calls itself and gives these values."""

    def check(text: str) -> bool:
        function = _function(text)
        if function is None or not _calls_itself(function):
            return False
        try:
            return all(_Reader(function).call(given, 0) == expected for given, expected in cases.items())
        except (_UnreadableError, ZeroDivisionError):
            return False

    return check


def _function(text: str) -> ast.FunctionDef | None:
    """Return the first function in a text that has one argument: in a code block, or bare with words after it."""
    plain = spoken(text)[:_MOST_CHARACTERS]
    fenced = _FENCE.search(plain)
    lines = (fenced[1] if fenced else plain[max(plain.find("def "), 0) :]).splitlines()
    for end in range(len(lines), 0, -1):
        try:
            with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
                tree = ast.parse("\n".join(lines[:end]))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        found = (node for node in tree.body if isinstance(node, ast.FunctionDef) and len(node.args.args) == 1)
        return next(found, None)
    return None


def _calls_itself(function: ast.FunctionDef) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function.name
        for node in ast.walk(function)
    )


class _Reader:
    """Follows conditions, returns, whole-number arithmetic and calls of itself; nothing else."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self._function = function
        self._argument = function.args.args[0].arg
        self._steps = 0

    def call(self, given: int, depth: int) -> int:
        if depth > _DEEPEST:
            raise _UnreadableError
        found = self._block(self._function.body, {self._argument: given}, depth)
        if found is None:
            raise _UnreadableError
        return found

    def _block(self, body: list[ast.stmt], names: dict[str, int], depth: int) -> int | None:
        """Return what a block returns; None where it comes to its end."""
        for statement in body:
            match statement:
                case ast.Return(value=ast.expr() as value):
                    return self._value(value, names, depth)
                case ast.If(test=test, body=then, orelse=otherwise):
                    chosen = then if self._value(test, names, depth) else otherwise
                    if (found := self._block(chosen, names, depth)) is not None:
                        return found
                case ast.Expr(value=ast.Constant(value=str())):
                    continue
                case _:
                    raise _UnreadableError
        return None

    def _value(self, node: ast.expr, names: dict[str, int], depth: int) -> int:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _UnreadableError
        match node:
            case ast.Constant(value=int() as value):
                found = int(value)
            case ast.Name(id=name) if name in names:
                found = names[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                found = _BINARY[type(op)](self._value(left, names, depth), self._value(right, names, depth))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                found = -self._value(operand, names, depth)
            case ast.IfExp(test=test, body=then, orelse=otherwise):
                found = self._value(then if self._value(test, names, depth) else otherwise, names, depth)
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name == self._function.name:
                found = self.call(self._value(argument, names, depth), depth + 1)
            case _:
                found = int(self._holds(node, names, depth))
        if abs(found) > _LARGEST:
            raise _UnreadableError
        return found

    def _holds(self, node: ast.expr, names: dict[str, int], depth: int) -> bool:
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return _COMPARE[type(op)](self._value(left, names, depth), self._value(right, names, depth))
            case ast.Compare(left=left, ops=[ast.In()], comparators=[ast.Tuple(elts=ones) | ast.List(elts=ones)]):
                return self._value(left, names, depth) in [self._value(one, names, depth) for one in ones]
            case ast.BoolOp(op=op, values=values):
                parts = (bool(self._value(one, names, depth)) for one in values)
                return all(parts) if isinstance(op, ast.And) else any(parts)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self._value(operand, names, depth)
            case _:
                raise _UnreadableError
