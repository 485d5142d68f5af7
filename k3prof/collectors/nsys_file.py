"""An Nsight Systems SQLite export on disk, opened and asked such that no file can do harm or end in a traceback."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from k3prof.errors import ConfigError

_ROWS_AT_ONCE = 100_000
_IDS_AT_ONCE = 500
_FACTS = 1000
_LONGEST_VALUE_BYTES = 16 * 2**20
_REPORTS = (".nsys-rep", ".qdrep", ".qdstrm")
_TIMES = ("start", "end", "deviceId")
_DATED = " AND ".join(f"typeof(\"{column}\") = 'integer'" for column in _TIMES) + (
    ' AND start >= 0 AND "end" > 0 AND "end" >= start AND deviceId >= 0'
)
"""Activities whose times could not be collected have zeros for both: they count as skipped."""


class NsysFile:
    """An open export. Whatever is wrong with it is a `ConfigError` that names it.

    Tables and columns are named by the caller, never by the file.

    Attributes:
        skipped: Rows without usable times or device, of all tables counted so far.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.skipped = 0
        _check_kind(path)
        try:
            self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
            self._connection.text_factory = lambda text: text.decode(errors="replace")
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE_BYTES)
            self._connection.execute("PRAGMA trusted_schema = OFF")
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        # A view or a virtual table would run someone's program where rows are expected.
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'create virtual%'"
        self._tables = {name for (name,) in self.query(tables)}

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def columns(self, table: str) -> set[str]:
        """Return the names of a table's columns; none when the export has no such table."""
        if table not in self._tables:
            return set()
        return {row[1] for row in self.query(f'PRAGMA table_info("{table}")')}

    def count(self, table: str) -> int:
        """Return how many rows of an activity's table have times and a device; 0 when there is no such table.

        Raises:
            ConfigError: The table lacks one of these columns.
        """
        present = self.columns(table)
        if not present:
            return 0
        if missing := [column for column in _TIMES if column not in present]:
            raise ConfigError(
                f"{self._path}: {table} has no column {', '.join(missing)}",
                "export the report again: `nsys export --type sqlite REPORT.nsys-rep`",
            )
        ((all_rows, dated),) = self.query(f"SELECT count(*), count(CASE WHEN {_DATED} THEN 1 END) FROM {table}")  # noqa: S608
        self.skipped += all_rows - dated
        return int(dated)

    def rows(self, table: str, wanted: Sequence[str]) -> Iterator[NDArray[np.int64]]:
        """Yield what is wanted of an activity's rows that `count` counts, as arrays of shape (rows, wanted)."""
        if table not in self._tables:
            return
        # What is no integer, or not there, is as unknown as a column that this version of the export lacks.
        kept = ", ".join(f"CASE typeof({one}) WHEN 'integer' THEN {one} ELSE -1 END" for one in wanted)
        try:
            cursor = self._connection.execute(f"SELECT {kept} FROM {table} WHERE {_DATED}")  # noqa: S608
            while chunk := cursor.fetchmany(_ROWS_AT_ONCE):
                yield np.array(chunk, np.int64)
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def distinct(self, table: str, column: str) -> set[int]:
        """Return the different integers of a column in rows that `count` counts; none where it is not there."""
        if column not in self.columns(table):
            return set()
        found = self.query(f"SELECT DISTINCT {column} FROM {table} WHERE {_DATED}")  # noqa: S608
        return {value for (value,) in found if isinstance(value, int)}

    def texts(self, ids: Sequence[int], characters: int) -> dict[int, str]:
        """Return what `StringIds` holds for some ids, the beginning of each; ids that it lacks are left out."""
        found: dict[int, str] = {}
        if not {"id", "value"} <= self.columns("StringIds"):
            return found
        for at in range(0, len(ids), _IDS_AT_ONCE):
            some = ids[at : at + _IDS_AT_ONCE]
            marks = ", ".join("?" * len(some))
            query = f"SELECT id, substr(value, 1, {int(characters)}) FROM StringIds WHERE id IN ({marks})"  # noqa: S608
            found |= {number: text for number, text in self.query(query, *some) if isinstance(text, str)}
        return found

    def records(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return a small table's rows; none where it or one of the columns is not there."""
        if not set(columns) <= self.columns(table):
            return []
        return self.query(f"SELECT {', '.join(columns)} FROM {table} LIMIT {_FACTS}")  # noqa: S608

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> ConfigError:
        return ConfigError(
            f"{self._path}: cannot be read as an Nsight Systems export: {error}",
            "export the report again: `nsys export --type sqlite REPORT.nsys-rep`",
        )


def _check_kind(path: Path) -> None:
    try:
        with path.open("rb") as file:
            magic = file.read(16)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise ConfigError("the file's name holds a null character") from None
    if magic != b"SQLite format 3\0":
        if path.suffix.lower() in _REPORTS:
            hint = f"export it first: `nsys export --type sqlite {path.name}`"
        else:
            hint = "give what `nsys export --type sqlite REPORT.nsys-rep` writes"
        raise ConfigError(f"{path}: is no SQLite export of Nsight Systems", hint)
