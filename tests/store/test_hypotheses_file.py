from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.experiment import Experiment, Placement, Settings
from k3prof.core.refutation.hypothesis import Again, Arm, Band, Comparison, Rules, Threshold
from k3prof.core.trial import Workload
from k3prof.errors import ConfigError, ConfigErrors
from k3prof.store.config import Overrides, load_experiment
from k3prof.store.hypotheses_file import load_hypotheses
from tests.store.test_config import dump

TG = Workload("tg", 128)
HEAD = '[[hypothesis]]\nid = "h"\nclaim = "c"\nbecause = "b"\n'
COMPARISON = 'metric = "tg"\nbaseline = "even"\ncandidate = "half"\npredict = [1.6, 2.0]\nsmallest = 1.05\n'
THRESHOLD = 'metric = "bandwidth_frac"\nof = "even"\nat_least = 0.6\n'
AGAIN = 'metric = "tg"\nagain = "even"\nsmallest = 1.05\n'


def experiment(*workloads: str, price: float | None = None, **placements: dict) -> Experiment:
    """Placements by their flags; without any: even, half, experts[n-cpu-moe=0] and experts[n-cpu-moe=4]."""
    flags = placements or {
        "even": {},
        "half": {"override-kv": "k=int:8"},
        **{f"experts[n-cpu-moe={n}]": {"n-cpu-moe": n} for n in (0, 4)},
    }
    asked = tuple(map(Workload.parse, workloads or ("pp512", "tg128")))
    settings = Settings("demo:k3", "rpc:2", "default", asked, 3, price, {"ctx-size": 2048}, "placements/sweep.toml")
    return Experiment(
        "placements",
        settings,
        tuple(Placement(name, "", chosen, {}, f"placements/{name}.toml") for name, chosen in flags.items()),
    )


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("hypotheses.toml")


def load(file: Path, text: str, about: Experiment | None = None):
    file.write_text(text)
    return load_hypotheses(file, about or experiment())


def problems_of(file: Path, text: str, about: Experiment | None = None) -> list[ConfigError]:
    with pytest.raises(ConfigErrors) as caught:
        load(file, text, about)
    assert caught.value.exit_code == 2
    return list(caught.value.problems)


def problem_of(file: Path, text: str, about: Experiment | None = None) -> str:
    """The only problem, as the terminal shows it."""
    (problem,) = problems_of(file, text, about)
    return f"{problem.message} | {problem.hint}"


def without(text: str, key: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(f"{key} ="))


# What is read


def test_a_comparison_is_read_key_by_key(file):
    (one,) = load(
        file,
        """
        [rules]
        alpha = 0.1
        looks = [2, 100]
        [[hypothesis]]
        id = "cpu-experts_dominate"
        claim = \"\"\"
            computing experts on the CPU
            dominates decode
        \"\"\"
        because = "then halving the experts used should nearly double decode"
        metric = "tg"
        workload = "tg64@d4096"
        baseline = "experts[n-cpu-moe=0]"
        candidate = "half"
        varies = "override-kv"
        predict = [1.6, 2]
        smallest = 1.05
        if_refuted = "buy memory, not a processor"
        if_supported = "buy a processor"
        """,
    )
    assert one.id == "cpu-experts_dominate"
    assert one.claim == "computing experts on the CPU dominates decode"
    assert one.because == "then halving the experts used should nearly double decode"
    assert one.metric == "tg"
    deep = Workload("tg", 64, depth=4096)
    assert one.test == Comparison(
        Arm("experts[n-cpu-moe=0]", deep), Arm("half", deep), Band(1.6, 2.0), 1.05, "override-kv"
    )
    assert one.rules == Rules(0.1, (2, 100))
    assert (one.if_refuted, one.if_supported) == ("buy memory, not a processor", "buy a processor")
    assert one.where == "hypotheses.toml: hypothesis[0]"


def test_what_is_left_out_takes_its_default(file):
    (one,) = load(file, HEAD + COMPARISON)
    assert one.rules == Rules(0.05, (3, 5, 8, 12))
    assert one.test == Comparison(Arm("even", TG), Arm("half", TG), Band(1.6, 2.0), 1.05)
    assert (one.if_refuted, one.if_supported) == ("", "")


