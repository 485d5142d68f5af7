from __future__ import annotations

import math
from pathlib import Path

import pytest

from k3prof.core.refutation.hypothesis import Band
from k3prof.core.refutation.published import Scatter, Tolerance
from k3prof.errors import ConfigErrors
from k3prof.store.published_file import load_published

WHOLE = """
title = "Two rigs"
source = "somebody's page"
scatter = { frac = 0.05, because = "six runs" }

[data.ladder]
note = "as published"
price = 0.44
tg = [67.4, 206.6]

[data.rows]
each = [{ tg = 1.5 }, { tg = 2 }]

[[check]]
name = "USD per million"
stated = [1.81, 0.592]
unit = "USD"
formula = "ladder.price / ladder.tg / 3600 * 1e6"
because = "price over rate"
rounded = ["ladder.tg"]
note = "as it should be"

[[check]]
name = "KV"
stated = 29
digits = 1
because = "bytes times tokens"
missing = "the layers"

[[hypothesis]]
id = "faster"
claim = "it is faster"
because = "it should be"
baseline = "ladder.tg[0]"
candidate = "ladder.tg[1]"
predict = [1.1, inf]
smallest = 1.05
rests_on = ["USD per million"]
if_supported = "buy it"

[[hypothesis]]
id = "bound"
claim = "it is bound"
because = "it should be"
value = 0.07
at_least = 0.6
unit = "of the ceiling"
scatter = { frac = 0.2 }
[hypothesis.corrected]
"in Q8_0" = "0.69"
"""
MINIMAL = """
source = "somebody"
[data]
a = 3
[[check]]
name = "n"
stated = 3
formula = "a"
because = "it is"
"""


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("e.toml")


def problems(file: Path, text: str) -> list[str]:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigErrors) as caught:
        load_published(file)
    assert all(problem.hint for problem in caught.value.problems if "must be" not in problem.message)
    return [problem.message for problem in caught.value.problems]


def test_a_whole_file_is_read(file):
    file.write_text(WHOLE, encoding="utf-8")
    found = load_published(file)
    assert (found.title, found.source) == ("Two rigs", "somebody's page")
    first, second = found.checks
    assert first.stated == (1.81, 0.592)
    assert first.tolerance == Tolerance(0.0005, 3)
    assert first.formula.text == "ladder.price / ladder.tg / 3600 * 1e6"
    assert [one.path for one in first.rounded] == [("ladder", "tg")]
    assert (second.stated, second.tolerance.size, second.missing) == ((29.0,), pytest.approx(0.05), "the layers")
    faster, bound = found.hypotheses
    assert faster.predict == Band(1.1, math.inf)
    assert [arm.text for arm in faster.arms] == ["ladder.tg[0]", "ladder.tg[1]"]
    assert faster.scatter == found.scatter == Scatter(0.05, "six runs")
    assert (faster.rests_on, faster.if_supported) == (("USD per million",), "buy it")
    assert bound.predict == Band(0.6, math.inf)
    assert (bound.smallest, bound.unit, bound.scatter) == (None, "of the ceiling", Scatter(0.2))
    assert [(one.name, one.value.text) for one in bound.corrected] == [("in Q8_0", "0.69")]
    assert bound.where == "e.toml: hypothesis[1]"


def test_a_file_that_says_nothing_of_scatter_gets_the_default(file):
    file.write_text(MINIMAL, encoding="utf-8")
    found = load_published(file)
    assert found.title == "e"
    assert found.scatter == Scatter(0.10, "")


def test_everything_that_is_wrong_is_told_at_once(file):
    text = """
    titel = "x"
    [data]
    a = 3
    [[check]]
    name = "first"
    stated = "3"
    formula = "a +"
    [[check]]
    name = "second"
    stated = [1, 2]
    formula = "a"
    because = "so"
    [[hypothesis]]
    id = "no id"
    claim = "c"
    because = "b"
    value = "a"
    predict = [2, 1]
    smallest = 0.5
    [[hypothesis]]
    id = "x"
    """
    assert problems(file, text) == [
        "e.toml: titel: unknown key",
        "e.toml: source: missing",
        "e.toml: check[0].stated (first): '3' is no number",
        "e.toml: check[0].formula (first): 'a +': no arithmetic expression",
        "e.toml: check[0].because (first): missing",
        "e.toml: check[1].formula (second): gives 1 numbers, and 2 are stated",
        "e.toml: hypothesis[0].id (no id): 'no id' is no id",
        "e.toml: hypothesis[0].smallest (no id): 0.5 is no smallest effect",
        "e.toml: hypothesis[1].claim (x): missing",
        "e.toml: hypothesis[1].because (x): missing",
        "e.toml: hypothesis[1].predict (x): missing",
        "e.toml: hypothesis[1].value (x): missing",
    ]


