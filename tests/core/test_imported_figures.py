from __future__ import annotations

from dataclasses import replace

import pytest

from k3prof.core.imported_figures import stretch_figures
from k3prof.core.timeline import Counter
from tests.doubles.imported_runs import S, gpus, sampled, traced


def test_alternation_is_exactly_one_with_no_overlap_at_all():
    turns = [(f"GPU{i % 3}", 28 * i, 28 * (i + 1)) for i in range(300)]
    found = stretch_figures(traced(turns, devices=3), "whole", 0, 28 * 300)
    degree = found.parallelism
    assert (degree.degree, degree.low, degree.high) == (1.0, 1.0, 1.0)
    assert found.overlap_ns == (0, 0)
    assert [one.busy_frac for one in found.devices.values()] == pytest.approx([1 / 3] * 3, abs=1e-15)


def test_overlap_is_counted_to_the_nanosecond():
    run = traced([("GPU0", 0, 100), ("GPU1", 60, 140)])
    found = stretch_figures(run, "whole", 0, 200)
    assert found.parallelism.degree == 180 / 200
    assert found.overlap_ns == (40, 40)
    part = stretch_figures(run, "part", 50, 110)
    assert part.overlap_ns == (40, 40)
    assert part.parallelism.degree == (50 + 50) / 60


def test_two_half_busy_devices_are_told_apart_by_their_overlap_alone():
    """P is 1 for both: only the exact record says which of them takes turns."""
    turns = stretch_figures(traced([("GPU0", 0, 50), ("GPU1", 50, 100)]), "", 0, 100)
    together = stretch_figures(traced([("GPU0", 0, 50), ("GPU1", 0, 50)]), "", 0, 100)
    assert turns.parallelism.degree == together.parallelism.degree == 1.0
    assert (turns.overlap_ns, together.overlap_ns) == ((0, 0), (50, 50))


def test_copies_count_for_both_ends_and_not_as_computing():
    run = traced([("GPU0", 0, 100)], [("CPU", "GPU1", 20, 40), ("GPU1", "CPU", 30, 60), ("GPU0", "GPU1", 50, 70)])
    found = stretch_figures(run, "whole", 0, 100)
    assert found.devices["GPU1"].copying_frac == 0.5
    assert found.devices["GPU0"].copying_frac == 0.2
    assert found.devices["GPU1"].busy_frac == 0.0


def test_readings_give_p_with_its_interval_and_bounds_on_the_overlap():
    found = stretch_figures(sampled([[0.6] * 61, [0.9] * 61]), "whole", 0, 60 * S)
    assert found.parallelism.degree == pytest.approx(1.5)
    least_ns, most_ns = found.overlap_ns
    low, high = found.parallelism.low, found.parallelism.high
    assert low < 1.5 < high
    assert least_ns == round((low - 1) * 60 * S)
    assert most_ns == round(high / 2 * 60 * S)
    assert found.devices["GPU0"].copying_frac is None


def test_too_short_a_stretch_has_no_interval_and_bounds_nothing():
    found = stretch_figures(sampled([[0.6] * 5, [0.9] * 5]), "whole", 0, 4 * S)
    assert found.parallelism.low is None
    assert found.overlap_ns is None


def test_p_is_unknown_where_a_gpus_utilisation_was_not_recorded():
    run = replace(sampled([[0.5] * 20]), devices=gpus(2))
    both = stretch_figures(run, "whole", 0, 19 * S)
    assert both.parallelism is None
    assert both.overlap_ns is None
    assert both.devices["GPU1"].busy_frac is None


def test_levels_are_means_over_the_stretch_and_missing_where_nothing_was_read():
    found = stretch_figures(sampled([[0.5] * 20] * 2, power_w=300.0, pcie_rx_bytes_per_s=5e8), "w", 0, 10 * S)
    assert found.devices["GPU0"].levels == {Counter.POWER_W: 300.0, Counter.PCIE_RX_BYTES_PER_S: 5e8}
    assert found.devices["GPU1"].levels == {}
