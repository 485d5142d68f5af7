from __future__ import annotations

import pytest

from k3prof.core.counterfactuals import counterfactuals
from k3prof.core.ledger import Observed, ledger
from k3prof.core.spans import SpanKind
from tests.doubles.tokens import MS, TG, known_ledger, spans_of


def ceilings(found) -> dict[str, float]:
    return {one.name: one.tokens_per_s for one in counterfactuals(found)}


def test_every_ceiling_of_a_known_token_is_exact():
    assert ceilings(known_ledger()) == pytest.approx(
        {
            "perfect overlap": 1000 / 7.5,
            "RPC0 takes no time": 1000 / 14,
            "RPC1 takes no time": 1000 / 12.5,
            "RPC1 relieved": 1000 / (20 - (7.5 - 6.75)),
            "nothing computed on the host": 1000 / 19.5,
            "copies take no time": 1000 / 18.75,
            "the host takes no time": 1000 / (20 - 3.0 - 1.75),
        }
    )


def test_what_gains_less_than_five_percent_would_not_help():
    assert [one.name for one in counterfactuals(known_ledger()) if not one.helps] == [
        "RPC1 relieved",
        "nothing computed on the host",
    ]


def test_perfect_overlap_says_how_many_streams_it_takes_and_what_bounds_it():
    overlap = next(one for one in counterfactuals(known_ledger()) if one.name == "perfect overlap")
    assert "at least 3 independent streams or micro-batches keep RPC1 always at work" in overlap.assumption


def test_the_host_bounds_overlap_where_it_computes_longest():
    rows = [
        (SpanKind.PASS, "", 0, 10 * MS),
        (SpanKind.COMPUTE, "RPC0", 0, 2 * MS),
        (SpanKind.COMPUTE, "RPC1", 2 * MS, 3 * MS),
        (SpanKind.COMPUTE, "CPU", 3 * MS, 9 * MS),
    ]
    found = ledger(TG, ("RPC0", "RPC1"), [Observed(0, 10 * MS, 1, spans_of(rows))])
    assert ceilings(found)["perfect overlap"] == pytest.approx(1000 / 6)
    assert ceilings(found)["nothing computed on the host"] == pytest.approx(1000 / 4)


def test_a_device_that_only_computes_beside_another_gains_nothing_when_free():
    rows = [
        (SpanKind.PASS, "", 0, 10 * MS),
        (SpanKind.COMPUTE, "RPC0", 0, 10 * MS),
        (SpanKind.COMPUTE, "RPC1", 2 * MS, 6 * MS),
    ]
    found = ledger(TG, ("RPC0", "RPC1"), [Observed(0, 10 * MS, 1, spans_of(rows))])
    assert ceilings(found)["RPC1 takes no time"] == pytest.approx(100.0)
    assert ceilings(found)["RPC0 takes no time"] == pytest.approx(1000 / 4)


def test_one_device_that_does_everything_has_no_ceiling_when_free_and_nobody_to_overlap_with():
    rows = [(SpanKind.PASS, "", 0, 10), (SpanKind.COMPUTE, "RPC0", 0, 10)]
    found = counterfactuals(ledger(TG, ("RPC0",), [Observed(0, 10, 1, spans_of(rows))]))
    assert {one.name for one in found} == {"RPC0 takes no time", "copies take no time", "the host takes no time"}
    free = found[0]
    assert (free.name, free.token_ms, free.tokens_per_s, free.gain_frac, free.helps) == (
        "RPC0 takes no time",
        0.0,
        None,
        None,
        True,
    )


def test_unknown_device_times_allow_no_claim_about_devices():
    assert set(ceilings(known_ledger(finished=False))) == {"nothing computed on the host"}
