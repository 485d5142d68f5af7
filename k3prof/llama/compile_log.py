"""What CMake, ninja and the compilers say while they build: how far they are, and why they stopped."""

from __future__ import annotations

import re
from collections.abc import Sequence

NINJA_STATUS = "[%f/%t] "

_STEP = re.compile(r"\[(?P<done>\d+)/(?P<total>\d+)\] (?P<what>.*)")
_FAILED_STEP = re.compile(r"FAILED: .*")
_END_OF_STEP = re.compile(r"\[\d+/\d+\] .*|FAILED: .*|ninja: .*")
_CMAKE_ERROR = re.compile(r"CMake Error.*")
_END_OF_CMAKE_ERROR = re.compile(r"-- .*|CMake (?:Warning|Error|Generate).*|Call Stack.*|See also .*")
_COMPLAINT = re.compile(r".*(?:\berror\b.*:|undefined reference|No space left|\bKilled\b|ERROR:).*", re.IGNORECASE)

_MOST_LINES = 10


def step(line: str) -> tuple[int, int, str] | None:
    """Read one of ninja's status lines: steps finished, steps in all, and what the latest one was."""
    match = _STEP.fullmatch(line)
    return (int(match["done"]), int(match["total"]), match["what"]) if match else None


def last_error(lines: Sequence[str]) -> list[str]:
    """Return the few lines of a failed build's output that say what was wrong; empty only where all are blank.

    They are the complaint of the first step that failed, or of CMake, or else the end of the output.
    """
    all_said = [line.rstrip() for line in lines if line.strip()]
    said = _failed_step(all_said) or _cmake_error(all_said) or all_said
    start = next((index for index, line in enumerate(said) if _COMPLAINT.fullmatch(line)), None)
    return said[-_MOST_LINES:] if start is None else said[start : start + _MOST_LINES]


def _failed_step(lines: Sequence[str]) -> list[str]:
    for index, line in enumerate(lines):
        if _FAILED_STEP.fullmatch(line):
            # The line after it is the whole command, which says nothing.
            return _until(_END_OF_STEP, lines[index + 2 :])
    return []


def _cmake_error(lines: Sequence[str]) -> list[str]:
    for index, line in enumerate(lines):
        if _CMAKE_ERROR.fullmatch(line):
            return [line, *_until(_END_OF_CMAKE_ERROR, lines[index + 1 :])]
    return []


def _until(end: re.Pattern[str], lines: Sequence[str]) -> list[str]:
    stop = next((index for index, line in enumerate(lines) if end.fullmatch(line)), len(lines))
    return list(lines[:stop])
