from __future__ import annotations

import math
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3prof.core.refutation.evidence import Block, Evidence, Figure
from k3prof.core.refutation.verdict import Effect
from k3prof.reporters.refutation_plot import as_svg, describe
from tests.doubles.verdicts import (
    Judged,
    bandwidth,
    cpu_experts,
    depth,
    effect_of,
    eight,
    everywhere,
    kernel,
    level_blocks,
    ratio_blocks,
    threads,
)

SVG = "{http://www.w3.org/2000/svg}"


def with_evidence(row: Judged, evidence: Evidence, effect: Effect | None) -> Judged:
    return replace(row, verdict=replace(row.verdict, evidence=evidence, effect=effect))


def parsed(row: Judged) -> ET.Element:
    return ET.fromstring(as_svg(row))


def markers(picture: ET.Element) -> int:
    return sum("marker" not in (one.get("id") or "") for one in picture.iter(f"{SVG}use"))


def test_equal_rows_give_equal_bytes_without_a_date():
    first, again = as_svg(cpu_experts()), as_svg(cpu_experts())
    assert first == again
    assert b"dc:date" not in first and b"Matplotlib" not in first


@pytest.mark.parametrize(
    "row", [row for row in eight() if row.verdict.effect], ids=lambda row: row.verdict.hypothesis.id
)
def test_a_picture_says_in_words_what_it_shows(row):
    picture = parsed(row)
    assert picture.get("role") == "img"
    assert picture.find(f"{SVG}title").text == row.verdict.hypothesis.id
    assert picture.find(f"{SVG}desc").text == describe(row)
    assert len(as_svg(row)) < 60_000


def test_every_block_is_a_dot():
    drawn = [markers(parsed(with_evidence(cpu_experts(), Evidence(ratio_blocks(20, ratios)), None))) for ratios in
             ((1.1, 1.2), (1.1, 1.2, 1.3, 1.15, 1.25))]  # fmt: skip
    assert drawn[1] - drawn[0] == 3


def test_blocks_that_were_not_yet_judged_are_hollow():
    blocks = ratio_blocks(20, (1.1, 1.2, 1.3, 1.15))
    whole = as_svg(with_evidence(cpu_experts(), Evidence(blocks), effect_of(blocks)))
    partly = as_svg(with_evidence(cpu_experts(), Evidence(blocks), replace(effect_of(blocks), blocks=3)))
    assert partly.count(b"fill: #ffffff; stroke: #1f2328") == whole.count(b"fill: #ffffff; stroke: #1f2328") + 1


def test_nothing_measured_is_no_picture():
    assert as_svg(threads()) is None


def test_a_figure_without_logarithm_is_left_out():
    nought = Block(0, (Figure(1.0), Figure(1.0)), (Figure(0.0), Figure(0.0)))
    assert as_svg(with_evidence(cpu_experts(), Evidence((nought,)), None)) is None
    assert as_svg(with_evidence(cpu_experts(), Evidence((nought, *ratio_blocks(20, (1.1,)))), None)) is not None


def test_single_figures_are_drawn_without_blocks_and_weaker():
    assert b"stroke-dasharray" in as_svg(kernel())
    assert describe(kernel()).endswith("Blocks, in order of time: none.")


def test_hostile_names_do_nothing():
    evil = "</title><script>alert(1)</script> $\\frac{1}{0}$ ]]> \x1b[31m\x00"
    for row in everywhere((cpu_experts(), bandwidth(), depth()), evil):
        picture = parsed(row)
        assert not [one for one in picture.iter() if one.tag.endswith("script")]
        assert "<script>alert(1)</script>" in picture.find(f"{SVG}title").text


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(1e-4, 1e4), min_size=1, max_size=12),
    st.sampled_from([(0.0, 1.0, math.inf), (1e-300, 1.0, 1e300), (0.99, 1.0, 1.01), None]),
)
def test_any_evidence_can_be_drawn(ratios, interval):
    blocks = ratio_blocks(10.0, ratios)
    effect = None if interval is None else Effect(interval[1], interval[0], interval[2], len(blocks))
    picture = parsed(with_evidence(cpu_experts(), Evidence(blocks), effect))
    assert markers(picture) >= len(ratios)
    levels = level_blocks(ratios)
    assert parsed(with_evidence(bandwidth(), Evidence(levels), effect_of(levels))) is not None
