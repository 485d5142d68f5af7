"""What models are asked: few and easy questions, each with one right answer that nobody disputes."""

from __future__ import annotations

from k3prof.core.probes.checks import copies, json_object, number, one_word, says, tool_call
from k3prof.core.probes.probe import Group, Probe, Style, Tool
from k3prof.core.probes.questions_by_language import LANGUAGE_PROBES
from k3prof.core.probes.written_code import recursive

SET_VERSION = 1
"""To be raised when a probe or its check changes, so that answers to other sets are not compared with these."""

_FACTS = Style(
    "Question:",
    "Answer:",
    (("What is the capital of Egypt?", "Cairo"), ("Which ocean lies between Europe and America?", "The Atlantic")),
)
_SUMS = Style("Question:", "Answer:", (("How much is 2 + 3?", "5"), ("How much is 9 - 2?", "7")))
_CODE = Style(
    "# Task:",
    "# Solution:",
    (
        (
            "Write a recursive Python function total(n) that returns the sum of the numbers from 0 to n.",
            "\ndef total(n):\n    if n == 0:\n        return 0\n    return n + total(n - 1)",
        ),
    ),
)
_CALLS = Style(
    "User:",
    "Call:",
    (
        (
            "Wake me up at 7.",
            '{"name": "set_alarm", "arguments": {"hour": 7}}',
        ),
        ("Play a song by Nina Simone.", '{"name": "play_music", "arguments": {"artist": "Nina Simone"}}'),
        ("How warm is it in Oslo?", '{"name": "get_weather", "arguments": {"city": "Oslo"}}'),
    ),
)
_RECORDS = Style(
    "Text:",
    "JSON:",
    (
        (
            "Write name and age as a JSON object: Marta is 31 years old.",
            '{"name": "Marta", "age": 31}',
        ),
        ("Write name and age as a JSON object: Piet turned 8.", '{"name": "Piet", "age": 8}'),
    ),
)
_ECHO = Style(
    "Text:",
    "The same text:",
    (("Repeat exactly: blue 12 lamp", "blue 12 lamp"), ("Repeat exactly: Seven grey cats.", "Seven grey cats.")),
)
_ONE_WORD = Style(
    "Question:",
    "Answer:",
    (
        ("Answer with one word: what do cows drink?", "Water"),
        ("Answer with one word: which season is cold?", "Winter"),
    ),
)
_PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def _text(name: str) -> dict[str, object]:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


_WEATHER = Tool("get_weather", "Tells the weather in a city.", _text("city"))
_MUSIC = Tool("play_music", "Plays songs by an artist.", _text("artist"))


def _capital(country: str, city: str, *rivals: str) -> Probe:
    question = f"What is the capital of {country}?"
    return Probe(f"capital-{country.lower()}", Group.FACTS, question, city, says(city, rivals=rivals), _FACTS)


def _sum(name: str, question: str, expected: int) -> Probe:
    return Probe(name, Group.ARITHMETIC, f"How much is {question}?", str(expected), number(expected), _SUMS)


def _code(name: str, about: str, cases: dict[int, int]) -> Probe:
    question = f"Write a recursive Python function {name}(n) that returns {about}."
    expected = "calls itself; " + ", ".join(f"{name}({given}) = {value}" for given, value in cases.items())
    return Probe(f"recursive-{name}", Group.CODE, question, expected, recursive(cases), _CODE, tokens=160)


def _call(name: str, question: str, tool: Tool, arguments: dict[str, str]) -> Probe:
    expected = f"{tool.name}({', '.join(f'{key}={value}' for key, value in arguments.items())})"
    check = tool_call(tool.name, arguments)
    return Probe(name, Group.TOOLS, question, expected, check, _CALLS, tokens=96, tool=tool)


def _record(name: str, about: str, person: str, age: int, *, enforced: bool) -> Probe:
    return Probe(
        name,
        Group.STRUCTURE,
        f"Write name and age as a JSON object: {about}",
        f'{{"name": "{person}", "age": {age}}}',
        json_object({"name": person, "age": age}),
        _RECORDS,
        tokens=64,
        schema=_PERSON if enforced else None,
    )


def _copy(name: str, text: str) -> Probe:
    return Probe(name, Group.COPY, f"Repeat exactly: {text}", text, copies(text), _ECHO, tokens=48)


def _one_word(name: str, question: str, *accepted: str) -> Probe:
    asked = f"Answer with one word: {question}"
    return Probe(name, Group.ONE_WORD, asked, accepted[0], one_word(*accepted), _ONE_WORD)


PROBES: tuple[Probe, ...] = (
    _capital("France", "Paris", "Lyon", "London"),
    _capital("Japan", "Tokyo", "Kyoto", "Osaka"),
    _capital("Sweden", "Stockholm", "Oslo", "Copenhagen"),
    _capital("Italy", "Rome", "Milan", "Madrid"),
    Probe("freezing", Group.FACTS, "What does water become when it freezes?", "ice", says("ice"), _FACTS),
    _sum("add-small", "4 + 4", 8),
    _sum("add-large", "17 + 25", 42),
    _sum("subtract", "10 - 7", 3),
    _sum("multiply", "6 x 7", 42),
    _code("factorial", "the factorial of n, with factorial(0) = 1", {0: 1, 1: 1, 5: 120}),
    _code("fib", "the n-th Fibonacci number, with fib(0) = 0 and fib(1) = 1", {0: 0, 1: 1, 6: 8, 10: 55}),
    _code("power", "2 to the power of n", {0: 1, 1: 2, 10: 1024}),
    _call("weather-call", "What is the weather like in Lisbon?", _WEATHER, {"city": "Lisbon"}),
    _call("weather-call-again", "Is it raining in Prague?", _WEATHER, {"city": "Prague"}),
    _call("music-call", "Play something by Miles Davis.", _MUSIC, {"artist": "Miles Davis"}),
    _record("json-by-grammar", "Anna is 42 years old.", "Anna", 42, enforced=True),
    _record("json-by-grammar-again", "My neighbour Tom is 67.", "Tom", 67, enforced=True),
    _record("json-freely", "Lena is 19 years old.", "Lena", 19, enforced=False),
    _copy("copy-words", "river 7 stone"),
    _copy("copy-sentence", "The old clock stopped at noon."),
    _copy("copy-signs", "x9-Kq/42_b"),
    _one_word("one-word-colour", "what colour is snow?", "White"),
    _one_word("one-word-animal", "which animal barks?", "Dog", "Dogs", "A dog"),
    _one_word("one-word-opposite", "what is the opposite of hot?", "Cold"),
    *LANGUAGE_PROBES,
)
