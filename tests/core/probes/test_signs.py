from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.probes.probe import Answer, Sign
from k3prof.core.probes.signs import loops, signs


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("", Sign.EMPTY),
        (" \n", Sign.EMPTY),
        ("G" * 30, Sign.LOOP),
        ("I think that " * 5, Sign.LOOP),
        ("caf\N{REPLACEMENT CHARACTER}", Sign.INVALID_TEXT),
        ("a\x00b", Sign.INVALID_TEXT),
        ("Paris<|im_end|>", Sign.MARKERS),
        ("<start_of_turn>model", Sign.MARKERS),
        ("[INST] hello", Sign.MARKERS),
        ("ek much theyTe201ist look and vondberP there is;that one more", Sign.NO_WORDS),
        ("Paris 北京です привет مرحبا", Sign.MIXED_SCRIPTS),
    ],
)
def test_each_sign_is_seen(text, sign):
    assert signs(Answer(text)) == (sign,)


@pytest.mark.parametrize(
    "text",
    [
        "Paris",
        "1.\n2.\n3.\n4.\n5.\n6.\n7.",
        "if a < b and b > c:\n        return [x | y]",
        "東京は日本の首都です。Tokyo",
        "The area is πr², says 李.",
        "no, no, no!",
        "Donaudampfschiffe fahren im Jahr 2024 auf der Donau, sagt die Zeitung.",
        "def f(n): return n*f(n-1) if n>0 else g[i]+x1y and more of it",
    ],
)
def test_ordinary_text_shows_none(text):
    assert signs(Answer(text, likelihoods=(0.9, 0.3, 0.01))) == ()


def test_tokens_that_the_model_finds_unlikely_itself_are_a_sign():
    assert signs(Answer("whe usar", likelihoods=(0.01, 0.02, 0.6))) == (Sign.UNSURE,)


def test_no_answer_shows_nothing():
    assert signs(Answer(None, "cut")) == ()


@given(st.text(min_size=1, max_size=12).filter(lambda unit: unit.strip() == unit), st.integers(24, 40))
def test_endless_repetition_is_seen_whatever_is_repeated(unit, times):
    assert loops("It began well. " + unit * times)


@given(st.text(max_size=23))
def test_a_short_answer_is_never_a_loop(text):
    assert not loops(text)
