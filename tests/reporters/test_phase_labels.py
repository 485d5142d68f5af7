from __future__ import annotations

from itertools import pairwise

from k3prof.core.summary import phases
from k3prof.core.timeline import Phase, PhaseKind
from k3prof.reporters.phase_labels import stretches
from tests.doubles.trials import stand_in_trial


def test_repetitions_of_a_workload_share_one_label():
    trial, _ = stand_in_trial(repeat=3)
    assert [one.label for one in stretches(phases(trial))] == ["load", "warm-up", "pp512 ×3", "warm-up", "tg128 ×3"]


def test_a_label_says_whether_it_is_prefill_or_decode():
    trial, _ = stand_in_trial(repeat=1)
    full = [one.full_label for one in stretches(phases(trial))]
    assert full == ["load", "warm-up", "prefill pp512", "warm-up", "decode tg128"]


def test_stretches_cover_the_phases_from_the_first_to_the_last():
    trial, _ = stand_in_trial()
    found = stretches(phases(trial))
    assert found[0].begin_ns == trial.started_ns
    assert all(one.begin_ns < one.end_ns for one in found)
    assert all(one.end_ns <= after.begin_ns for one, after in pairwise(found))


def test_idle_time_is_named_but_not_measured():
    (only,) = stretches([Phase(PhaseKind.IDLE, 0, 5)])
    assert (only.label, only.measured) == ("idle", False)
