from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from k3prof.core.refutation.effective import Effective
from k3prof.core.refutation.gather import Leg, Question, gather, hopeless
from k3prof.core.refutation.hypothesis import Again, Arm, Band, Comparison, Hypothesis, Threshold
from k3prof.core.refutation.leg import LegPlace, MeasuredLeg
from k3prof.core.refutation.leg_metrics import find_metric
from k3prof.core.trial import (
    Failure,
    Outcome,
    RequestRecord,
    ServerTimings,
    TrialRecord,
    TrialSpec,
    TrialStatus,
    Workload,
)

TG, TG4 = Workload("tg", 64), Workload("tg", 64, streams=4)
MS = 1_000_000
EVEN = TrialSpec("even", "model", "/m.gguf", "build", ("rpc:2",), {}, {}, (TG, TG4), 1)
HOST = replace(EVEN, placement="host", flags={"n-cpu-moe": 4})
BOTH = replace(EVEN, placement="both", flags={"n-cpu-moe": 4, "ubatch-size": 64})
SPECS = {spec.placement: spec for spec in (EVEN, HOST, BOTH)}
LAYOUTS = {
    "even": {"model on RPC0": "90 MiB"},
    "host": {"model on RPC0": "70 MiB"},
    "both": {"model on RPC0": "70 MiB"},
}

COMPARED = Comparison(Arm("even", TG), Arm("host", TG), Band(1.6, 2.0), 1.1)


def question(test: Comparison | Threshold | Again = COMPARED, since: int = 0, metric: str = "tg") -> Question:
    found = find_metric(metric)
    assert found is not None
    return Question(Hypothesis("a", "c", "b", metric, test), found, SPECS, since)


def request(workload: Workload, rate: float, stream: int = 0) -> RequestRecord:
    """A stream that generates so many tokens per second from a second on."""
    arrivals = (1_000 * MS + np.arange(workload.tokens) * (1e9 / rate)).astype(np.int64)
    timings = ServerTimings(1, 20.0, workload.tokens, (workload.tokens - 1) * 1e3 / rate)
    return RequestRecord(
        workload, "measure", 0, stream, 0, arrivals, np.ones(workload.tokens, np.int64), int(arrivals[-1]), timings
    )


def leg(number: int, place: LegPlace, rate: float = 40.0, spec: TrialSpec | None = None, **trial: object) -> Leg:
    requests = (request(TG, rate), *(request(TG4, rate / 2, stream) for stream in range(4)))
    record = TrialRecord(number, spec or SPECS[place.placement], (), 0, 1, 2, Outcome(TrialStatus.OK), requests)
    return Leg(place, MeasuredLeg(replace(record, **trial), ()), Effective({}, LAYOUTS[place.placement]))  # type: ignore[arg-type]


def round_of(number: int, names: Sequence[str], rates: Iterable[float], first: int = 1, **trial: object) -> list[Leg]:
    return [
        leg(first + position, LegPlace(number, position, name), rate, **trial)  # type: ignore[arg-type]
        for position, (name, rate) in enumerate(zip(names, rates, strict=True))
    ]


def again_round(number: int, rates: Sequence[float], first: int = 100) -> list[Leg]:
    return [
        leg(first + position, LegPlace(number, position, "even", twin=position in (1, 2)), rate)
        for position, rate in enumerate(rates)
    ]


def test_a_round_is_a_block_of_each_pair_of_placements_in_it() -> None:
    legs = round_of(0, ["host", "both", "even", "even", "both", "host"], [80, 1, 40, 44, 1, 88])
    (block,) = gather(question(), legs).blocks
    assert [figure.value for figure in block.baseline] == pytest.approx([40, 44])
    assert block.candidate is not None
    assert [figure.value for figure in block.candidate] == pytest.approx([80, 88])
    assert np.exp(block.log_ratio) == pytest.approx(2.0)


def test_a_round_that_was_cut_short_holds_the_pairs_that_are_whole() -> None:
    legs = round_of(0, ["both", "even", "host", "host", "even"], [1, 40, 80, 80, 40])
    assert len(gather(question(), legs).blocks) == 1
    assert gather(question(), legs[:-1]).blocks == ()


def test_one_placement_with_more_streams_is_compared_within_each_leg() -> None:
    test = Comparison(Arm("even", TG), Arm("even", TG4), Band(1.3, 4.0), 1.1)
    (block,) = gather(question(test), round_of(0, ["even", "even"], [40, 50])).blocks
    assert np.exp(block.log_ratio) == pytest.approx(2.0, rel=0.05)  # four streams at half the rate each


def test_blocks_from_before_the_hypothesis_was_written_do_not_count() -> None:
    old = round_of(0, ["even", "host", "host", "even"], [40, 80, 80, 40], first=1)
    new = round_of(1, ["even", "host", "host", "even"], [40, 60, 60, 40], first=5)
    (block,) = gather(question(since=4), [*old, *new]).blocks
    assert block.round == 1


def test_legs_of_a_placement_as_it_was_before_do_not_count() -> None:
    legs = round_of(0, ["even", "host", "host", "even"], [40, 80, 80, 40])
    changed = [
        replace(
            one,
            measured=replace(
                one.measured, trial=replace(one.measured.trial, spec=replace(HOST, flags={"n-cpu-moe": 9}))
            ),
        )
        if one.place.placement == "host"
        else one
        for one in legs
    ]
    assert gather(question(), changed).blocks == ()


