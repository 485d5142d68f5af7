"""Text that others wrote (names, log lines, settings), made safe to show."""

from __future__ import annotations

import re
import unicodedata

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~&$#])")
_BACKTICKS = re.compile(r"`+")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def one_line(text: str) -> str:
    """Return the text on one line: no terminal sequences, control, direction or invisible characters."""
    return " ".join(lines(text).split())


def lines(text: str) -> str:
    """Return the text with its line breaks and indentation, free of everything else that `one_line` takes out."""
    plain = _ANSI.sub("", text).replace("\r\n", "\n").expandtabs(4)
    return "".join(_visible(character) for character in plain)


def markdown(text: str) -> str:
    """Return the text on one line, such that Markdown shows it as it is: inside a line, a heading, a table's cell."""
    return _MARKDOWN.sub(r"\\\1", one_line(text))


def markdown_code(text: str) -> str:
    """Return a code block that shows the text as it is, whatever backticks are in it."""
    shown = lines(text)
    fence = "`" * max([3, *(len(run) + 1 for run in _BACKTICKS.findall(shown))])
    return f"{fence}text\n{shown}\n{fence}"


def _visible(character: str) -> str:
    if character == "\n":
        return character
    category = unicodedata.category(character)
    if category == "Cs":
        return "\N{REPLACEMENT CHARACTER}"
    return "" if category in _INVISIBLE else character
