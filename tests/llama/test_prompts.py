from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k3prof.llama.prompts import PromptSource


def words(text: str) -> list[int]:
    return [sum(word.encode()) for word in text.split()]


@given(st.integers(1, 3000), st.integers(0, 50))
def test_a_prompt_has_exactly_the_length_asked_for_and_is_the_same_every_time(tokens: int, number: int) -> None:
    first, second = PromptSource(words).prompt(tokens, number), PromptSource(words).prompt(tokens, number)
    assert len(first) == tokens
    assert first == second


def test_a_prompt_does_not_depend_on_what_was_asked_before() -> None:
    busy = PromptSource(words)
    for number in range(5):
        busy.prompt(2000, number)
    assert busy.prompt(100, 7) == PromptSource(words).prompt(100, 7)
