"""Checks of answers: strict about what is said, lenient about how."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from k3prof.core.probes.probe import Check

_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_SENTENCE_END = re.compile(r"[.!?。！？](?:\s|$)|[。！？]|\n")
_NUMBER = re.compile(r"(?<![\w.])[-−]?\d[\d,]*(?:\.\d+)?(?![\w])")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_WRAPPING = " \t\r\n\"'`*_“”‘’«»「」.,;:!?。！？，、"
_NEGATIONS = r"(?:not|never|isn['’]t|nicht|kein|pas|no es|不是|ではなく)"
_MOST_CHARACTERS = 2000


def says(*accepted: str, rivals: tuple[str, ...] = ()) -> Check:
    """Return a check for an answer whose first sentence names one of `accepted`, not denied, and none of `rivals`."""

    def check(text: str) -> bool:
        sentence = _plain(first_sentence(text))
        return any(_names(sentence, one) for one in accepted) and not any(_names(sentence, one) for one in rivals)

    return check


def number(expected: int) -> Check:
    """Return a check for an answer whose first sentence has this number last: `8`, or `4 + 4 = 8`."""

    def check(text: str) -> bool:
        found = _NUMBER.findall(first_sentence(text))
        return bool(found) and float(found[-1].replace(",", "").replace("−", "-")) == expected

    return check


def one_word(*accepted: str) -> Check:
    """Return a check for an answer that is one of these words and nothing else but quotes, emphasis and a full stop."""

    def check(text: str) -> bool:
        return _plain(spoken(text).strip(_WRAPPING)) in {_plain(one) for one in accepted}

    return check


def copies(original: str) -> Check:
    """Return a check for an answer whose first line is the original, to the letter, quotes around it or not."""

    def check(text: str) -> bool:
        line = next(iter(spoken(text).strip().splitlines()), "").strip()
        return original in {line, line.strip("\"'`“”"), line.removesuffix(".")}

    return check


def json_object(expected: Mapping[str, Any]) -> Check:
    """Return a check for an answer whose first JSON object has these very keys and values, texts in any case."""

    def check(text: str) -> bool:
        return _equal(first_object(text), expected)

    return check


def tool_call(name: str, arguments: Mapping[str, Any]) -> Check:
    """Return a check for a call of this function with these very arguments, which may be JSON inside a text."""

    def check(text: str) -> bool:
        call = first_object(text)
        if call is None or call.get("name") != name:
            return False
        given = call.get("arguments", call.get("parameters"))
        return _equal(first_object(given) if isinstance(given, str) else given, arguments)

    return check


def spoken(text: str) -> str:
    """Return an answer without the thoughts that some models write before it."""
    return _THOUGHT.sub("", text)


def first_sentence(text: str) -> str:
    """Return the first sentence of an answer; a line's end is a sentence's end."""
    plain = spoken(text).strip()
    end = _SENTENCE_END.search(plain)
    return plain[: end.start()] if end else plain


def first_object(text: str) -> dict[str, Any] | None:
    """Return the first JSON object in a text; None where there is none."""
    start = spoken(text)[:_MOST_CHARACTERS]
    at = start.find("{")
    if at < 0:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(start[at:])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def words(text: str) -> list[str]:
    """Return the words of a text in small letters, accents kept."""
    return [word.casefold() for word in _WORD.findall(unicodedata.normalize("NFC", text))]


def _names(sentence: str, name: str) -> bool:
    plain = _plain(name)
    # Where a script has no spaces, a word begins anywhere.
    edge = r"(?<!\w){}(?!\w)" if plain.isascii() else "{}"
    named = edge.format(re.escape(plain))
    return bool(re.search(named, sentence)) and not re.search(rf"{_NEGATIONS}\s*{named}", sentence)


def _plain(text: str) -> str:
    """Return the text in small letters, accents of Latin letters taken off."""
    decomposed = unicodedata.normalize("NFD", text.casefold())
    bare = re.sub("(?<=[a-z])[\N{COMBINING GRAVE ACCENT}-\N{COMBINING LATIN SMALL LETTER X}]+", "", decomposed)
    return unicodedata.normalize("NFKC", bare)


def _equal(found: object, expected: object) -> bool:
    if isinstance(expected, Mapping):
        return (
            isinstance(found, Mapping)
            and found.keys() == expected.keys()
            and all(_equal(found[key], value) for key, value in expected.items())
        )
    if isinstance(expected, list):
        return (
            isinstance(found, list)
            and len(found) == len(expected)
            and all(_equal(one, other) for one, other in zip(found, expected, strict=True))
        )
    if isinstance(expected, str):
        return isinstance(found, str) and _plain(found.strip()) == _plain(expected)
    return type(found) is type(expected) and found == expected
