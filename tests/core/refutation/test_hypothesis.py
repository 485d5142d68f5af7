from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.refutation.hypothesis import (
    Again,
    Arm,
    Band,
    Comparison,
    Hypothesis,
    Rules,
    Threshold,
    contradiction,
)
from k3prof.core.trial import Workload

TG, PP = Workload("tg", 128), Workload("pp", 512)
EVEN, HALF = Arm("even", TG), Arm("half-experts", TG)


def _comparison(low: float, high: float, smallest: float = 1.05, candidate: Arm = HALF) -> Comparison:
    return Comparison(EVEN, candidate, Band(low, high), smallest)


def _hypothesis(test: Comparison | Threshold | Again) -> Hypothesis:
    return Hypothesis("a", "experts dominate", "then fewer of them are faster", "tg", test)


@pytest.mark.parametrize(
    "test",
    [
        _comparison(1.6, 2.0),
        _comparison(1.6, math.inf),
        _comparison(0.0, 0.8),
        _comparison(0.4, 0.6),
        _comparison(0.95, 1.05, 1.05),
        _comparison(1.05, 1.05),
        Again(EVEN, 1.1),
        Threshold(EVEN, Band(0.6, math.inf)),
    ],
)
def test_a_test_that_data_can_decide_is_no_contradiction(test: Comparison | Threshold | Again) -> None:
    assert contradiction(test) is None


@pytest.mark.parametrize(
    ("test", "key", "said"),
    [
        (_comparison(2.0, 1.6), "predict", "upside down"),
        (_comparison(math.nan, 1.6), "predict", "upside down"),
        (_comparison(0.0, math.inf), "predict", "no ratio could lie outside"),
        (_comparison(-1.0, math.inf), "predict", "no ratio could lie outside"),
        (_comparison(-2.0, -1.0), "predict", "no ratio is as low"),
        (_comparison(1.6, 2.0, smallest=1.0), "smallest", "no smallest effect"),
        (_comparison(1.6, 2.0, smallest=0.95), "smallest", "no smallest effect"),
        (_comparison(1.6, 2.0, smallest=math.nan), "smallest", "no smallest effect"),
        (_comparison(1.6, 2.0, smallest=math.inf), "smallest", "no smallest effect"),
        (_comparison(1.02, 2.0), "predict", "too small to matter"),
        (_comparison(0.5, 0.98), "predict", "too small to matter"),
        (_comparison(0.99, 1.01), "predict", "narrower than the smallest effect"),
        (_comparison(1.6, 2.0, candidate=EVEN), "candidate", "same as the baseline"),
        (Again(EVEN, 1.0), "smallest", "no smallest effect"),
    ],
)
def test_a_test_that_no_data_could_decide_is_named_with_its_key(
    test: Comparison | Threshold | Again, key: str, said: str
) -> None:
    found = contradiction(test)
    assert found is not None
    assert found.key == key
    assert said in found.message
    assert found.remedy


def test_the_same_placement_with_more_streams_is_another_arm() -> None:
    four = Arm("even", Workload("tg", 128, streams=4))
    assert contradiction(_comparison(1.5, 4.0, candidate=four)) is None


def test_the_effect_to_reach_is_the_predicted_end_nearest_to_none() -> None:
    assert _comparison(1.6, 2.0).nearest_effect == 1.6
    assert _comparison(0.4, 0.6).nearest_effect == 0.6


@pytest.mark.parametrize(
    "changed",
    [
        {"metric": "pp"},
        {"test": _comparison(1.5, 2.0)},
        {"test": _comparison(1.6, 2.0, smallest=1.1)},
        {"test": _comparison(1.6, 2.0, candidate=Arm("half-experts", PP))},
        {"test": dataclasses.replace(_comparison(1.6, 2.0), varies="override-kv")},
        {"test": Threshold(EVEN, Band(1.6, 2.0))},
        {"rules": Rules(alpha=0.1)},
        {"rules": Rules(looks=(3, 6))},
    ],
)
def test_whatever_decides_a_verdict_changes_the_digest(changed: dict[str, object]) -> None:
    original = _hypothesis(_comparison(1.6, 2.0))
    assert dataclasses.replace(original, **changed).digest != original.digest  # type: ignore[arg-type]


@given(st.text(), st.text(), st.text())
def test_words_alone_do_not_change_the_digest(claim: str, because: str, name: str) -> None:
    original = _hypothesis(_comparison(1.6, 2.0))
    reworded = dataclasses.replace(
        original, id=name, claim=claim, because=because, if_refuted=claim, if_supported=because, where=name
    )
    assert reworded.digest == original.digest
