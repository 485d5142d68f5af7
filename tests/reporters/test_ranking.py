from __future__ import annotations

from k3prof.core.summary import Spread
from k3prof.core.trial import Outcome, TrialStatus
from k3prof.reporters import ranking
from tests.doubles.summaries import PP512, TG128, failed, placement, sweep, workload_summary


def test_generation_is_ranked_before_prefill_and_the_fastest_comes_first():
    tg, pp = ranking.sections(sweep())
    assert (tg.workload, pp.workload) == (TG128, PP512)
    assert [row.summary.placement for row in tg.rows if row.place] == ["experts-8", "even", "n-cpu-moe-4"]
    assert [row.place for row in tg.rows] == [1, 2, 3, None, None]


def test_every_placement_stands_under_every_workload():
    names = {summary.placement for summary in sweep()}
    for section in ranking.sections(sweep()):
        assert {row.summary.placement for row in section.rows} == names


def test_rates_are_set_against_the_best():
    tg, _ = ranking.sections(sweep())
    assert tg.rows[0].relative == 1.0
    assert tg.rows[1].relative == 33.31 / 41.87
    assert tg.rows[3].relative is None


def test_a_rate_from_a_void_trial_is_not_compared():
    fast = workload_summary(TG128, Spread(99.0, 99.0, 99.0, 3), None, (None,) * 4)
    void = placement("void", fast)
    void = type(void)(void.placement, Outcome(TrialStatus.VOID), void.load_s, void.workloads, ())
    (section,) = ranking.sections(
        [void, placement("even", workload_summary(TG128, Spread(30, 30, 30, 3), None, (None,) * 4))]
    )
    assert ranking.best(section).summary.placement == "even"
    assert [row.place for row in section.rows] == [1, None]


def test_a_sweep_in_which_all_failed_has_no_best():
    section = ranking.sections([failed("a"), failed("b")])[0]
    assert ranking.best(section) is None
    assert len(section.rows) == 2


def test_the_host_is_the_last_device():
    assert ranking.sections(sweep())[0].devices == ("RPC0", "RPC1", "RPC2", "CPU")