@pytest.mark.parametrize(
    ("text", "test"),
    [
        (THRESHOLD, Threshold(Arm("even", TG), Band(0.6, math.inf))),
        (
            'metric = "parallelism"\nworkload = "pp512"\nof = "half"\nat_most = 1.1',
            Threshold(Arm("half", Workload("pp", 512)), Band(-math.inf, 1.1)),
        ),
        (AGAIN, Again(Arm("even", TG), 1.05)),
        (without(AGAIN, "metric") + 'metric = "op.mul_mat_id"', Again(Arm("even", TG), 1.05)),
        (without(AGAIN, "metric") + 'metric = "busy.RPC0"\nworkload = "tg128"', Again(Arm("even", TG), 1.05)),
    ],
    ids=["at least", "at most", "again", "op family", "busy family"],
)
def test_a_threshold_and_a_placement_against_itself_are_read(file, text, test):
    (one,) = load(file, HEAD + text)
    assert one.test == test


def test_two_workloads_of_one_placement_are_compared_with_or_without_naming_it_twice(file):
    expected = Comparison(Arm("even", TG), Arm("even", Workload("tg", 128, streams=4)), Band(1.6, 2.0), 1.05)
    named = COMPARISON.replace("half", "even") + 'candidate_workload = "tg128 x4"'
    for text in (named, without(named, "candidate")):
        (one,) = load(file, HEAD + text)
        assert one.test == expected


@pytest.mark.parametrize(
    ("predict", "band"),
    [("[1.6, inf]", Band(1.6, math.inf)), ("[0, 0.9]", Band(0, 0.9)), ("[0.9, 1.1]", Band(0.9, 1.1))],
)
def test_a_band_may_be_open_above_lie_below_one_or_around_it(file, predict, band):
    (one,) = load(file, HEAD + COMPARISON.replace("[1.6, 2.0]", predict))
    assert one.test.predict == band


def test_a_whole_number_and_the_same_with_a_point_predict_the_same(file):
    (whole,) = load(file, HEAD + COMPARISON.replace("2.0", "2"))
    (point,) = load(file, HEAD + COMPARISON)
    assert whole.digest == point.digest


def test_a_workload_that_the_experiment_does_not_list_is_taken(file):
    (one,) = load(file, HEAD + COMPARISON + 'workload = "tg32 x2"')
    assert {arm.workload for arm in one.arms} == {Workload("tg", 32, streams=2)}


def test_hypotheses_are_read_in_the_order_of_the_file_beside_an_experiment(tmp_path):
    (tmp_path / "sweep.toml").write_text('model = "demo:k3"')
    (tmp_path / "even.toml").write_text("")
    (tmp_path / "cpu.toml").write_text("[matrix]\nn-cpu-moe = [0, 4]")
    texts = [
        HEAD.replace('"h"', f'"{name}"') + text for name, text in (("z", AGAIN), ("a", AGAIN.replace("1.05", "1.1")))
    ]
    texts.append(HEAD + COMPARISON.replace('"half"', '"cpu[n-cpu-moe=4]"'))
    (tmp_path / "hypotheses.toml").write_text("".join(texts))
    about = load_experiment(tmp_path, Overrides())
    assert [one.id for one in load_hypotheses(tmp_path / "hypotheses.toml", about)] == ["z", "a", "h"]


