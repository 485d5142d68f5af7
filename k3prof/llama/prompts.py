"""Prompts of an exact number of tokens: plain sentences, the same every time, no two requests alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

_SUBJECTS = ("the engineer", "a careful reader", "her brother", "the night train", "our cluster", "the old library")
_VERBS = ("measures", "describes", "repairs", "compares", "forgets", "carries", "explains", "follows")
_OBJECTS = ("three quiet rooms", "the second layer", "a letter from Lyon", "every open question", "the slow machine")
_ENDINGS = ("before the morning", "without a word", "because the numbers agree", "while the others wait", "once more")
_SEED = 20260727
_STRIDE = 97
_SENTENCES_PER_STEP = 200


class PromptSource:
    """Cuts prompts out of one long text that the server's own tokenizer has read.

    Args:
        tokenize: The server's tokenizer: text to token ids.
    """

    def __init__(self, tokenize: Callable[[str], Sequence[int]]) -> None:
        self._tokenize = tokenize
        self._random = random.Random(_SEED)  # noqa: S311 - sameness is wanted here, not secrecy
        self._ids: list[int] = []

    def prompt(self, tokens: int, number: int) -> list[int]:
        """Return a prompt of exactly `tokens` ids; different numbers give prompts that differ from the start."""
        start = number * _STRIDE
        while len(self._ids) < start + tokens:
            grown = self._tokenize(self._text())
            if not grown:
                raise ValueError("the server's tokenizer returns no tokens for plain English sentences")
            self._ids += grown
        return self._ids[start : start + tokens]

    def _text(self) -> str:
        def sentence() -> str:
            parts = (self._random.choice(words) for words in (_SUBJECTS, _VERBS, _OBJECTS, _ENDINGS))
            return " ".join(parts).capitalize() + ". "

        return "".join(sentence() for _ in range(_SENTENCES_PER_STEP))
