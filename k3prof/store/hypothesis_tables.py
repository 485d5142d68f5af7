"""What may stand in an experiment's `hypotheses.toml`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, Strict, TypeAdapter, with_config

from k3prof.core.refutation.hypothesis import Band, Rules
from k3prof.store.toml_file import shown
from k3prof.store.toml_tables import Text, WorkloadText, refusal

MOST_HYPOTHESES = 100
MOST_ALPHA = 0.2
FEWEST_BLOCKS, MOST_BLOCKS = 2, 100


def is_id(text: str) -> bool:
    """Return whether a text may be a hypothesis' id."""
    return re.fullmatch(r"[A-Za-z0-9_-]{1,64}", text) is not None


def _id(value: str) -> str:
    if not is_id(value):
        raise refusal(f"{shown(value)} is no id", "use at most 64 letters, digits, - and _")
    return value


def _sentence(value: str) -> str:
    sentence = " ".join(value.split())
    if not sentence:
        raise refusal("an empty text", "say it in one sentence, or leave the key out")
    if not sentence.isprintable():
        raise refusal("unprintable characters", "write it in plain text")
    return sentence


def _band(value: object) -> Band:
    if not isinstance(value, list) or len(value) != 2:
        raise refusal(
            "must be a list of two numbers: the lowest and the highest ratio candidate / baseline",
            "[1.6, 2.0], or [1.6, inf] for at least 1.6 times",
        )
    low, high = (_ratio(end) for end in value)
    if low < 0 or math.isinf(low):
        raise refusal(
            f"{low:g} is no lower end of a ratio", "predict candidate / baseline: 1 is no difference, 0.9 is 10 % less"
        )
    return Band(low, high)


def _ratio(value: object) -> float:
    match value:
        case bool():
            pass
        case int() if abs(value) < 1 << 63:
            return float(value)
        case float() if not math.isnan(value):
            return value
    raise refusal(f"{shown(value)} is no ratio", "write two numbers: [1.6, 2.0], or [1.6, inf]")


def _alpha(value: float) -> float:
    if not 0 < value <= MOST_ALPHA:
        raise refusal(f"{value:g} is no rate of error", f"above 0, at most {MOST_ALPHA}; 0.05 is customary")
    return value


def _looks(value: tuple[int, ...]) -> tuple[int, ...]:
    if not value:
        raise refusal("an empty list", "give at least one count of blocks, or leave the key out")
    if not all(FEWEST_BLOCKS <= look <= MOST_BLOCKS for look in value):
        raise refusal(
            f"a look is taken after {FEWEST_BLOCKS} to {MOST_BLOCKS} blocks", "for instance looks = [3, 5, 8, 12]"
        )
    if any(later <= earlier for earlier, later in pairwise(value)):
        raise refusal("does not ascend", "each look is taken after more blocks than the one before: [3, 5, 8, 12]")
    return value


def _some_of_them(value: object) -> list[object]:
    if not isinstance(value, list):
        raise refusal(f"must be a list of tables, not {shown(value)}", "write [[hypothesis]], in double brackets")
    if len(value) > MOST_HYPOTHESES:
        raise refusal(
            f"{len(value)} of them; at most {MOST_HYPOTHESES} are tested together",
            "the more there are, the more blocks each of them takes: keep those that you would act on",
        )
    return value


Id = Annotated[str, Strict(), AfterValidator(_id)]
Sentence = Annotated[str, Strict(), AfterValidator(_sentence)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Prediction = Annotated[Band, PlainValidator(_band)]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class HypothesisTable:
    """One `[[hypothesis]]`; which keys it needs depends on the form of its test."""

    id: Id | None = None
    claim: Sentence | None = None
    because: Sentence | None = None
    metric: Text | None = None
    workload: WorkloadText | None = None
    baseline: Text | None = None
    candidate: Text | None = None
    candidate_workload: WorkloadText | None = None
    varies: Text | None = None
    predict: Prediction | None = None
    smallest: Number | None = None
    of: Text | None = None
    at_least: Number | None = None
    at_most: Number | None = None
    again: Text | None = None
    if_refuted: Sentence = ""
    if_supported: Sentence = ""


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class RulesTable:
    """`[rules]`: how all hypotheses of the file are judged."""

    alpha: Annotated[float, Strict(), Field(allow_inf_nan=False), AfterValidator(_alpha)] = Rules.alpha
    looks: Annotated[tuple[Annotated[int, Strict()], ...], AfterValidator(_looks)] = Rules.looks


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class HypothesesTable:
    """`hypotheses.toml`, its hypotheses still unread."""

    rules: RulesTable = RulesTable()
    hypothesis: Annotated[list[object], PlainValidator(_some_of_them)] | None = None


HYPOTHESIS = TypeAdapter(HypothesisTable)
HYPOTHESIS_KEYS = tuple(key.name for key in fields(HypothesisTable))
HYPOTHESES = TypeAdapter(HypothesesTable)
HYPOTHESES_KEYS = (
    *(key.name for key in fields(HypothesesTable)),
    *(f"rules.{key.name}" for key in fields(RulesTable)),
)
