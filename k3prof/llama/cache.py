"""Where builds and models are kept between runs, and how several k3prof share it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from k3prof.errors import MachineError

_ELSEWHERE = "set XDG_CACHE_HOME to a folder that you may write to"


def cache_dir() -> Path:
    """Return k3prof's folder in the XDG cache; it need not exist.

    Raises:
        MachineError: There is neither an absolute XDG_CACHE_HOME nor a home folder.
    """
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification: relative paths are to be ignored.
    if chosen.is_absolute():
        return chosen / "k3prof"
    try:
        return Path.home() / ".cache" / "k3prof"
    except RuntimeError as error:
        raise MachineError("this user has no home folder to keep builds in", _ELSEWHERE) from error


def make_folder(folder: Path) -> Path:
    """Make a folder and those above it, and return it.

    Raises:
        MachineError: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"{folder}: cannot be made: {error.strerror}", _ELSEWHERE) from error
    return folder


@contextlib.contextmanager
def locked(folder: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold a folder for this process alone; the kernel lets go of it when the process ends, however it ends.

    Args:
        folder: What to hold; it is made if need be.
        on_wait: Called once when another process holds it.

    Raises:
        MachineError: The folder cannot be made or written to.
    """
    path = make_folder(folder) / "lock"
    try:
        file = path.open("w")
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror}", _ELSEWHERE) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_whole(path: Path, text: str) -> None:
    """Write a file such that readers find the old text or the new one, never a part.

    Raises:
        MachineError: It cannot be written.
    """
    draft = make_folder(path.parent) / f".{path.name}.{os.getpid()}"
    try:
        draft.write_text(text)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise MachineError(f"{path}: {error.strerror}", _ELSEWHERE) from error


def check_space(folder: Path, needed_bytes: int, what: str) -> None:
    """Make sure that there is space before work starts that would fail without it.

    Args:
        folder: Where it is needed; it is made if need be.
        needed_bytes: How much.
        what: What for, in the message.

    Raises:
        MachineError: There is less.
    """
    free_bytes = shutil.disk_usage(make_folder(folder)).free
    if free_bytes < needed_bytes:
        raise MachineError(
            f"{folder}: {what} takes about {needed_bytes / 2**20:.0f} MiB, {free_bytes / 2**20:.0f} MiB are free",
            "make space there, or set XDG_CACHE_HOME to a folder on another disk",
        )
