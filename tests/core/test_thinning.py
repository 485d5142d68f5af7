from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3prof.core.thinning import thin_steps


@st.composite
def step_functions(draw):
    widths = draw(st.lists(st.integers(1, 10**9), min_size=1, max_size=200))
    shares = draw(st.lists(st.floats(0, 4) | st.just(math.nan), min_size=len(widths), max_size=len(widths)))
    edges = np.cumsum([draw(st.integers(0, 10**15)), *widths]).astype(np.int64)
    return edges, np.array(shares)


def observed_area(edges, values):
    return math.fsum(v * (b - a) for v, (a, b) in zip(values, pairwise(edges.tolist()), strict=True) if v == v)


@settings(deadline=None)
@given(step_functions(), st.integers(1, 50))
def test_the_area_under_the_steps_is_unchanged(steps, bins):
    edges, values = steps
    thin = thin_steps(edges, values, bins)
    assert observed_area(thin.edges_ns, thin.mean) == pytest.approx(observed_area(edges, values), rel=1e-12, abs=1e-3)


@settings(deadline=None)
@given(step_functions(), st.integers(1, 50))
def test_time_that_was_not_observed_stays_apart_and_keeps_its_length(steps, bins):
    edges, values = steps
    thin = thin_steps(edges, values, bins)
    assert np.diff(thin.edges_ns)[np.isnan(thin.mean)].sum() == np.diff(edges)[np.isnan(values)].sum()


@settings(deadline=None)
@given(step_functions(), st.integers(1, 50))
def test_the_extremes_survive(steps, bins):
    edges, values = steps
    thin = thin_steps(edges, values, bins)
    seen = values[~np.isnan(values)]
    if seen.size:
        assert np.nanmax(thin.high) == seen.max()
        assert np.nanmin(thin.low) == seen.min()


@settings(deadline=None)
@given(step_functions(), st.integers(1, 50))
def test_merged_edges_are_some_of_the_given_ones_and_the_ends_stay(steps, bins):
    edges, values = steps
    thin = thin_steps(edges, values, bins)
    assert set(thin.edges_ns.tolist()) <= set(edges.tolist())
    assert (thin.edges_ns[0], thin.edges_ns[-1]) == (edges[0], edges[-1])


def test_steps_inside_an_interval_to_keep_whole_stay_as_they_are():
    edges = np.arange(0, 1001, dtype=np.int64)
    values = np.arange(1000) % 7 / 7.0
    thin = thin_steps(edges, values, 10, whole=[(400, 420)])
    inside = (thin.edges_ns[:-1] >= 400) & (thin.edges_ns[:-1] < 420)
    assert thin.mean[inside].tolist() == pytest.approx(values[400:420].tolist())
    assert thin.mean.size <= 10 + 22


def test_a_million_steps_become_as_many_as_asked_for():
    edges = np.arange(1_000_001, dtype=np.int64) * 5_000_000
    values = np.random.default_rng(1).random(1_000_000)
    thin = thin_steps(edges, values, 1200)
    assert thin.mean.size == 1200


def test_nothing_thins_to_nothing():
    thin = thin_steps(np.empty(0, np.int64), np.empty(0), 100)
    assert thin.mean.size == 0
