from __future__ import annotations

import pytest

from k3prof.core.idle import Parallelism
from k3prof.core.summary import Spread
from k3prof.core.trial import Failure, Outcome, TrialStatus
from k3prof.reporters import formats


def test_what_is_not_known_is_called_unknown_and_never_a_number():
    for text in (formats.rate(None), formats.share(None), formats.degree(None), formats.seconds(None)):
        assert text == "unknown"
    assert formats.rate_range(None) == formats.interval(None) == formats.times_best(None) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (2.13, "2.1 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (247, "4 min 07 s"),
        (3725, "1 h 02 min"),
    ],
)
def test_durations_never_show_sixty_seconds(seconds, text):
    assert formats.seconds(seconds) == text


@pytest.mark.parametrize(("rate", "text"), [(7.139, "7.14"), (33.3, "33.30"), (722.14, "722.1"), (1234.5, "1,234.5")])
def test_rates_keep_the_digits_that_matter(rate, text):
    assert formats.rate(rate) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [(1, "1 ns"), (2e4, "20 µs"), (5e6, "5 ms"), (2e8, "200 ms"), (166_700_000, "167 ms"), (2.5e9, "2.5 s")],
)
def test_a_counters_period_reads_as_its_unit(ns, text):
    assert formats.resolution(ns) == text


def test_a_single_repetition_has_no_range():
    assert formats.rate_range(Spread(24.6, 24.6, 24.6, 1)) == ""
    assert formats.rate_range(Spread(33.3, 32.8, 33.4, 3)) == "32.80–33.40"


def test_one_block_gives_a_degree_without_an_interval():
    one_block = Parallelism(0.491, None, None, 1, ("RPC0",), 5_000_000)
    assert (formats.degree(one_block), formats.interval(one_block)) == ("0.49", "")


def test_a_failure_is_named_with_its_kind():
    assert formats.standing(Outcome(TrialStatus.FAILED, Failure.OUT_OF_MEMORY)) == "failed: out of memory"
    assert formats.standing(Outcome(TrialStatus.VOID)) == "void"
    assert formats.standing(Outcome(TrialStatus.OK)) == ""


@pytest.mark.parametrize(("amount", "text"), [(0.0497, "$0.050"), (4.2, "$4.20"), (1234.5, "$1,234.50")])
def test_small_costs_are_not_rounded_away(amount, text):
    assert formats.usd(amount) == text
