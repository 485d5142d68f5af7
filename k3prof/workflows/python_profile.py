"""Profiles of Python programs beside what they serve: an engine by its pid, or our own load generator."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from k3prof.collectors.python_profile import Recording, record
from k3prof.core.python_profile import PythonProfile
from k3prof.errors import K3profError

_LONGEST_S = 24 * 3600.0


def profile_program(pid: int, seconds: float, path: Path) -> PythonProfile:
    """Record a Python program for some time; see `collectors.python_profile.record`."""
    return record(pid, seconds, path)


@contextmanager
def own_profile(path: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Record this very process while the body runs, as a speedscope file.

    A profile that cannot be had is told, and stops nothing.

    Args:
        path: Where the profile goes.
        tell: Gets one sentence: where the profile lies, or why there is none.
    """
    try:
        recording = Recording(os.getpid(), _LONGEST_S, path)
    except K3profError as error:
        tell(f"no profile of the load generator: {error.message}")
        yield
        return
    with closing(recording):
        try:
            yield
        finally:
            recording.stop()
            try:
                recording.finish()
            except K3profError as error:
                tell(f"no profile of the load generator: {error.message}")
            else:
                tell(f"profile  {path}")
