"""What a model is asked, what it answered, and what that answer counts as."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Check = Callable[[str], bool]
"""Whether a text answers its question: strict about what is said, lenient about how."""


class Group(StrEnum):
    """What a probe tells something about."""

    FACTS = "facts"
    ARITHMETIC = "arithmetic"
    CODE = "recursion in code"
    TOOLS = "tool call"
    STRUCTURE = "structured output"
    COPY = "verbatim copy"
    ONE_WORD = "one word only"
    ENGLISH = "English"
    FRENCH = "French"
    GERMAN = "German"
    SPANISH = "Spanish"
    CHINESE = "Chinese"
    JAPANESE = "Japanese"


@dataclass(frozen=True)
class Style:
    """How a model without a chat template is shown what is wanted: questions with their answers, then the question.

    Attributes:
        question: The word before a question.
        answer: The word before an answer.
        examples: Questions and their answers.
    """

    question: str
    answer: str
    examples: tuple[tuple[str, str], ...]

    def prompt(self, question: str) -> str:
        """Return the text whose continuation is the answer."""
        shown = "".join(f"{self.question} {asked}\n{self.answer} {answer}\n\n" for asked, answer in self.examples)
        return f"{shown}{self.question} {question}\n{self.answer}"

    @property
    def stops(self) -> tuple[str, ...]:
        """Return what ends an answer: an empty line, or the next question."""
        return ("\n\n", f"\n{self.question}")


@dataclass(frozen=True)
class Tool:
    """A function that a model may call.

    Attributes:
        name: Its name.
        about: What it does.
        parameters: Its arguments as a JSON schema.
    """

    name: str
    about: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Probe:
    """One question.

    Attributes:
        id: Its name, the same in every version of the set.
        group: What it tells something about.
        question: As it is asked.
        expected: What counts as right, for people.
        check: Whether a text is right. A tool call comes as JSON: `{"name": …, "arguments": {…}}`.
        style: How to ask a model that has no chat template.
        tokens: Room for the answer.
        schema: A JSON schema that the server enforces by a grammar; None for free text.
        tool: What a chat model may call; None for nothing.
    """

    id: str
    group: Group
    question: str
    expected: str
    check: Check
    style: Style
    tokens: int = 32
    schema: Mapping[str, Any] | None = None
    tool: Tool | None = None


@dataclass(frozen=True)
class Answer:
    """What came back.

    Attributes:
        text: The raw answer; None where there is none.
        reason: Why there is none.
        likelihoods: Probability that the model gave to each token of it; empty where the server does not say.
    """

    text: str | None
    reason: str = ""
    likelihoods: tuple[float, ...] = ()


class Sign(StrEnum):
    """A sign of breakage that needs no knowledge of the right answer."""

    EMPTY = "empty"
    LOOP = "repeats itself"
    INVALID_TEXT = "invalid text"
    MARKERS = "template markers"
    MIXED_SCRIPTS = "mixed scripts"
    NO_WORDS = "words that are none"
    UNSURE = "near-random tokens"


class Outcome(StrEnum):
    """What an answer counts as."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    UNANSWERED = "unanswered"


@dataclass(frozen=True)
class Result:
    """A probe with its answer, judged.

    Attributes:
        probe: What was asked.
        answer: What came back.
        outcome: What it counts as.
        signs: Signs of breakage in it.
    """

    probe: Probe
    answer: Answer
    outcome: Outcome
    signs: tuple[Sign, ...] = ()