# What is refused


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("predict = [1.6, 2.0]", "", "predict (h): missing | the ratio candidate / baseline"),
        ("[1.6, 2.0]", "[2.0, 1.6]", "predict (h): upside down: 2 is above 1.6 | write [1.6, 2]"),
        ("[1.6, 2.0]", "[0, inf]", "predict (h): no ratio could lie outside"),
        ("[1.6, 2.0]", "[0, 0]", "predict (h): no ratio is as low as 0"),
        ("[1.6, 2.0]", "[-0.1, 0.1]", "predict (h): -0.1 is no lower end of a ratio | predict candidate / base"),
        ("[1.6, 2.0]", "[inf, inf]", "predict (h): inf is no lower end"),
        ("[1.6, 2.0]", "[1.6, nan]", "predict (h): nan is no ratio"),
        ("[1.6, 2.0]", "[true, 2]", "predict (h): true is no ratio"),
        ("[1.6, 2.0]", f"[1.6, 1{'0' * 400}]", "predict (h): a number beyond 64 bits is no ratio"),
        ("[1.6, 2.0]", "1.6", "predict (h): must be a list of two numbers"),
        ("[1.6, 2.0]", "[1.6]", "predict (h): must be a list of two numbers"),
        ("[1.6, 2.0]", "[0.99, 1.01]", "predict (h): narrower than the smallest effect that matters, 1.05"),
        ("[1.6, 2.0]", "[1.01, 2.0]", "predict (h): reaches to 1.01, an effect too small to matter"),
        ("smallest = 1.05", "", "smallest (h): missing | the ratio below which"),
        ("1.05", "1", "smallest (h): 1 is no smallest effect"),
        ("1.05", "0.0", "smallest (h): 0 is no smallest effect"),
        ("1.05", "-1.05", "smallest (h): -1.05 is no smallest effect"),
        ("1.05", "nan", "smallest (h): must be a finite number, not nan"),
        ("1.05", "inf", "smallest (h): must be a finite number, not inf"),
        ("1.05", "'5 %'", "smallest (h): must be a number, not '5 %'"),
        ('"tg"', '"tgs"', "metric (h): no metric is named 'tgs' | did you mean tg?"),
        ('"tg"', '"op.MUL_MAT"', "metric (h): no metric is named 'op.MUL_MAT' | did you mean op.mul_mat?"),
        ('"tg"', '"\\u001b[2J"', r"metric (h): no metric is named '\x1b[2J' | there are "),
        ('metric = "tg"', "", "metric (h): missing"),
        ('"tg"', '"usd_per_million"\nworkload = "tg128"', "metric (h): the machine's price is not known"),
        ('"even"', '"evn"', "baseline (h): no placement is named 'evn' | did you mean even?"),
        ('"half"', '"zzz"', "candidate (h): no placement is named 'zzz' | there are even, half, experts[n-cpu-moe=0]"),
        (
            *('"half"', '"experts"'),
            "candidate (h): no placement is named 'experts' | there are experts[n-cpu-moe=0], experts[n-cpu-moe=4]",
        ),
        ('"half"', '"even"', 'candidate (h): the same as the baseline | to run a placement against itself'),
        ('"half"', '"even"\ncandidate_workload = "tg128"', "candidate_workload (h): the same as the baseline"),
        ('"half"', '"half"\ncandidate_workload = "tg32"', "candidate_workload (h): the placements differ too"),
        ('candidate = "half"', 'candidate_workload = "pp512"', "candidate_workload (h): pp512 yields no tg"),
        ('candidate = "half"', "", "candidate (h): missing"),
        ('baseline = "even"', "", "baseline (h): missing"),
        ('"tg"', '"tg"\nworkload = "pp512"', 'workload (h): pp512 yields no tg | workload = "tg128", for instance'),
        ('"tg"', '"tg"\nworkload = "tg"', "workload (h): 'tg' is no workload"),
        ('"tg"', '"parallelism"', 'workload (h): missing, and the experiment has 2 that yield parallelism'),
        ('"half"', '"half"\nof = "even"', "of (h): does not go with baseline"),
        ('"half"', '"half"\nat_most = 2', "at_most (h): does not go with baseline"),
        ('"half"', '"half"\nagain = "even"', "again (h): does not go with baseline"),
        ('"half"', '"half"\nplacement = "even"', "placement (h): unknown key | known keys: id, claim, because, "),
        ('"half"', '"half"\ncandidat = "even"', "candidat (h): unknown key | did you mean candidate?"),
        ('claim = "c"', "", "claim (h): missing"),
        ('claim = "c"', 'claim = " \\n"', "claim (h): an empty text"),
        ('claim = "c"', 'claim = "\\u0007"', "claim (h): unprintable characters"),
        ('claim = "c"', "claim = 3", "claim (h): must be text in quotes, not 3"),
        ('because = "b"', "", "because (h): missing"),
        ('id = "h"', "", "id: missing"),
        ('id = "h"', 'id = "a b"', "id: 'a b' is no id"),
        ('id = "h"', 'id = "ä"', "id: 'ä' is no id"),
        ('id = "h"', "id = 3", "id: must be text in quotes, not 3"),
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_a_bad_comparison_is_refused_under_its_key_and_id(file, old, new, problem):
    sound = HEAD + COMPARISON
    assert old in sound
    assert problem_of(file, sound.replace(old, new, 1)).startswith(f"hypotheses.toml: hypothesis[0].{problem}")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("at_least = 0.6", "", "at_least (h): missing, and so is at_most | write one of them"),
        ("0.6", "0.6\nat_most = 0.9", "at_most (h): does not go with at_least | write two hypotheses"),
        ("0.6", "0", "at_least (h): no bandwidth_frac could lie outside: it is between 0 and 1"),
        ("0.6", "1.5", "at_least (h): no bandwidth_frac is ever 1.5: it is between 0 and 1"),
        ("at_least = 0.6", "at_most = 1.0", "at_most (h): no bandwidth_frac could lie outside: it is between 0 and 1"),
        ("at_least = 0.6", "at_most = -0.1", "at_most (h): no bandwidth_frac is ever -0.1"),
        ("0.6", "nan", "at_least (h): must be a finite number, not nan"),
        ("0.6", "inf", "at_least (h): must be a finite number, not inf"),
        ("0.6", "0.6\npredict = [1.6, 2.0]", "predict (h): does not go with of | beside of may stand: at_least"),
        ("0.6", "0.6\nsmallest = 1.05", "smallest (h): does not go with of"),
        ("0.6", "0.6\ncandidate = 'half'", "candidate (h): does not go with of"),
        ('of = "even"', "", "of (h): missing"),
        ('"even"', '"evn"', "of (h): no placement is named 'evn' | did you mean even?"),
        ('"bandwidth_frac"', '"tg"\nworkload = "tg32"\nat_most = -1\n#', "at_most (h): "),
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_a_bad_threshold_is_refused_under_its_key_and_id(file, old, new, problem):
    sound = HEAD + THRESHOLD
    assert old in sound
    if "#" in new:
        sound = without(sound, "at_least")
    assert problem_of(file, sound.replace(old, new, 1)).startswith(f"hypotheses.toml: hypothesis[0].{problem}")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("1.05", "1.0", "smallest (h): 1 is no smallest effect"),
        ("smallest = 1.05", "", "smallest (h): missing"),
        (
            "1.05",
            "1.05\npredict = [0.9, 1.1]",
            "predict (h): does not go with again | beside again may stand",
        ),
        ('"even"', '"evn"', "again (h): no placement is named 'evn' | did you mean even?"),
    ],
    ids=lambda text: text[:30],
)
def test_a_bad_run_of_a_placement_against_itself_is_refused_under_its_key_and_id(file, old, new, problem):
    assert problem_of(file, (HEAD + AGAIN).replace(old, new, 1)).startswith(f"hypotheses.toml: hypothesis[0].{problem}")


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ("alpha = 0", "alpha: 0 is no rate of error"),
        ("alpha = 0.21", "alpha: 0.21 is no rate of error | above 0, at most 0.2"),
        ("alpha = nan", "alpha: must be a finite number, not nan"),
        ("looks = []", "looks: an empty list"),
        ("looks = [1, 3]", "looks: a look is taken after 2 to 100 blocks"),
        ("looks = [3, 101]", "looks: a look is taken after 2 to 100 blocks"),
        ("looks = [5, 3]", "looks: does not ascend"),
        ("looks = [3, 3]", "looks: does not ascend"),
        ("looks = [3.0]", "looks[0]: must be a whole number, not 3.0"),
        ("looks = 3", "looks: must be a list, not 3"),
        ("look = [3]", "look: unknown key | did you mean looks?"),
    ],
)
def test_bad_rules_are_refused_under_their_key(file, rules, problem):
    text = f"[rules]\n{rules}\n{HEAD}{AGAIN}"
    assert problem_of(file, text).startswith(f"hypotheses.toml: rules.{problem}")


