r"""Patterns as llama.cpp's `std::regex` reads them (ECMAScript as libstdc++ has it), for Python's `re`.

The two languages look alike and differ in places: `{` is never a literal in std::regex, `\A` is the letter A, `(?i)`
and possessive quantifiers do not exist, `[]` matches nothing. A pattern is therefore parsed here and written anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CONTROLS = {"0": "\0", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NAMED_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "d": "0-9",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "s": r"\s",
    "space": r"\s",
    "upper": "A-Z",
    "w": r"\w",
    "xdigit": "0-9A-Fa-f",
}
_NOTHING, _ANYTHING = "(?!)", r"[\s\S]"
_MAX_REPEATS = 100_000


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return a pattern that `search` treats as `std::regex_search` treats the given one.

    Raises:
        ValueError: `std::regex` refuses it, or uses it in a way that this module does not follow; the text says which.
    """
    parser = _Parser(pattern)
    try:
        translated = parser.alternatives()
        if parser.peek():
            raise ValueError(f"{parser.peek()!r} at position {parser.position + 1} stands alone")
        return re.compile(translated, re.ASCII)
    except (RecursionError, OverflowError, re.error) as error:
        raise ValueError("it is nested or repeated too often") from error


@dataclass
class _Parser:
    """Recursive descent over the grammar of libstdc++'s `_Compiler` (bits/regex_compiler.tcc)."""

    pattern: str
    position: int = 0

    def peek(self, length: int = 1) -> str:
        return self.pattern[self.position : self.position + length]

    def _take(self) -> str:
        if self.position >= len(self.pattern):
            raise ValueError("it ends too early")
        self.position += 1
        return self.pattern[self.position - 1]

    def _skip(self, text: str) -> bool:
        found = self.pattern.startswith(text, self.position)
        self.position += len(text) * found
        return found

    def alternatives(self) -> str:
        parts = [self._sequence()]
        while self._skip("|"):
            parts.append(self._sequence())
        return "|".join(parts)

    def _sequence(self) -> str:
        written = ""
        while (term := self._assertion()) or (term := self._quantified()):
            written += term
        return written

    def _assertion(self) -> str:
        for text in ("^", "$", r"\b", r"\B"):
            if self._skip(text):
                return text
        for text in ("(?=", "(?!"):
            if self._skip(text):
                return text + self._to_closing_parenthesis()
        return ""

    def _quantified(self) -> str:
        atom = self._atom()
        while atom and (quantifier := self._quantifier()):
            atom = f"(?:{atom}{quantifier})"
        return atom

    def _atom(self) -> str:
        character = self.peek()
        if character in ("", "*", "+", "?", "{", ")", "|"):
            return ""
        self.position += 1
        match character:
            case ".":
                return "."
            case "(":
                return self._group()
            case "[":
                return self._bracket()
            case "\\":
                return self._escape()
            case "\0":
                raise ValueError("it holds a NUL character")
        return re.escape(character)

    def _group(self) -> str:
        if self.peek() == "?" and self.peek(2) != "?:":
            raise ValueError(f"std::regex has no group (?{self.peek(2)[1:]}")
        self._skip("?:")
        return "(?:" + self._to_closing_parenthesis()

    def _to_closing_parenthesis(self) -> str:
        inside = self.alternatives()
        if not self._skip(")"):
            raise ValueError("a parenthesis is not closed")
        return inside + ")"

    def _quantifier(self) -> str:
        symbol = self.peek()
        if symbol in ("*", "+", "?") and symbol:
            self.position += 1
        elif self._skip("{"):
            digits = re.match(r"[0-9]+", self.pattern[self.position :])
            self.position += len(digits[0]) if digits else 0
            if digits is None or not self._skip("}") or int(digits[0]) > _MAX_REPEATS:
                raise ValueError("braces hold a number of repetitions, as in {2}")
            symbol = f"{{{int(digits[0])}}}"
        else:
            return ""
        return symbol + ("?" if self._skip("?") else "")

    def _escape(self) -> str:
        character = self._take()
        if character in _CONTROLS:
            return re.escape(_CONTROLS[character])
        if character in "dDsSwW":
            return "\\" + character
        if character.isdigit():
            raise ValueError("k3prof does not follow references back to a group: write the alternatives out")
        return re.escape(self._plain(character))

    def _plain(self, character: str) -> str:
        """Return what an escaped character that has no meaning of its own stands for."""
        if character in "xu":
            digits = self.peek({"x": 2, "u": 4}[character])
            if not re.fullmatch("[0-9A-Fa-f]{2}|[0-9A-Fa-f]{4}", digits):
                raise ValueError(f"\\{character} is not followed by hexadecimal digits")
            self.position += len(digits)
            return chr(int(digits, 16))
        if character == "c":
            raise ValueError("k3prof does not follow \\c: write \\x and two hexadecimal digits")
        return character

    def _bracket(self) -> str:
        negated = self._skip("^")
        members: list[str] = []
        is_class = False
        while not self._skip("]"):
            if is_class and self.peek() == "-" and self.peek(2) != "-]":
                raise ValueError("a class of characters begins no range")
            member = self._member()
            is_class = len(member) > 1
            members.append(member if is_class else self._range(member))
        if not members:
            return _ANYTHING if negated else _NOTHING
        return f"[{'^' * negated}{''.join(members)}]"

    def _range(self, low: str) -> str:
        """Return the range that begins with a character, or the character; a dash that joins no two means itself."""
        if self.peek() != "-" or self.peek(2) == "-]":
            return re.escape(low)
        self.position += 1
        high = self._member()
        if len(high) > 1 or high < low:
            raise ValueError(f"{low}-{high} is no range of characters")
        return f"{re.escape(low)}-{re.escape(high)}"

    def _member(self) -> str:
        """Return one character of a bracket expression, or a class as Python writes it there."""
        character = self._take()
        if character == "[" and self.peek() in (":", ".", "="):
            kind = self._take()
            name, closed, _ = self.pattern[self.position :].partition(kind + "]")
            if kind != ":" or not closed or name not in _NAMED_CLASSES:
                raise ValueError(f"[{kind}{name[:20]}{kind}] is no class of characters")
            self.position += len(name) + 2
            return _NAMED_CLASSES[name]
        if character != "\\":
            return character
        character = self._take()
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character in "dDsSwW":
            return "\\" + character
        if character.isdigit() or character == "B":
            raise ValueError(f"\\{character} has no meaning in brackets")
        return self._plain(character)
