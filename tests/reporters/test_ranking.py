from __future__ import annotations

from k3prof.core.summary import Spread
from k3prof.core.trial import Caveat, Outcome, TrialStatus
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


LACKING = Caveat("counters-missing", "not offered by the driver: CUDA0, CUDA1: energy_j", "these stay unknown")
OTHER = Caveat("no-plateau", "tg128: no plateau")


def rated(name: str, *caveats: Caveat):
    return placement(name, workload_summary(TG128, Spread(30, 30, 30, 3), None, (None,) * 4), caveats=caveats)


def test_caveats_that_all_placements_share_are_taken_out_of_each():
    sweep = [rated("even", LACKING), rated("uneven", OTHER, LACKING), failed("all-on-one")]
    assert ranking.shared_caveats(sweep) == (LACKING,)
    (section,) = [one for one in ranking.sections(sweep) if one.workload == TG128]
    assert {row.summary.placement: row.caveats for row in section.rows} == {
        "even": (),
        "uneven": (OTHER,),
        "all-on-one": (),
    }


def test_what_is_said_of_one_placement_alone_or_of_some_is_not_shared():
    assert ranking.shared_caveats([rated("even", LACKING)]) == ()
    assert ranking.shared_caveats([rated("even", LACKING), rated("uneven")]) == ()
    assert ranking.shared_caveats([]) == ()