def test_rules_take_the_ends_of_their_ranges(file):
    (one,) = load(file, f"[rules]\nalpha = 0.2\nlooks = [2, 100]\n{HEAD}{AGAIN}")
    assert one.rules == Rules(0.2, (2, 100))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "hypothesis: missing | write [[hypothesis]]"),
        ("hypothesis = []", "hypothesis: missing"),
        ("[rules]\nalpha = 0.05", "hypothesis: missing"),
        ("[hypothesis]\nid = 'a'", "hypothesis: must be a list of tables, not a table | write [[hypothesis]]"),
        ("hypothesis = [3]", "hypothesis[0]: must be a table, not 3"),
        ("[[hypotesis]]", "hypotesis: unknown key | did you mean hypothesis?"),
        ("[[hypothesis]\n", "not TOML: "),
        ("[[hypothesis]]\n" * 101, "hypothesis: 101 of them; at most 100 are tested together"),
        (HEAD + 'metric = "tg"', "hypothesis[0] (h): tests nothing | write baseline, candidate and predict; or of, "),
        (HEAD + AGAIN + HEAD + THRESHOLD, "hypothesis[1].id: hypothesis[0] is named 'h' too"),
        (
            HEAD + AGAIN + HEAD.replace('"h"', '"other"') + AGAIN,
            "hypothesis[1] (other): the same test as h | one test has one verdict",
        ),
    ],
    ids=lambda text: text[:30],
)
def test_a_bad_file_is_refused_under_its_name(file, text, problem):
    assert problem_of(file, text).startswith(f"hypotheses.toml: {problem}")


