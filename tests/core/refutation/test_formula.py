from __future__ import annotations

import ast
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.refutation.figures import FormulaError, MissingFigure
from k3prof.core.refutation.formula import parse_formula

DATA = {
    "price": 0.44,
    "ladder": {"streams": [1, 4, 8], "aggregate": [67.4, 206.6, 352.4], "note": "as published", "works": True},
    "gpu": {"RTX 4090": {"gb_s": 1008}},
    "rows": [{"tg": 2.94}, {"tg": 5.44}],
    "loss": -3,
    "nothing": [],
}


def value(text: str):
    return parse_formula(text).evaluate(DATA)


def refusal(text: str) -> str:
    with pytest.raises(FormulaError) as caught:
        value(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 + 3 * 4 ** 2 / -8", -4.0),
        ("-2 ** 2", -4.0),
        ("(1 + 2) * 3", 9.0),
        ("1.5e3", 1500.0),
        ("ladder.aggregate[1] / ladder.aggregate[0]", 206.6 / 67.4),
        ("ladder.aggregate[-1]", 352.4),
        ('gpu["RTX 4090"].gb_s / 2', 504.0),
        ("rows[1].tg - rows[0].tg", 5.44 - 2.94),
        ("sum(ladder.streams)", 13.0),
        ("mean(ladder.streams) * len(ladder.streams)", 13.0),
        ("min(3, ladder.aggregate[0], 7) + max([1, 2])", 5.0),
        ("len(nothing)", 0.0),
        ("  1 +\n  1 ", 2.0),
    ],
)
def test_arithmetic_means_what_it_means_on_paper(text, expected):
    assert value(text) == expected


def test_arithmetic_with_a_list_is_done_for_each_of_its_numbers():
    assert value("ladder.streams * 2") == (2.0, 8.0, 16.0)
    assert value("ladder.aggregate / ladder.streams") == (67.4, 51.65, 44.05)
    assert value("-ladder.streams") == (-1.0, -4.0, -8.0)


def test_the_numbers_stand_in_place_of_the_names():
    shown = parse_formula("price / ladder.aggregate[0] / 3600 * 1e6").with_numbers(DATA)
    assert shown == "0.44 / 67.4 / 3600 * 1e6"
    assert parse_formula("sum(ladder.streams) - loss").with_numbers(DATA) == "sum([1, 4, 8]) - (-3)"
    assert parse_formula('gpu["RTX 4090"].gb_s').with_numbers(DATA) == "1008"


def test_a_long_list_is_shown_by_its_ends():
    shown = parse_formula("sum(many)").with_numbers({"many": list(range(100))})
    assert shown == "sum([0, 1, 2, 3, 4, 5, 6, …, 99])"


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__.__bases__",
        "price.__class__()",
        "[x for x in ladder]",
        "lambda: 1",
        "price if price else 1",
        "price < 1",
        "not price",
        "price and 1",
        "f'{price}'",
        "'text'",
        "True",
        "None",
        "1j",
        "(1, 2)",
        "{1: 2}",
        "price := 2",
        "price = 2",
        "price // 2",
        "price % 2",
        "price << 2",
        "~price",
        "ladder.streams[0:2]",
        "ladder.streams[price]",
        "abs(price)",
        "sum()",
        "sum(ladder.streams, start=1)",
        "sum(*ladder.streams)",
        "pow(2, 3)",
        "eval('1')",
        "1; 2",
        "",
        "1 +",
        "price²",
        "1in price",
        "\0",
        "\ud800",
        "(" * 245 + "1" + ")" * 245,
        "-" * 400 + "1",
        "+".join("1" * 100),
        "1+" * 300 + "1",
    ],
)
def test_whatever_is_no_arithmetic_is_refused(text):
    assert refusal(text)


@pytest.mark.parametrize("text", ["9**9**9", "1e999", "10 ** 400", "9" * 400, "1e308 * 10", "sum([1e308, 1e308])"])
def test_numbers_beyond_all_bounds_are_refused_at_once(text):
    assert refusal(text) == "a number beyond all bounds"


def test_what_has_no_value_is_refused_with_the_reason():
    assert refusal("1 / (price - price)") == "divides by zero"
    assert refusal("0 ** -1") == "divides by zero"
    assert refusal("(-8) ** 0.5") == "a root of a negative number"
    assert refusal("mean(nothing)") == "mean of an empty list"
    assert refusal("ladder.streams + [1, 2]") == "combines lists of 2 and 3 numbers"
    assert refusal("[ladder.streams]") == "a list within a list"
    assert refusal("len(3)") == "len of one number, where a list should be"


def test_only_numbers_of_the_data_are_figures():
    assert refusal("ladder") == "ladder is a table, where a number or a list of numbers should be"
    assert refusal("ladder.note") == "ladder.note is no number, where a number or a list of numbers should be"
    assert refusal("ladder.works").startswith("ladder.works is no number")
    assert refusal("rows").startswith("rows is a table")
    assert refusal("ladder.streams[True]").startswith("there is no")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ladder.agregate", "there is no ladder.agregate; did you mean aggregate?"),
        ("absent", "there is no absent"),
        ("ladder.streams[3]", "there is no ladder.streams[3]: the list has 3"),
        ("price.per_hour", "there is no price.per_hour: price has no such parts"),
        ('gpu["L40 S"]', 'there is no gpu["L40 S"]'),
    ],
)
def test_a_figure_that_is_not_there_is_named(text, message):
    with pytest.raises(MissingFigure) as caught:
        value(text)
    assert str(caught.value) == message


def test_more_numbers_than_anybody_publishes_are_refused():
    with pytest.raises(FormulaError, match="more than 10,000 numbers"):
        parse_formula("sum(many)").evaluate({"many": [1] * 10_001})


NAMES = st.sampled_from(["price", "ladder", "streams", "sum", "len", "rows", "__class__", "x", "lambda", "in", "if"])
PIECES = st.one_of(
    NAMES,
    st.integers(-(10**30), 10**30).map(str),
    st.floats().map(repr),
    st.sampled_from([*"+-*/.,()[]{}<>=!:;'\"\\#@%&|^~ \n\t", "**", "//", "1e400", "9**9**9"]),
)


@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=25).map("".join)))
def test_any_text_is_a_value_or_a_formula_error(text):
    try:
        found = value(text)
    except FormulaError as error:
        assert str(error)
        return
    numbers = found if isinstance(found, tuple) else (found,)
    assert all(type(number) is float and math.isfinite(number) for number in numbers)


FLOATS = st.floats(-1e6, 1e6, allow_nan=False).map(lambda number: repr(abs(number)))
EXPRESSIONS = st.recursive(
    FLOATS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "**"]), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda one: f"-{one}"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(
            lambda parts: f"{parts[0]}({parts[1]}, {parts[2]})"
        ),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS)
def test_generated_arithmetic_has_the_value_that_python_gives_it(text):
    try:
        expected = eval(compile(ast.parse(text, mode="eval"), "", "eval"), {"min": min, "max": max})
    except (OverflowError, ZeroDivisionError):
        expected = None
    if expected is None or isinstance(expected, complex) or not math.isfinite(expected):
        with pytest.raises(FormulaError):
            value(text)
        return
    try:
        assert value(text) == expected
    except FormulaError as error:
        # Python lets a part of it be infinite, or complex, where the whole is neither.
        assert str(error) in {"a number beyond all bounds", "a root of a negative number"}
