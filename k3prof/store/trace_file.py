"""One SQLite file on disk: opened, locked, checked to be a trace, read, written and brought up to this version."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from k3prof.errors import TraceError
from k3prof.store.schema import APPLICATION_ID, SCHEMA_VERSION, TABLES, UPGRADES

_BUSY_TIMEOUT_S = 30.0


class TraceFile:
    """An open trace file. Methods may be called from several threads."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock_fd: int | None) -> None:
        self.path = path
        self._connection = connection
        self._lock_fd = lock_fd
        self._lock = threading.Lock()

    @classmethod
    def writable(cls, path: Path) -> TraceFile:
        """Open a file to add to it, making it if it is not there, and keep other writers out.

        A trace of an older version becomes one of this version.

        Raises:
            TraceError: It cannot be written, is no trace, is of a newer version, or another process is writing to it.
        """
        _check_kind(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock_fd = _lock(path)
        except BlockingIOError as error:
            raise TraceError(
                f"{path}: another sweep is writing to it", "wait for it, or write elsewhere with --trace"
            ) from error
        except OSError as error:
            raise TraceError(f"{path}: cannot be written: {error.strerror}", "--trace names another file") from error
        try:
            # Looked at read-only first, since opening to write already changes a file.
            cls.readable(path).close()
            file = cls(path, _connect(path, "rw"), lock_fd)
        except BaseException:
            os.close(lock_fd)
            raise
        with file.closing_on_error():
            file._upgrade()
        return file

    @classmethod
    def readable(cls, path: Path) -> TraceFile:
        """Open a finished or growing trace to read it.

        Raises:
            TraceError: It is not there, is no trace, or is of a newer version.
        """
        if not path.exists():
            raise TraceError(f"{path}: no such trace", "`k3prof sweep` makes one")
        if path.is_file() and path.stat().st_size == 0:
            raise TraceError(f"{path}: is empty", "`k3prof sweep` writes traces")
        _check_kind(path)
        file = cls(path, _connect(path, "ro"), None)
        with file.closing_on_error():
            file._check_version()
        return file

    def close(self) -> None:
        """Close the file and let others write to it."""
        if self._lock_fd is not None:
            # Back to one plain file, which opens on read-only media too; a reader that is at it keeps it in WAL.
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    @contextlib.contextmanager
    def closing_on_error(self) -> Iterator[None]:
        """Close the file when the body raises."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: committed when the body ends, undone when it raises."""
        try:
            with self._lock, self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
        except sqlite3.Error as error:
            raise TraceError(
                f"{self.path}: cannot be written: {error}", "what was stored before is kept: free some space and resume"
            ) from error

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        try:
            with self._lock:
                return self._connection.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise TraceError(f"{self.path}: cannot be read: {error}") from error

    def rows_since(self, version: int, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return all rows of a query about tables that traces have since a version; none from an older trace."""
        return self.rows(query, *parameters) if self._version() >= version else []

    def _version(self) -> int:
        ((version,),) = self.rows("PRAGMA user_version")
        return int(version)

    def _check_version(self) -> None:
        ((application_id,),) = self.rows("PRAGMA application_id")
        version = self._version()
        if application_id != APPLICATION_ID:
            raise TraceError(
                f"{self.path}: is no k3prof trace", "traces are the .sqlite files that `k3prof sweep` writes"
            )
        if not 1 <= version <= SCHEMA_VERSION:
            raise TraceError(
                f"{self.path}: is a trace of version {version}; this k3prof reads versions 1 to {SCHEMA_VERSION}",
                "use the k3prof that made it, or measure again",
            )

    def _upgrade(self) -> None:
        """Make a trace of an older version one of this version, wholly or not at all."""
        missing = UPGRADES[self._version() - 1 :]
        if not missing:
            return
        script = f"BEGIN IMMEDIATE; {''.join(missing)} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
        try:
            with self._lock, self._connection:
                self._connection.executescript(script)
        except sqlite3.Error as error:
            raise TraceError(
                f"{self.path}: cannot be brought to version {SCHEMA_VERSION}: {error}", "it is left as it was"
            ) from error


def _lock(path: Path) -> int:
    """Return a descriptor that holds the lock on a trace, which is made whole first if it is not there or empty."""
    while True:
        lock_fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A lock on a file that another one has replaced is worth nothing; nor may its holder replace that one.
            if _lies_at(path, lock_fd):
                if os.fstat(lock_fd).st_size:
                    return lock_fd
                _create(path)
        except BaseException:
            os.close(lock_fd)
            raise
        os.close(lock_fd)


def _lies_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _create(path: Path) -> None:
    """Put an empty trace in place in one step: a process that is killed meanwhile leaves none or all of it."""
    database = sqlite3.connect(":memory:")
    database.executescript(TABLES)
    database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    content = database.serialize()
    database.close()
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        if mode != "ro":
            connection.execute("PRAGMA journal_mode = WAL")
            # WAL with NORMAL keeps every commit through a killed process; only a power cut may lose the last ones.
            connection.execute("PRAGMA synchronous = NORMAL")
    except sqlite3.Error as error:
        raise TraceError(f"{path}: cannot be opened: {error}") from error
    return connection


def _check_kind(path: Path) -> None:
    """Refuse what is there but no SQLite file, before SQLite or the lock touches it."""
    try:
        with path.open("rb") as file:
            magic = file.read(16)
    except FileNotFoundError:
        return
    except OSError as error:
        raise TraceError(f"{path}: cannot be opened: {error.strerror}", "--trace names another file") from error
    if magic and magic != b"SQLite format 3\0":
        raise TraceError(f"{path}: is no k3prof trace", "traces are the .sqlite files that `k3prof sweep` writes")


def as_blob(array: NDArray[np.generic], dtype: str) -> bytes:
    """Return an array as the bytes that a column of a trace holds."""
    return np.ascontiguousarray(array, dtype).tobytes()