@pytest.mark.parametrize("name", ["none.toml", "x" * 300, "\0"])
def test_a_file_that_is_not_there_is_refused_by_its_name(tmp_path, name):
    with pytest.raises(ConfigErrors, match="no such file"):
        load_hypotheses(tmp_path / name, experiment())


def test_placements_that_differ_in_nothing_but_their_names_are_not_compared(file):
    about = experiment(even={"n-cpu-moe": 4}, half={"n-cpu-moe": 4})
    assert problem_of(file, HEAD + COMPARISON, about).startswith(
        "hypotheses.toml: hypothesis[0].candidate (h): the same as the baseline but for its name"
    )
    assert load(file, HEAD + COMPARISON, experiment(even={"flag": True}, half={"flag": 1}))


def test_placements_that_differ_in_the_build_alone_are_compared(file):
    about = experiment(even={"n-cpu-moe": 4}, half={"n-cpu-moe": 4})
    even, half = about.placements
    fused = replace(about, placements=(even, replace(half, build="fused")))
    assert load(file, HEAD + COMPARISON, fused)


def test_a_price_makes_a_metric_of_money_possible(file):
    text = HEAD + AGAIN.replace('"tg"', '"usd_per_million"') + 'workload = "tg128"'
    (one,) = load(file, text, experiment(price=2.2))
    assert one.metric == "usd_per_million"


@pytest.mark.parametrize(
    ("workloads", "metric", "problem"),
    [
        (("tg32", "tg64"), "tg", 'the experiment has 2 that yield tg | write workload = "tg32" or workload = "tg64"'),
        (("pp512",), "tg", 'the experiment has none that yields tg | workload = "tg128"'),
        (("tg32",), "pp", 'the experiment has none that yields pp | workload = "pp128"'),
    ],
)
def test_without_one_fitting_workload_it_must_be_given(file, workloads, metric, problem):
    text = HEAD + AGAIN.replace('"tg"', f'"{metric}"')
    assert f"hypothesis[0].workload (h): missing, and {problem}" in problem_of(file, text, experiment(*workloads))


def test_an_experiments_only_workload_serves_metrics_of_either_kind(file):
    (one,) = load(file, HEAD + AGAIN.replace('"tg"', '"parallelism"'), experiment("pp64"))
    assert one.test.of.workload == Workload("pp", 64)


