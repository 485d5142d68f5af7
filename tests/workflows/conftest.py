"""Sweeps that several modules of tests look at, run once."""

from __future__ import annotations

import pytest

from k3prof.core.build import Build
from tests.workflows.test_sweep import Sweeper
from tests.workflows.traced_sweep import run_traced_sweep


@pytest.fixture(scope="session")
def traced(tmp_path_factory: pytest.TempPathFactory, build: Build) -> Sweeper:
    """Three placements on three stand-ins, decode and prefill, each split traced in the exact mode."""
    return run_traced_sweep(tmp_path_factory.mktemp("traced"), build)
