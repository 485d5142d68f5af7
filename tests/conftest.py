"""What many tests share: the real build, and a terminal of known width."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from k3prof.core.build import Build
from k3prof.llama.build import find_build


@pytest.fixture(scope="session")
def build() -> Build:
    """The llama.cpp build that `make test` made; K3PROF_TEST_BUILD names or locates another."""
    return find_build(os.environ.get("K3PROF_TEST_BUILD", "default"))


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def repository() -> Path:
    """The folder that holds pyproject.toml."""
    return Path(__file__).resolve().parent.parent
