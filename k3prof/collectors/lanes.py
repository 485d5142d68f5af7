"""Lanes: threads that each read one source and keep what they read until it is taken.

Reading mostly waits in the kernel, where Python's threads do not hinder each other. A lane that does not come back
from a driver takes nothing with it.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from k3prof.collectors.source import RecordSource, Source
from k3prof.core.timeline import Series


class Lane(threading.Thread):
    """One source, read until it is told to end. A source that breaks its promise not to raise ends its own lane only.

    Args:
        devices: Whose source it is, for people.
    """

    def __init__(self, devices: Iterable[str]) -> None:
        super().__init__(daemon=True)
        self.devices = tuple(sorted(set(devices)))
        self._failure: str | None = None

    def run(self) -> None:
        """Read."""
        try:
            self._read_at_deadlines()
        except Exception as error:
            self._failure = (
                f"reading {', '.join(self.devices) or 'several devices'} ended: {type(error).__name__}: {error}"
            )

    def take_failure(self) -> str | None:
        """Return why reading ended, once."""
        failure, self._failure = self._failure, None
        return failure

    @abstractmethod
    def end(self) -> None:
        """Let it end at its next deadline."""

    @abstractmethod
    def _read_at_deadlines(self) -> None: ...


class PollingLane(Lane):
    """Counters of the moment, each reading dated by when it was taken."""

    def __init__(self, source: Source) -> None:
        super().__init__(channel.device for channel in source.channels)
        self.source = source
        self._reading = True
        self._rows: deque[tuple[int, int, Sequence[float | None]]] = deque()

    def end(self) -> None:
        """Let it end at its next deadline."""
        self._reading = False

    def _read_at_deadlines(self) -> None:
        schedule, read, keep = self.source.schedule, self.source.read, self._rows.append
        deadline_ns = schedule.next_after(time.monotonic_ns())
        while self._reading:
            time.sleep(max(deadline_ns - time.monotonic_ns(), 0) / 1e9)
            values = read()
            now_ns = time.monotonic_ns()
            keep((now_ns, now_ns - deadline_ns, values))
            deadline_ns = schedule.next_after(max(now_ns, deadline_ns))

    def take(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Take what was read since the last call.

        Returns:
            Monotonic times, shape (rows,); lateness in ns, shape (rows,); readings, shape (rows, channels), NaN for
            those that failed.
        """
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        return (
            np.array([time_ns for time_ns, _, _ in rows], np.int64),
            np.array([late_ns for _, late_ns, _ in rows], np.float64),
            np.array([values for _, _, values in rows], np.float64).reshape(len(rows), len(self.source.channels)),
        )


class DrainingLane(Lane):
    """A record, which is drained once more when the lane is told to end."""

    def __init__(self, source: RecordSource) -> None:
        super().__init__([source.device])
        self._source = source
        self._ending = threading.Event()
        self._drained: deque[Series] = deque()

    def end(self) -> None:
        """Let it drain the rest and end."""
        self._ending.set()

    def _read_at_deadlines(self) -> None:
        deadline_ns = self._source.schedule.next_after(time.monotonic_ns())
        while not self._ending.wait(max(deadline_ns - time.monotonic_ns(), 0) / 1e9):
            self._drained.extend(self._source.drain())
            deadline_ns = self._source.schedule.next_after(max(time.monotonic_ns(), deadline_ns))
        self._drained.extend(self._source.finish())

    def take(self) -> list[Series]:
        """Take what was drained since the last call, NaN for readings that failed."""
        return [self._drained.popleft() for _ in range(len(self._drained))]
