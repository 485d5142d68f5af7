from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.probes import checks
from k3prof.core.probes.probe import Group
from k3prof.core.probes.prose import prose

ANY_TEXT = st.text(max_size=200)
JSON_TEXTS = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12)


@pytest.mark.parametrize("text", ["Paris", " paris.", "**Paris**", "The capital is Paris.", "It's Paris! Lyon is big."])
def test_the_right_word_counts_in_whatever_form(text):
    assert checks.says("Paris", rivals=("Lyon",))(text)


@pytest.mark.parametrize(
    "text", ["", "Parisian", "Not Paris", "Lyon", "Paris or Lyon", "I like it.\nParis", "P a r i s"]
)
def test_other_words_denials_and_several_guesses_do_not_count(text):
    assert not checks.says("Paris", rivals=("Lyon",))(text)


def test_accents_are_form_but_letters_of_other_scripts_are_not():
    assert checks.says("pequeño")("Pequeno.")
    assert checks.says("星期二")("答案是星期二。")
    assert not checks.says("火曜")("大曜日")


@pytest.mark.parametrize("text", ["8", " 8.", "4 + 4 = 8", "The sum is **8**.", "8.0", "8\n\n9"])
def test_the_number_may_end_an_equation_or_a_sentence(text):
    assert checks.number(8)(text)


@pytest.mark.parametrize("text", ["", "18", "80", "-8", "eight", "8 or 9", "0.8", "x8"])
def test_another_number_is_wrong(text):
    assert not checks.number(8)(text)


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9))
def test_a_number_counts_if_and_only_if_it_is_the_one(wanted, given_number):
    assert checks.number(wanted)(f"The result is {given_number:,}.") == (wanted == given_number)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("White", True),
        ("'white.'", True),
        ("**White**", True),
        ("It is white", False),
        ("white white", False),
        ("", False),
    ],
)
def test_one_word_is_one_word(text, right):
    assert checks.one_word("White")(text) is right


@given(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=30))
def test_a_copy_is_a_copy_to_the_letter(original):
    check = checks.copies(original)
    assert check(original)
    assert check(f' "{original}"\nmore')
    assert not check(original + "x")
    assert not check(original[:-1])


@given(JSON_TEXTS, st.integers(0, 999))
def test_an_object_counts_wherever_it_stands_and_only_with_its_values(name, age):
    check = checks.json_object({"name": name, "age": age})
    right = json.dumps({"age": age, "name": name})
    assert check(right)
    assert check(f"Here it is:\n```json\n{right}\n```")
    assert not check(json.dumps({"age": age + 1, "name": name}))
    assert not check(json.dumps({"age": age, "name": name, "more": 1}))
    assert not check(json.dumps({"age": str(age), "name": name}))
    assert not check(right[:-1])


def test_true_is_not_the_number_one():
    assert not checks.json_object({"age": 1})('{"age": true}')


def test_a_call_may_carry_its_arguments_as_an_object_or_a_text():
    check = checks.tool_call("get_weather", {"city": "Oslo"})
    assert check('{"name": "get_weather", "arguments": {"city": "oslo"}}')
    assert check('{"name": "get_weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}')
    assert not check('{"name": "get_wether", "arguments": {"city": "Oslo"}}')
    assert not check('{"name": "get_weather", "arguments": {"city": "Rome"}}')
    assert not check('{"name": "get_weather"}')
    assert not check('get_weather("Oslo")')


def test_thoughts_are_no_part_of_an_answer():
    assert checks.says("Paris")("<think>Lyon? No.</think>\nParis")
    assert not checks.says("Paris")("<think>Paris</think>\nLyon")


SENTENCES = {
    Group.ENGLISH: "The roses in the garden are red and the grass is wet.",
    Group.FRENCH: "Les roses du jardin sont rouges et l'herbe est mouillée.",
    Group.GERMAN: "Die Rosen im Garten sind rot und das Gras ist nass.",
    Group.SPANISH: "Las rosas del jardín son rojas y la hierba está mojada.",
    Group.CHINESE: "花园里的玫瑰很红，草地湿漉漉的。",
    Group.JAPANESE: "庭のバラは赤く、草は濡れています。",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_prose_is_told_from_that_of_the_other_languages(language):
    assert {other for other, text in SENTENCES.items() if prose(language)(text)} == {language}


@pytest.mark.parametrize("language", SENTENCES)
def test_prose_that_repeats_itself_is_none(language):
    assert not prose(language)(SENTENCES[language] + "la la " * 20)


@given(ANY_TEXT)
def test_no_text_makes_a_check_raise(text):
    every = (
        checks.says("a", rivals=("b",)),
        checks.number(1),
        checks.one_word("a"),
        checks.copies("a"),
        checks.json_object({"a": 1}),
        checks.tool_call("a", {}),
        *map(prose, SENTENCES),
    )
    assert all(check(text) in (True, False) for check in every)


def test_deeply_nested_json_is_refused_and_no_crash():
    assert checks.first_object('{"a":' * 100_000) is None
