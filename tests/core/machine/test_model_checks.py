from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.machine.diagnosis import Level
from k3prof.core.machine.model_checks import FreeMemory, check_model

GB = 10**9
FIVE_A40S = [(f"CUDA{index}", 47 * GB) for index in range(5)]


@pytest.mark.parametrize(
    ("model", "host", "gpus", "level", "said"),
    [
        # Stand-ins hold their layers in memory.
        (1, 60, [], Level.OK, "1.0 GB of weights, 60.0 GB of memory free"),
        (58, 60, [], Level.WARNING, "little is left for caches"),
        (594, 60, [], Level.PROBLEM, "stand-ins hold their layers in memory"),
        # A 200 GB model on five A40s with 48 GB each.
        (200, 500, FIVE_A40S, Level.OK, "40.0 GB on each GPU; the fullest has 47.0 GB free"),
        (594, 500, FIVE_A40S, Level.NOTE, "at least 359.0 GB stay on the host"),
        (594, 300, FIVE_A40S, Level.WARNING, "comes from disk, again and again"),
        # A 35B that one GPU holds ran three times as fast there as on six.
        (35, 500, FIVE_A40S, Level.NOTE, "may fit on one GPU"),
        (35, 500, FIVE_A40S[:1], Level.OK, "35.0 GB on each GPU"),
        # One GPU is partly taken by somebody else.
        (200, 500, [*FIVE_A40S[:4], ("CUDA4", 20 * GB)], Level.NOTE, "40.0 GB on each GPU; CUDA4 has 20.0 GB free"),
        # Unknown stays unknown.
        (200, None, [], Level.NOTE, "is unknown: the kernel"),
        (594, None, FIVE_A40S, Level.NOTE, "is unknown: the kernel"),
        (200, 500, [*FIVE_A40S[:4], ("CUDA4", None)], Level.NOTE, "is unknown: a GPU"),
    ],
)
def test_weights_are_held_against_what_is_free_on_each_device(model, host, gpus, level, said):
    finding = check_model(model * GB, FreeMemory(None if host is None else host * GB, gpus))
    assert finding.level is level
    assert said in finding.message
    assert bool(finding.remedy) is (level is not Level.OK)


def test_the_gpu_to_try_alone_is_the_one_with_most_memory_free():
    finding = check_model(20 * GB, FreeMemory(60 * GB, [("CUDA0", 10 * GB), ("CUDA1", 47 * GB)]))
    assert 'device = "CUDA1"' in finding.remedy


@given(
    st.integers(0, 10**13),
    st.none() | st.integers(0, 10**13),
    st.lists(st.none() | st.integers(0, 10**12), max_size=8),
)
def test_nothing_is_called_fine_that_does_not_fit_by_its_sum(model_bytes, host_bytes, gpu_bytes):
    gpus = [(f"CUDA{index}", n_bytes) for index, n_bytes in enumerate(gpu_bytes)]
    finding = check_model(model_bytes, FreeMemory(host_bytes, gpus))
    if finding.level is Level.OK:
        room = sum(n_bytes for n_bytes in gpu_bytes if n_bytes is not None) if gpus else host_bytes
        assert model_bytes <= room
