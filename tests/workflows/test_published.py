"""The first user's published figures: what k3prof says of them against arithmetic done apart from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k3prof.core.refutation.evidence import Grade
from k3prof.core.refutation.published import Finding
from k3prof.core.refutation.verdict import Ruling
from k3prof.errors import ConfigError
from k3prof.workflows.published import judge_published, published_text

WRONG = {
    "Kimi-K3: bytes read per token",
    "Kimi-K3: KV cache of 1,048,576 tokens",
    "Kimi-Linear: KV cache per token",
    "Kimi-Linear: weights and KV cache of 1,048,576 tokens",
    "Qwen: warm prefill",
    "Qwen, depth 12: how often the twelfth token is accepted",
    "Qwen, depth 24: tokens emitted per reading of the weights",
    "Qwen: active weights per token",
    "Qwen: how far the peak exceeds that ceiling",
    "Qwen: what pruning every turn costs",
    "Qwen: passes per second at 32 sessions",
    "Qwen: share of the bandwidth at 32 sessions, as stated later",
}


@pytest.fixture(scope="module")
def report():
    return judge_published(Path(__file__).parents[2] / "traces" / "first-user.toml")


@pytest.fixture(scope="module")
def checks(report):
    return {result.check.name: result for result in report.checks}


@pytest.fixture(scope="module")
def verdicts(report):
    return {verdict.hypothesis.id: verdict for verdict in report.verdicts}


def test_these_numbers_are_wrong_and_no_others(report):
    assert {result.check.name for result in report.found(Finding.WRONG)} == WRONG


# Each value worked out from what was published, in exact fractions and apart from this program.
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Kimi-K3: scaling with 1, 2 and 4 streams", [1, 1.771583, 2.613309]),
        ("Kimi-K3: bytes of the routed experts per token", [6.928403]),  # 48,620,371,968 parameters × 1.14 / 8
        ("Kimi-K3: bytes read per token", [14.847128]),  # 104,190,371,968 × 1.14 / 8
        ("Kimi-K3: bandwidth used, from 7 GB per token", [50.724638]),
        ("Kimi-K3: share of the bandwidth, from 7 GB per token", [7.288023]),
        ("Kimi-K3: KV cache per token", [27.648]),
        ("Kimi-K3: KV cache of 1,048,576 tokens", [27.0]),  # 27,648 × 2^20 / 2^30 = 27,648 / 1,024
        ("Kimi-K3: fall of prefill with context", [-34.470691]),
        ("Kimi-Linear: KV cache per token", [8.064]),
        ("Kimi-Linear: KV cache of 1,048,576 tokens", [7.875]),
        ("Kimi-Linear: weights and KV cache of 1,048,576 tokens", [38.955353]),
        ("Kimi-Linear: price by streams", [1.813386, 0.591589, 0.346828, 0.219785, 0.156715]),
        ("Qwen: price by streams", [1.575029, 0.460694, 0.246019, 0.156214, 0.104858]),
        ("Qwen: warm prefill", [35975.700935]),
        ("Qwen: effect of speculation on generation", [-42.774680]),
        ("Qwen: effect of speculation on code editing", [86.224647]),
        ("Qwen, depth 5: accepted length", [3.410628]),  # 706 accepted in 1,035 / 5 = 207 passes
        ("Qwen, depth 12: how often the twelfth token is accepted", [16.326065]),  # 51 of 1,009 / 3.23 passes
        ("Qwen, depth 24: mean of six runs", [574.733333]),
        ("Qwen, depth 24: price of a single stream", [0.212671]),
        ("Qwen: gain of compacting in blocks", [54.315305]),
        ("Qwen: what pruning every turn costs", [35.197614]),
        ("Qwen: passes per second at 32 sessions", [36.240625]),
        ("GPUs: price per token over the A40's", [1, 1.161255, 1.501263, 1.8125, 1.233492]),
        ("Dense model: how much slower at 1, 8 and 32 sessions", [4.690840, 3.064632, 3.615025]),
        ("Eight PCIe cards, V4.1-Flash: both stages together", [6.870600]),
    ],
)
def test_a_published_number_has_the_value_that_exact_arithmetic_gives(checks, name, values):
    assert [number.value for number in checks[name].numbers] == pytest.approx(values, rel=5e-6)


def test_the_unit_that_each_kv_figure_is_in_is_told_by_where_it_fails(checks):
    linear, k3 = checks["Kimi-Linear: KV cache per token"], checks["Kimi-K3: KV cache per token"]
    assert (linear.finding, k3.finding) == (Finding.WRONG, Finding.CONFIRMED)
    assert linear.numbers[0].excess_frac == pytest.approx(7.88 / 8.064 - 1)


def test_the_first_users_refutations_stand_where_the_figures_carry_them(verdicts):
    rulings = {name: verdict.ruling for name, verdict in verdicts.items()}
    assert {name for name, ruling in rulings.items() if ruling is Ruling.REFUTED} == {
        "cpu-experts-nearly-all",
        "crossings",
        "weights-bind",
    }
    assert {name for name, ruling in rulings.items() if ruling is Ruling.SUPPORTED} == {
        "dspark-flag-without-effect",
        "ngram-past-500",
        "speculation-eight-sessions",
    }
    assert {verdict.grade for verdict in verdicts.values()} == {Grade.UNREPLICATED, Grade.NONE}


def test_the_bandwidth_refutation_falls_with_the_bytes_it_rests_on(verdicts):
    found = verdicts["memory-bandwidth"]
    assert found.ruling is Ruling.INCONCLUSIVE
    assert found.as_published.ruling is Ruling.REFUTED
    assert found.reasons == ("rests on “Kimi-K3: bytes read per token”, which is wrong",)
    # 7.25 tok/s × (6.928403 GB + 55.57e9 parameters × bits / 8) / 696 GB/s
    assert [one.estimate.value for one in found.corrected] == pytest.approx(
        [0.154658, 0.397776, 0.546831, 0.687203], rel=1e-5
    )
    assert [one.ruling for one in found.corrected] == [*[Ruling.REFUTED] * 3, Ruling.SUPPORTED]


def test_half_the_experts_decide_by_what_is_meant_by_dominating(verdicts):
    assert verdicts["cpu-experts-nearly-all"].ruling is Ruling.REFUTED
    assert verdicts["cpu-experts-half"].ruling is Ruling.INCONCLUSIVE


@pytest.mark.parametrize("kind", ["html", "md", "json"])
def test_every_form_holds_every_number_and_claim(report, kind):
    text = published_text(report, kind)
    if kind == "json":
        found = json.loads(text)
        assert [one["name"] for one in found["checks"]] == [result.check.name for result in report.checks]
        assert [one["id"] for one in found["hypotheses"]] == [one.hypothesis.id for one in report.verdicts]
        return
    for verdict in report.verdicts:
        assert verdict.hypothesis.claim.replace("'", "&#39;" if kind == "html" else "'") in text


def test_a_file_that_is_wrong_is_refused(tmp_path):
    file = tmp_path / "e.toml"
    file.write_text("x = 1")
    with pytest.raises(ConfigError, match="unknown key"):
        judge_published(file)
