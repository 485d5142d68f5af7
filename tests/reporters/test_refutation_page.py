from __future__ import annotations

from dataclasses import replace

from k3prof.core.refutation.verdict import Ruling
from k3prof.reporters.refutation_page import conclusions, lead, refutation_page
from tests.doubles.verdicts import cpu_experts, eight, kernel, noise_of_the_rig, refutation_report, threads, turns


def listed(report) -> dict[str, list[str]]:
    return {one.heading: [item.claim for item in one.items] for one in conclusions(report)}


def test_every_hypothesis_is_concluded_once():
    claims = [claim for items in listed(refutation_report(noise=())).values() for claim in items]
    assert sorted(claims) == sorted(row.verdict.hypothesis.claim for row in eight())


def test_a_run_against_itself_is_noise_and_rules_nothing_out():
    found = listed(refutation_report((noise_of_the_rig(),), noise=()))
    assert found == {"The noise of this rig": ["two runs of one placement differ"]}


def test_a_rig_that_is_too_noisy_says_why():
    row = noise_of_the_rig()
    noisy = replace(
        row.verdict, ruling=Ruling.INCONCLUSIVE, magnitude=None, reasons=("two runs differ by up to 8 % here",)
    )
    (only,) = conclusions(refutation_report((replace(row, verdict=noisy),), noise=()))
    assert only.items[0].sign == "?"
    assert "two runs differ by up to 8 % here" in only.items[0].remarks


def test_noise_that_a_hypothesis_tells_about_is_told_once():
    assert listed(refutation_report())["The noise of this rig"] == [
        "two runs of one placement differ",
        "tg in tg128@d4096",
    ]
    alone = listed(refutation_report((turns(),)))
    assert alone["The noise of this rig"] == ["tg in tg128", "tg in tg128@d4096"]


def test_lists_without_items_are_left_out():
    assert list(listed(refutation_report((turns(),), noise=()))) == ["What holds"]
    assert listed(refutation_report((), noise=())) == {}


def test_the_lead_counts_what_was_found():
    assert lead([cpu_experts()]) == "Of 1 hypothesis, 1 is refuted."
    assert lead([threads(), turns(), cpu_experts()]) == (
        "Of 3 hypotheses, 1 is refuted, 1 is supported, 1 is inconclusive."
    )
    assert lead([kernel(), kernel()]).endswith("2 are refuted. 2 verdicts rest on single figures.")
    assert lead([]) == "No hypothesis was judged."


def test_an_obstacle_is_told_once():
    (page,) = refutation_page(refutation_report((threads(),))).hypotheses
    said = [text for _, texts in page.facts for text in texts]
    assert said.count("confounded by n-cpu-moe: threads-16 has 48, threads-41 has 0") == 1


def test_block_figures_name_the_run_that_they_come_from():
    pages = refutation_page(refutation_report((noise_of_the_rig(), turns()))).hypotheses
    assert pages[0].block_columns == (
        *("round", "even, tg128, first run", "even, tg128, second run"),
        *("even, tg128, again, first run", "even, tg128, again, second run", "block"),
    )
    assert pages[1].block_columns == ("round", "even, tg128, first run", "even, tg128, second run", "block")
    assert pages[1].block_rows[0] == ("0", "0.73458", "0.74942", "0.742")