def test_a_placement_against_itself_tells_the_noise_whatever_the_hypothesis_is_about() -> None:
    test = Comparison(Arm("host", TG), Arm("even", TG), Band(1.6, 2.0), 1.1)
    found = gather(question(test), again_round(0, [40, 42, 42, 40]))
    assert found.blocks == ()
    (block,) = found.again
    assert np.exp(block.log_ratio) == pytest.approx(1.05)


def test_the_noise_of_a_comparison_of_workloads_is_that_of_the_baseline_s() -> None:
    test = Comparison(Arm("even", TG), Arm("even", TG4), Band(1.3, 4.0), 1.1)
    (block,) = gather(question(test), again_round(0, [40, 40, 40, 40])).again
    assert np.exp(block.log_ratio) == pytest.approx(1.0)


def test_a_threshold_is_served_by_rounds_against_itself_too() -> None:
    test = Threshold(Arm("even", TG), Band(30.0, np.inf))
    legs = [*again_round(0, [40, 1, 1, 42]), *round_of(1, ["even", "host", "host", "even"], [50, 1, 1, 52])]
    assert [block.level.value for block in gather(question(test), legs).blocks] == pytest.approx([41, 51])


def test_what_is_claimed_of_a_placement_against_itself_is_read_from_its_own_rounds() -> None:
    legs = [*again_round(0, [40, 42, 42, 40]), *round_of(1, ["even", "host", "host", "even"], [50, 1, 1, 52])]
    found = gather(question(Again(Arm("even", TG), 1.1)), legs)
    assert [block.round for block in found.blocks] == [0]


def test_a_leg_that_is_spoilt_voids_its_block_with_the_reason() -> None:
    legs = round_of(0, ["even", "host", "host", "even"], [40, 80, 80, 40])
    failed = Outcome(TrialStatus.FAILED, Failure.KILLED, "killed by signal 9")
    legs[2] = replace(
        legs[2], measured=replace(legs[2].measured, trial=replace(legs[2].measured.trial, outcome=failed))
    )
    found = gather(question(), legs)
    assert found.blocks == ()
    (void,) = found.voided
    assert void.reason == "host, leg 3: killed by signal 9"


def test_a_placement_that_never_ran_well_gives_no_data_and_says_why() -> None:
    oom = Outcome(TrialStatus.FAILED, Failure.OUT_OF_MEMORY, "CUDA0: out of memory")
    legs = [
        replace(one, measured=replace(one.measured, trial=replace(one.measured.trial, outcome=oom)))
        if one.place.placement == "host"
        else one
        for one in round_of(0, ["even", "host", "host", "even"], [40, 80, 80, 40])
    ]
    assert gather(question(), legs).obstacle == "no data for host: CUDA0: out of memory"


def test_a_placement_that_failed_once_and_ran_later_is_no_obstacle() -> None:
    oom = Outcome(TrialStatus.FAILED, Failure.OUT_OF_MEMORY, "CUDA0: out of memory")
    first = round_of(0, ["even", "host", "host", "even"], [40, 80, 80, 40], first=1)
    first[1] = replace(
        first[1], measured=replace(first[1].measured, trial=replace(first[1].measured.trial, outcome=oom))
    )
    second = round_of(1, ["even", "host", "host", "even"], [40, 80, 80, 40], first=5)
    found = gather(question(), [*first, *second])
    assert found.obstacle == ""
    assert len(found.blocks) == len(found.voided) == 1


def test_a_metric_that_the_machine_does_not_offer_gives_no_data_and_says_why() -> None:
    test = Threshold(Arm("even", TG), Band(-np.inf, 9.0))
    found = gather(question(test, metric="energy_per_token"), round_of(0, ["even", "even"], [40, 40]))
    assert found.obstacle.startswith("no data for energy_per_token of even, tg64: ")


def test_two_changes_at_once_are_found_before_anything_runs() -> None:
    test = Comparison(Arm("even", TG), Arm("both", TG), Band(1.6, 2.0), 1.1)
    assert "n-cpu-moe (- → 4) and ubatch-size (- → 64)" in hopeless(question(test))
    assert gather(question(test), []).obstacle == hopeless(question(test))
    assert hopeless(question()) == ""


def test_a_change_that_no_server_shows_did_not_take() -> None:
    legs = round_of(0, ["even", "host", "host", "even"], [40, 80, 80, 40])
    unmoved = [replace(one, effective=Effective({}, LAYOUTS["even"])) for one in legs]
    assert gather(question(), unmoved).obstacle.startswith("the change did not take")
    assert gather(question(), legs).obstacle == ""


def one_leg(outcome: Outcome, number: int = 1) -> Leg:
    found = leg(number, LegPlace(0, number, "host"))
    return replace(found, measured=replace(found.measured, trial=replace(found.measured.trial, outcome=outcome)))


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(TrialStatus.FAILED, Failure.OUT_OF_MEMORY, "why"),
        Outcome(TrialStatus.FAILED, Failure.BAD_MODEL, "why"),
        Outcome(TrialStatus.VOID, None, "why"),
    ],
)
def test_one_failure_that_another_start_would_repeat_is_enough(outcome: Outcome) -> None:
    assert gather(question(), [one_leg(outcome)]).obstacle == "no data for host: why"


def test_a_failure_that_may_be_chance_takes_two() -> None:
    outcome = Outcome(TrialStatus.FAILED, Failure.KILLED, "killed by signal 9")
    assert gather(question(), [one_leg(outcome)]).obstacle == ""
    assert gather(question(), [one_leg(outcome), one_leg(outcome, 2)]).obstacle.startswith("no data for host")


def test_an_interruption_is_no_failure() -> None:
    legs = [one_leg(Outcome(TrialStatus.INTERRUPTED), number) for number in (1, 2, 3)]
    assert gather(question(), legs).obstacle == ""
