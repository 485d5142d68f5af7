"""SQLite files laid out as `nsys export --type sqlite` documents it, with activities that the test chooses."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_ACTIVITY = "start end deviceId contextId streamId correlationId globalPid"
COLUMNS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": f"{_ACTIVITY} demangledName shortName mangledName gridX gridY gridZ graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"{_ACTIVITY} bytes copyKind srcKind dstKind srcDeviceId dstDeviceId graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"{_ACTIVITY} value bytes memKind",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"{_ACTIVITY} graphId graphExecId",
    "TARGET_INFO_GPU": "id name busLocation uuid totalMemory smCount",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid uuid numMultiprocessors",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime localTime",
    "META_DATA_EXPORT": "name value",
    "ENUM_CUDA_MEMCPY_OPER": "id name label",
    "StringIds": "id value",
}
KERNELS, COPIES, MEMSETS, GRAPHS = list(COLUMNS)[:4]
SESSION_NS = 1_790_000_000_123_456_789


def write_export(
    path: Path, tables: Mapping[str, Iterable[Mapping[str, object]]], without: Mapping[str, Sequence[str]] | None = None
) -> Path:
    """Write the tables that are given, and no others: they are created as something is seen of their kind.

    Args:
        path: Where to write.
        tables: Rows by table; what a row does not give is 0.
        without: Columns that this version of the export lacks, by table.
    """
    with sqlite3.connect(path) as db:
        for table, rows in tables.items():
            lacking = (without or {}).get(table, ())
            columns = [column for column in COLUMNS[table].split() if column not in lacking]
            quoted = ", ".join(f'"{column}"' for column in columns)
            db.execute(f"CREATE TABLE {table} ({quoted})")
            marks = ", ".join("?" * len(columns))
            db.executemany(
                f"INSERT INTO {table} VALUES ({marks})",
                ([row.get(column, 0) for column in columns] for row in rows),
            )
    db.close()
    return path


def kernel(device: int, start: int, end: int, name: int = 1, **more: object) -> dict[str, object]:
    return {"deviceId": device, "start": start, "end": end, "shortName": name, "globalPid": 1 << 24, **more}


def copy(device: int, start: int, end: int, kind: int, size: int, **more: object) -> dict[str, object]:
    return {"deviceId": device, "start": start, "end": end, "copyKind": kind, "bytes": size, **more}


def about(gpus: int = 2) -> dict[str, list[dict[str, object]]]:
    """Return the tables that describe a session on some A40s."""
    return {
        "StringIds": [{"id": 1, "value": "mul_mat_vec_q"}, {"id": 2, "value": "rms_norm_f32"}],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": SESSION_NS}],
        "META_DATA_EXPORT": [
            {"name": "EXPORT_PRODUCT_VERSION", "value": "2026.1.1.204"},
            {"name": "EXPORT_SCHEMA_VERSION", "value": "3.24.14"},
        ],
        "TARGET_INFO_GPU": [
            {
                "id": number,
                "name": "NVIDIA A40",
                "busLocation": f"0000:{number + 1:02x}:00.0",
                "uuid": f"GPU-{number:08x}",
                "totalMemory": 48_305_799_168,
            }
            for number in range(gpus)
        ],
        "TARGET_INFO_CUDA_DEVICE": [{"gpuId": number, "cudaId": number, "pid": 1} for number in range(gpus)],
    }


def alternation(devices: int, turn_ns: int, turns: int, begin_ns: int = 0) -> list[dict[str, object]]:
    """Return kernels of devices that take turns without a gap: P is 1 and no two overlap."""
    return [
        kernel(turn % devices, begin_ns + turn * turn_ns, begin_ns + (turn + 1) * turn_ns, 1 + turn % 2)
        for turn in range(turns)
    ]
