from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.metrics import METRICS
from k3prof.core.refutation.leg_metrics import LEG_METRICS, Need, find_metric, metric_names, nearest_metric

ALL = [*LEG_METRICS.values(), *filter(None, map(find_metric, ("busy.CUDA3", "busy.CPU", "op.mul_mat_id")))]


def test_what_a_repetition_yields_a_leg_yields_too_with_the_same_unit_and_direction() -> None:
    for metric in METRICS.values():
        found = LEG_METRICS[metric.name]
        assert (found.unit, found.better) == (metric.unit, metric.better)
        assert found.about.startswith(metric.about)


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_every_metric_says_what_it_is_and_why_it_can_be_unknown(metric) -> None:
    assert find_metric(metric.name) == metric or metric.name.startswith(("busy.", "op."))
    assert metric.about[0].islower()
    assert len(metric.unknown) > 20
    assert metric.low == 0.0
    assert metric.high in (1.0, math.inf)
    # llama-server has several threads, and so can be busy more than once.
    assert bool(metric.unit) == (metric.high == math.inf) or metric.name == "busy.CPU"


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("tg", set()),
        ("parallelism", set()),
        ("busy.RPC0", set()),
        ("load_s", set()),
        ("ledger.copies", {Need.SPLITS}),
        ("ledger_ms.between", {Need.SPLITS}),
        ("bandwidth_frac", {Need.BANDWIDTH}),
        ("bandwidth_gb_s", {Need.BANDWIDTH}),
        ("energy_per_token", {Need.ENERGY}),
        ("usd_per_million", {Need.PRICE}),
        ("part.moe", {Need.OPS}),
        ("role.no-weights", {Need.OPS}),
        ("op.flash_attn_ext", {Need.OPS}),
    ],
)
def test_a_metric_names_what_a_leg_must_observe_for_it(name: str, needs: set[Need]) -> None:
    metric = find_metric(name)
    assert metric is not None
    assert metric.needs == needs


def test_metrics_of_one_kind_of_workload_say_so() -> None:
    kinds = {name: metric.workload_kind for name, metric in LEG_METRICS.items()}
    assert (kinds["pp"], kinds["tg"], kinds["itl"], kinds["ttft"]) == ("pp", "tg", "tg", None)
    assert (kinds["bandwidth_frac"], kinds["part.moe"], kinds["parallelism"]) == ("tg", "tg", None)


@pytest.mark.parametrize(
    "name",
    [
        *("", "tgs", "busy", "busy.", "busy.GPU", "busy.cuda0", "busy.CUDA0 ", "busy.0", "ledger", "LEDGER.copies"),
        *("op.", "op.MUL_MAT", "op.mul mat", "part.experts", "role.moe"),
    ],
)
def test_no_metric_has_a_name_of_no_meaning(name: str) -> None:
    assert find_metric(name) is None


@given(st.text())
def test_any_text_is_a_metric_of_that_name_or_none(text: str) -> None:
    found = find_metric(text)
    assert found is None or found.name == text


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [
        ("ledger.copy", "ledger.copies"),
        ("paralelism", "parallelism"),
        ("busy.cuda0", "busy.CUDA0"),
        ("op.SSM_CONV", "op.ssm_conv"),
        ("TG", "tg"),
        ("part.MoE", "part.moe"),
        ("the colour of the sky", None),
    ],
)
def test_who_mistypes_a_name_is_told_the_nearest(mistyped: str, meant: str | None) -> None:
    assert nearest_metric(mistyped) == meant


def test_every_name_in_the_list_is_a_metric_and_stands_there_once() -> None:
    assert all(find_metric(name) for name in metric_names())
    assert len(metric_names()) == len(set(metric_names()))
