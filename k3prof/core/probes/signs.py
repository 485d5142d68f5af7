"""Signs that a model is broken, seen in the form of an answer alone."""

from __future__ import annotations

import re
import statistics
import unicodedata
from collections import Counter
from collections.abc import Iterator

from k3prof.core.probes.probe import Answer, Sign

UNSURE_FRAC = 0.05
"""A model that knows what to say gives its greedy tokens tens of per cent; near-uniform noise gives them one or two."""
_LOOPED_CHARACTERS = 24
_LONGEST_UNIT = 60
_REPEATS = 4
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_MARKERS = re.compile(
    r"<\|[\w▁ -]{2,40}\|>|<｜[\w▁ -]{2,40}｜>|</?(?:start|end)_of_(?:turn|text)>|<(?:bos|eos|pad|unk)>|</?s>|\[/?INST\]"
    r"|<<SYS>>|<reserved_\d+>|<unused\d+>|\[(?:gMASK|UNUSED_TOKEN_\d+)\]",
)
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HALFWIDTH", "FULLWIDTH", "IDEOGRAPHIC"})
_ODD_WORD = re.compile(r"[a-z][A-Z]|[A-Za-z]\d+[A-Za-z]|[A-Za-z][;:!?,()\[\]\"$%^*=+~|]+[A-Za-z]|[A-Za-z]{25}")
_FEWEST_WORDS = 8
_ODD_FRAC = 0.05
_CODE = re.compile(r"\bdef |[{}]|```|://")
_LETTERS_OF_A_SCRIPT = 2
_MOST_SCRIPTS = 2


def signs(answer: Answer) -> tuple[Sign, ...]:
    """Return the signs of breakage in an answer; none where there is no answer."""
    return () if answer.text is None else tuple(_signs(answer.text, answer.likelihoods))


def _signs(text: str, likelihoods: tuple[float, ...]) -> Iterator[Sign]:
    if not text.strip():
        yield Sign.EMPTY
    if loops(text):
        yield Sign.LOOP
    if any(character == _REPLACEMENT or _is_control(character) for character in text):
        yield Sign.INVALID_TEXT
    if _MARKERS.search(text):
        yield Sign.MARKERS
    if len(_scripts(text)) > _MOST_SCRIPTS:
        yield Sign.MIXED_SCRIPTS
    if _is_salad(text):
        yield Sign.NO_WORDS
    if likelihoods and statistics.median(likelihoods) < UNSURE_FRAC:
        yield Sign.UNSURE


def loops(text: str) -> bool:
    """Return whether the text ends in the same words or characters over and over.

    Counted are at least four repeats that fill at least 24 characters, at the end, where endless repetition is.
    """
    end = text.rstrip()
    for length in range(1, min(_LONGEST_UNIT, len(end) // _REPEATS) + 1):
        repeats = max(_REPEATS, -(-_LOOPED_CHARACTERS // length))
        if end.endswith(end[-length:] * repeats) and not end[-length:].isspace():
            return True
    return False


def _is_salad(text: str) -> bool:
    """Return whether text that is no code has capitals, digits or signs inside its words, as glued tokens do."""
    found = text.split()
    if len(found) < _FEWEST_WORDS or _CODE.search(text):
        return False
    return sum(bool(_ODD_WORD.search(word)) for word in found) >= _ODD_FRAC * len(found)


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cs"} and character not in "\n\r\t"


def _scripts(text: str) -> set[str]:
    """Return the scripts of which there are a few letters; what East Asian languages mix counts as one."""
    names = (unicodedata.name(character, "").split(" ")[0] for character in text if character.isalpha())
    counted = Counter("EAST ASIAN" if name in _EAST_ASIAN else name for name in names)
    return {name for name, letters in counted.items() if letters >= _LETTERS_OF_A_SCRIPT}