def test_every_problem_of_the_file_is_told_at_once(file):
    text = f"""
        [rules]
        alpha = 1
        [[hypothesis]]
        id = "a"
        claim = 1
        metric = "tgs"
        baseline = "evn"
        candidate = "haf"
        predict = [2, 1.6]
        smallest = "x"
        colour = "red"
        {HEAD.replace('"h"', '"a"')}
        metric = "bandwidth_frac"
        of = "nowhere"
        at_least = -1
        predict = 3
        [[hypothesis]]
    """
    found = [problem.message.removeprefix("hypotheses.toml: ").split(":")[0] for problem in problems_of(file, text)]
    assert sorted(found) == [
        "hypothesis[0].baseline (a)",
        "hypothesis[0].because (a)",
        "hypothesis[0].candidate (a)",
        "hypothesis[0].claim (a)",
        "hypothesis[0].colour (a)",
        "hypothesis[0].metric (a)",
        "hypothesis[0].predict (a)",
        "hypothesis[0].smallest (a)",
        "hypothesis[1].at_least (a)",
        "hypothesis[1].id",
        "hypothesis[1].of (a)",
        "hypothesis[1].predict (a)",
        "hypothesis[2]",
        "hypothesis[2].because",
        "hypothesis[2].claim",
        "hypothesis[2].id",
        "hypothesis[2].metric",
        "rules.alpha",
    ]


# Whatever stands in the file

KEYS = (
    *("id", "claim", "because", "metric", "workload", "baseline", "candidate", "candidate_workload", "varies"),
    *("predict", "smallest", "of", "at_least", "at_most", "again", "if_refuted", "if_supported"),
)
scalars = (
    st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.dates()
    | st.sampled_from(["even", "half", "experts", "tg", "pp", "parallelism", "op.x", "busy.CPU", "tg128", "pp8 x2"])
    | st.just(10**400)
)  # fmt: skip
values = scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.text(max_size=4), scalars, max_size=2)
tables = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), values, max_size=10)
documents = st.fixed_dictionaries(
    {"hypothesis": st.lists(tables, max_size=4) | values},
    optional={
        "rules": st.dictionaries(st.sampled_from(["alpha", "looks", "x"]), values, max_size=2) | values,
        "other": values,
    },
)


def load_or_be_told(file: Path) -> None:
    """Load, or get problems that a person can read."""
    try:
        assert load_hypotheses(file, experiment())
    except ConfigErrors as errors:
        assert errors.problems
        for problem in errors.problems:
            assert problem.message.isprintable()
            assert problem.hint.isprintable()
            assert str(file) in problem.message


@given(document=documents)
def test_any_toml_is_hypotheses_or_a_readable_problem(tmp_path_factory, document):
    file = tmp_path_factory.mktemp("any") / "hypotheses.toml"
    file.write_text("\n".join(f"{dump(key)} = {dump(value)}" for key, value in document.items()))
    load_or_be_told(file)


@given(content=st.binary(max_size=40) | st.text("[]{}=\"'.,#\n\\ hypotesi1-", max_size=40).map(str.encode))
def test_any_bytes_are_hypotheses_or_a_readable_problem(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("bytes") / "hypotheses.toml"
    file.write_bytes(content)
    load_or_be_told(file)


@given(
    low=st.floats(0, 10, allow_nan=False),
    high=st.floats(0, 10, allow_nan=False) | st.just(math.inf),
    smallest=st.floats(0.5, 3, allow_nan=False),
)
def test_a_comparison_is_read_exactly_if_data_could_decide_it(tmp_path_factory, low, high, smallest):
    """The conditions are written out here once more: a sound ratio, and either an effect that matters or none."""
    file = tmp_path_factory.mktemp("band") / "hypotheses.toml"
    text = HEAD + COMPARISON.replace("[1.6, 2.0]", f"[{low!r}, {high!r}]").replace("1.05", repr(smallest))
    says_something = 0 <= low <= high and high > 0 and not (low == 0 and high == math.inf)
    no_effect = low <= 1 / smallest and smallest <= high
    matters = low >= smallest or high <= 1 / smallest
    if says_something and smallest > 1 and (no_effect if low <= 1 <= high else matters):
        (one,) = load(file, text)
        assert (one.test.predict, one.test.smallest) == (Band(low, high), smallest)
    else:
        assert problems_of(file, text)
