"""Whether a text is running text of one language, told by the words and letters that every text of it has."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping

from k3prof.core.probes.checks import spoken, words
from k3prof.core.probes.probe import Check, Group
from k3prof.core.probes.signs import loops

_FEWEST_WORDS = 4
_FEWEST_LETTERS = 6
_FUNCTION_WORDS: Mapping[Group, frozenset[str]] = {
    language: frozenset(text.split())
    for language, text in {
        Group.ENGLISH: "the a an of and in on to is are was it they with for at from by that this there i my we you",
        Group.FRENCH: (
            "le la les un une des du de et est sont dans en au aux il elle ils on je nous sur pour avec que qui ce "
            "cette par ses son sa"
        ),
        Group.GERMAN: (
            "der die das den dem des ein eine einen einem einer und ist sind im in mit auf für von zu es er sie wir "
            "ich nicht am vom zum"
        ),
        Group.SPANISH: (
            "el la los las un una unos de del y es son está en al con por para que se lo su sus él ella hay muy como"
        ),
    }.items()
}
_LEAST_FUNCTION_FRAC = 0.2
_LEAST_SCRIPT_FRAC = 0.6
_LEAST_KANA_FRAC = 0.15
_MOST_KANA_FRAC = 0.05


def prose(language: Group, shown: Collection[str] = ()) -> Check:
    """Return a check for a few words or more in this language that repeat neither themselves nor what was shown."""

    def check(text: str) -> bool:
        plain = spoken(text)
        if loops(plain) or any(words(one) == words(plain) for one in shown):
            return False
        return _in_latin_letters(plain, language) if language in _FUNCTION_WORDS else _east_asian(plain, language)

    return check


def _in_latin_letters(text: str, language: Group) -> bool:
    found = words(text)
    if len(found) < _FEWEST_WORDS:
        return False
    hits = {other: sum(word in known for word in found) for other, known in _FUNCTION_WORDS.items()}
    own = hits.pop(language)
    return own >= _LEAST_FUNCTION_FRAC * len(found) and own > max(hits.values())


def _east_asian(text: str, language: Group) -> bool:
    names = [unicodedata.name(letter, "") for letter in text if letter.isalpha()]
    if len(names) < _FEWEST_LETTERS:
        return False
    han = sum(name.startswith("CJK") for name in names) / len(names)
    kana = sum(name.startswith(("HIRAGANA", "KATAKANA")) for name in names) / len(names)
    if language is Group.JAPANESE:
        return han + kana >= _LEAST_SCRIPT_FRAC and kana >= _LEAST_KANA_FRAC
    return han >= _LEAST_SCRIPT_FRAC and kana <= _MOST_KANA_FRAC
