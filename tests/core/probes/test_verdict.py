from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from k3prof.core.probes.probe import Answer, Group, Outcome, Result, Sign
from k3prof.core.probes.questions import PROBES
from k3prof.core.probes.report import EarlierAnswer, EarlierReport, compare
from k3prof.core.probes.verdict import Score, Verdict, judge, judge_answer


def results(outcome, *, garbled=frozenset(), wrong=frozenset(), unanswered=False):
    """Every probe with the same outcome, but for the groups that are garbled or wrong."""
    found = []
    for probe in PROBES:
        bad = probe.group in garbled or probe.group in wrong
        signs = (Sign.LOOP,) if probe.group in garbled else ()
        text = None if unanswered else "text"
        found.append(Result(probe, Answer(text), Outcome.FAIL if bad else outcome, signs))
    return found


def test_garbage_in_every_group_is_broken():
    assert judge(results(Outcome.FAIL, garbled=set(Group))).verdict is Verdict.BROKEN


def test_clean_text_that_is_wrong_is_too_small_to_tell():
    assert judge(results(Outcome.FAIL)).verdict is Verdict.TOO_SMALL


def test_all_right_is_sound():
    assert judge(results(Outcome.PASS)).verdict is Verdict.SOUND


def test_no_answers_are_unknown():
    assert judge(results(Outcome.UNANSWERED, unanswered=True)).verdict is Verdict.UNKNOWN
    assert judge([]).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("group", [Group.FRENCH, Group.CHINESE, Group.FACTS])
def test_a_language_that_alone_is_wrong_or_garbled_is_what_is_broken(group):
    for found in (judge(results(Outcome.PASS, wrong={group})), judge(results(Outcome.PASS, garbled={group}))):
        assert (found.verdict, found.broken_groups) == (Verdict.PARTLY_BROKEN, (group,))


def test_a_model_that_fails_in_much_without_garbage_is_small():
    found = judge(results(Outcome.PASS, wrong={Group.ARITHMETIC, Group.GERMAN, Group.CODE, Group.JAPANESE}))
    assert found.verdict is Verdict.SMALL
    assert "arithmetic" in found.reason


@given(st.integers(0, 60), st.integers(1, 60))
def test_intervals_are_clopper_and_pearsons(passed, answered):
    passed = min(passed, answered)
    low, high = Score(passed, answered, answered, 0).interval
    assert (low, high) == pytest.approx(proportion_confint(passed, answered, alpha=0.10, method="beta"), abs=1e-9)
    assert low <= passed / answered <= high


def test_nothing_answered_has_no_interval():
    assert Score(0, 0, 3, 0).interval is None


def test_every_probe_has_its_own_name_and_every_group_enough_of_them_to_beat_chance():
    assert len({probe.id for probe in PROBES}) == len(PROBES)
    for group in Group:
        asked = sum(probe.group is group for probe in PROBES)
        assert Score(asked - 1, asked, asked, 0).beats_chance


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.id)
def test_no_example_that_is_shown_beside_a_question_answers_it(probe):
    assert not any(probe.check(answer) for _, answer in probe.style.examples)
    assert probe.question not in {question for question, _ in probe.style.examples}


@pytest.mark.parametrize(
    "probe",
    [one for one in PROBES if one.group is not Group.CODE and one.group is not Group.TOOLS and "-prose" not in one.id],
    ids=lambda probe: probe.id,
)
def test_what_is_said_to_be_wanted_is_right(probe):
    assert judge_answer(probe, Answer(probe.expected)).outcome is Outcome.PASS
    assert judge_answer(probe, Answer("")).outcome is Outcome.FAIL
    assert judge_answer(probe, Answer(None, "cut")).outcome is Outcome.UNANSWERED


def test_two_examinations_are_compared_probe_by_probe():
    now = results(Outcome.PASS)[:4]
    first, second, third, _ = (one.probe.id for one in now)
    before = {
        first: EarlierAnswer(Outcome.FAIL, "other"),
        second: EarlierAnswer(Outcome.PASS, "other"),
        third: EarlierAnswer(Outcome.PASS, "text"),
        "gone": EarlierAnswer(Outcome.PASS, "text"),
    }
    found = compare(now, EarlierReport("before.json", 1, "sound", before))
    assert [change.id for change in found.changes] == [first]
    assert (found.reworded, found.same, found.not_compared) == (1, 1, 2)
