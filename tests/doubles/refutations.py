"""Hypothesis strategies for all that a refutation keeps: hypotheses, evidence and verdicts, whatever they say."""

from __future__ import annotations

from hypothesis import strategies as st

from k3prof.core.refutation.evidence import Block, Evidence, Figure, Grade, Voided
from k3prof.core.refutation.hypothesis import Again, Arm, Band, Comparison, Hypothesis, Rules, Threshold
from k3prof.core.refutation.leg import LegPlace
from k3prof.core.refutation.verdict import Effect, Magnitude, Ruling, Verdict
from k3prof.core.trial import Caveat, Workload

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
finite = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.floats(allow_nan=False) | st.integers(-9, 9)
counts = st.integers(0, 1000)

workloads = st.builds(
    Workload, st.sampled_from(["pp", "tg"]), st.integers(2, 9999), st.integers(0, 99_999), st.integers(1, 64)
)
arms = st.builds(Arm, texts, workloads)
bands = st.builds(Band, numbers, numbers)
tests = (
    st.builds(Comparison, arms, arms, bands, numbers, st.none() | texts)
    | st.builds(Threshold, arms, bands)
    | st.builds(Again, arms, numbers)
)
rules = st.builds(Rules, st.floats(0, 0.2), st.lists(counts, max_size=4).map(tuple))
hypotheses = st.builds(Hypothesis, texts, texts, texts, texts, tests, rules, texts, texts, texts)

figures = st.builds(Figure, finite, finite, finite)
pairs = st.tuples(figures, figures)
blocks = st.builds(Block, counts, pairs, st.none() | pairs)


def tuples_of(one: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(one, max_size=3).map(tuple)


evidence = st.builds(
    Evidence,
    tuples_of(blocks),
    tuples_of(blocks),
    tuples_of(st.builds(Voided, counts, texts)),
    texts,
    tuples_of(st.builds(Caveat, texts, texts, texts)),
)
effects = st.builds(Effect, finite, st.none() | numbers, st.none() | numbers, counts)
verdicts = st.builds(
    Verdict,
    hypotheses,
    st.sampled_from(Ruling),
    texts,
    st.none() | st.sampled_from(Magnitude),
    st.none() | effects,
    st.sampled_from(Grade),
    tuples_of(texts),
    st.none() | counts,
    st.booleans(),
    evidence,
)
leg_places = st.builds(LegPlace, counts, counts, texts, st.booleans())