def check_with(line: str) -> str:
    return MINIMAL.replace('formula = "a"', line)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "formula (n): missing"),
        ('formula = "a"\nmissing = "b"', "formula (n): does not go with missing"),
        ('formula = "a"\ndigits = 1\ntolerance = 2', "digits (n): does not go with tolerance"),
        ('formula = "a"\ntolerance = 0', "tolerance (n): 0 is no tolerance"),
        ('formula = "a"\ndigits = 99', "digits (n): 99 digits"),
        ('formula = "a"\nrounded = ["a + 1"]', "rounded (n): 'a + 1' is no figure's name"),
        ('formula = "a"\nrounded = "a"', "rounded (n): must be a list of figures, not 'a'"),
        ('formula = "1 / (a - 3)"', "formula (n): divides by zero"),
        ('formula = "9**9**9"', "formula (n): a number beyond all bounds"),
        (
            'formula = "open(1)"',
            "formula (n): 'open(1)': calls something else than sum, min, max, mean, len of at least one list or number",
        ),
        ("formula = true", "formula (n): true is no formula"),
        ('formula = "a"\nformla = "b"', "formla (n): unknown key"),
    ],
)
def test_what_is_wrong_with_a_check_is_named(file, line, message):
    assert problems(file, check_with(line)) == [f"e.toml: check[0].{message}"]


def claim_with(*lines: str) -> str:
    return MINIMAL + '[[hypothesis]]\nid = "h"\nclaim = "c"\nbecause = "b"\n' + "\n".join(lines)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['value = "a"', "predict = [1.1, 2]"], "smallest (h): missing"),
        (['value = "a"', "at_least = 1", "at_most = 2"], "at_most (h): does not go with at_least"),
        (
            ['value = "a"', "predict = [1.1, 2]", "smallest = 1.05", "at_least = 1"],
            "at_least (h): does not go with predict",
        ),
        (['value = "a"', "at_least = 1", "smallest = 1.05"], "smallest (h): does not go with at_least"),
        (['baseline = "a"', "predict = [1.1, 2]", "smallest = 1.05"], "candidate (h): missing"),
        (["at_least = 1"], "value (h): missing"),
        (['value = "a"', "at_least = 1", 'rests_on = ["m"]'], "rests_on (h): no check is named 'm'"),
        (
            ['value = "a"', "predict = [1.01, 2]", "smallest = 1.05"],
            "predict (h): reaches to 1.01, an effect too small to matter by smallest = 1.05",
        ),
        (
            ['value = "0 - a"', "predict = [1.1, 2]", "smallest = 1.05"],
            "value (h): a ratio is taken of numbers above 0",
        ),
        (['value = "a"', "at_least = 1", "scatter = { frac = 1 }"], "scatter.frac (h): 1 is no share"),
        (['value = "a"', "at_least = 1", 'corrected = "1 / 0"'], "corrected (h): divides by zero"),
    ],
)
def test_what_is_wrong_with_a_hypothesis_is_named(file, lines, message):
    assert problems(file, claim_with(*lines)) == [f"e.toml: hypothesis[0].{message}"]


def test_names_are_taken_once(file):
    twice = MINIMAL + '[[check]]\nname = "n"\nstated = 3\nformula = "a"\nbecause = "b"\n'
    assert problems(file, twice) == ["e.toml: check[1].name: 'n' is taken"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a = nan", "e.toml: data: a: nan is no figure"),
        ("a = inf", "e.toml: data: a: inf is no figure"),
        ("a = 2026-01-01", "e.toml: data: a: 2026-01-01 is no figure"),
        ("b = [{ c = [1, inf] }]", "e.toml: data: b[0].c[1]: inf is no figure"),
    ],
)
def test_what_is_no_figure_is_refused_with_its_place(file, data, message):
    assert problems(file, MINIMAL.replace("a = 3", data)) == [message]


def test_a_figure_that_is_not_there_is_no_error_of_the_file(file):
    file.write_text(check_with('formula = "b.c"'), encoding="utf-8")
    assert load_published(file).checks[0].formula.text == "b.c"


@pytest.mark.parametrize("text", ["", 'source = "s"\n[data]\na = 1'])
def test_a_file_without_anything_to_judge_is_refused(file, text):
    assert "e.toml: nothing in it can be judged" in problems(file, text)


@pytest.mark.parametrize(
    "content", [b"\xff", b"[", b"check = 3\nsource = 's'", b"data = 3\nsource = 's'", b"[[check]]\n[check.x]"]
)
def test_what_is_no_such_file_never_gives_a_traceback(file, content):
    file.write_bytes(content)
    with pytest.raises(ConfigErrors):
        load_published(file)


def test_a_file_that_is_not_there_is_named(file):
    with pytest.raises(ConfigErrors, match=r"e\.toml: No such file"):
        load_published(file)
