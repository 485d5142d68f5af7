"""Reads what Nsight Systems recorded: every kernel, copy, memset and CUDA graph of each GPU, to the nanosecond.

`nsys export --type sqlite` writes one table per kind of activity, those alone that it saw something of, with columns
that differ from version to version:
https://docs.nvidia.com/nsight-systems/2021.5/nsys-exporter/exported_data.html.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from k3prof.collectors.nsys_file import NsysFile
from k3prof.core.device import HOST, Device, DeviceKind
from k3prof.core.imported import ImportedRun, RecordedClock, busy_time
from k3prof.core.spans import COLUMNS, UNKNOWN, SpanKind, Spans
from k3prof.core.trial import Caveat
from k3prof.errors import ConfigError

_KERNELS, _COPIES = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"
_MEMSETS, _GRAPHS = "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_TABLES = {"kernels": _KERNELS, "copies": _COPIES, "memsets": _MEMSETS, "whole graphs": _GRAPHS}

_MOST_ROWS = 10_000_000
"""Some 120 bytes of memory each while they are read."""
_MOST_DEVICES = 256
_NAME_CHARACTERS = 200
_NS_PER_US = 1000
_LATEST_UNIX_NS = 2**62

_TO_DEVICE, _TO_HOST, _ON_DEVICE, _BETWEEN_DEVICES = (1, 3, 11), (2, 4, 12), (5, 6, 7, 8), (10, 13)
_COPY_NAMES = {1: "host to device", 2: "device to host", 8: "device to device", 10: "peer to peer"}
"""`CUpti_ActivityMemcpyKind`, with arrays (3 to 7) and, from 11 on, Nsight's own kinds for unified memory."""

_DEFAULTS = {
    "kind": SpanKind.COMPUTE,
    "source": UNKNOWN,
    "finished": True,
    "nodes": 1,
    "bytes": UNKNOWN,
    "first_layer": UNKNOWN,
    "last_layer": UNKNOWN,
    "last_node": UNKNOWN,
}


def read_nsys(path: Path) -> ImportedRun:
    """Read an Nsight Systems SQLite export.

    Kernels, memsets and whole graphs become spans of computing, copies spans of copying. A device is busy while
    something computes there, which is what the driver's utilisation counter means by it as well. Devices are called
    `GPU0`, … by the number in the export, which need not be llama.cpp's.

    Raises:
        ConfigError: The file cannot be read, is no such export, or holds nothing that ran on a GPU, or too much.
    """
    with closing(NsysFile(path)) as file:
        counts = {name: file.count(table) for name, table in _TABLES.items()}
        _check_size(path, sum(counts.values()))
        numbers = sorted(set().union(*(file.distinct(table, "deviceId") for table in _TABLES.values())))
        if len(numbers) > _MOST_DEVICES:
            raise ConfigError(f"{path}: its {len(numbers):,} device numbers cannot be GPUs", "export the report again")
        spans = _Activities(file, np.array(numbers, np.int64)).read(sum(counts.values()))
        devices = tuple(_devices(file, numbers))
        processes = len(file.distinct(_KERNELS, "globalPid") | file.distinct(_GRAPHS, "globalPid"))
        clock, source, skipped = _clock(file), _source(file), file.skipped
    begin_ns, end_ns = int(spans.begin_ns[0]), int(spans.end_ns.max())
    return ImportedRun(
        kind="nsys",
        source=source,
        devices=devices,
        series=busy_time(spans, devices, begin_ns, end_ns),
        spans=spans,
        begin_ns=begin_ns,
        end_ns=end_ns,
        clock=clock,
        caveats=tuple(_caveats(counts, skipped, processes)),
        counts={**counts, "rows without times": skipped},
    )


def _check_size(path: Path, rows: int) -> None:
    if not rows:
        raise ConfigError(
            f"{path}: nothing in it ran on a GPU: no rows in {', '.join(_TABLES.values())}",
            "record with `nsys profile --trace=cuda`, while the server answers a request",
        )
    if rows > _MOST_ROWS:
        raise ConfigError(
            f"{path}: {rows:,} kernels and copies are more than {_MOST_ROWS:,}",
            "record a shorter stretch: `nsys profile --delay SECONDS --duration SECONDS`",
        )


class _Activities:
    """Reads the tables of activities into the columns of spans, a chunk at a time.

    Args:
        file: The export.
        numbers: Its devices, ascending; the host comes after them.
    """

    def __init__(self, file: NsysFile, numbers: NDArray[np.int64]) -> None:
        self._file, self._numbers, self._host = file, numbers, len(numbers)
        self._places: dict[int | str, int] = {}
        self._copy_names = dict(file.records("ENUM_CUDA_MEMCPY_OPER", "id", "label")) or _COPY_NAMES

    def read(self, total: int) -> Spans:
        """Return all rows, `total` in number, in order of their begin."""
        columns: dict[str, NDArray[Any]] = {
            name: np.full(total, _DEFAULTS.get(name, 0), kind) for name, kind in COLUMNS.items()
        }
        at = 0
        for rows, more in self._chunks():
            part = slice(at, at + len(rows))
            columns["begin_ns"][part], columns["end_ns"][part] = rows[:, 0], rows[:, 1]
            columns["device"][part] = self._device(rows[:, 2])
            for name, values in more.items():
                columns[name][part] = values
            at += len(rows)
        order = np.argsort(columns["begin_ns"], kind="stable")
        for name in columns:
            columns[name] = columns[name][order]
        devices = (*(f"GPU{number}" for number in self._numbers), HOST.name)
        return Spans(**columns, devices=devices, names=self._names())

    def _chunks(self) -> Iterator[tuple[NDArray[np.int64], Mapping[str, object]]]:
        """Yield rows, whose first columns are begin, end and device, and the spans' other columns made from them."""
        common = ["start", '"end"', "deviceId"]
        name = self._either(_KERNELS, "shortName", "demangledName", "mangledName")
        for rows in self._file.rows(_KERNELS, [*common, name]):
            yield rows, {"first_node": self._named(rows[:, 3], lambda number: number)}
        ends = [self._either(_COPIES, one) for one in ("copyKind", "bytes", "srcDeviceId", "dstDeviceId")]
        for rows in self._file.rows(_COPIES, [*common, *ends]):
            yield rows, self._copies(rows)
        for table, text in ((_MEMSETS, "memset"), (_GRAPHS, "CUDA graph")):
            for rows in self._file.rows(table, common):
                yield rows, {"first_node": self._place(text)}

    def _either(self, table: str, *columns: str) -> str:
        """Return the first column that this version of the export has, or what stands for unknown."""
        present = self._file.columns(table)
        return next((one for one in columns if one in present), "-1")

    def _copies(self, rows: NDArray[np.int64]) -> Mapping[str, object]:
        own, kind, size, source, destination = self._device(rows[:, 2]), *rows[:, 3:].T
        host, unknown = np.full(len(rows), self._host), np.full(len(rows), UNKNOWN)
        chosen = [np.isin(kind, one) for one in (_TO_DEVICE, _TO_HOST, _ON_DEVICE, _BETWEEN_DEVICES)]
        return {
            "kind": SpanKind.COPY,
            "nodes": 0,
            "bytes": np.maximum(size, UNKNOWN),
            "device": np.select(chosen, [own, host, own, self._device(destination)], own),
            "source": np.select(chosen, [host, own, own, self._device(source)], unknown),
            "first_node": self._named(kind, lambda number: str(self._copy_names.get(number, f"copy of kind {number}"))),
        }

    def _device(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        places = np.minimum(np.searchsorted(self._numbers, numbers), self._host - 1)
        return np.where(self._numbers[places] == numbers, places, UNKNOWN)

    def _named(self, numbers: NDArray[np.int64], name: Callable[[int], int | str]) -> NDArray[np.int64]:
        """Return the place of the name of each number: a text, or what `StringIds` is to be asked for."""
        different, which = np.unique(numbers, return_inverse=True)
        return np.array([self._place(name(number)) for number in different.tolist()], np.int64)[which]

    def _place(self, name: int | str) -> int:
        return self._places.setdefault(name, len(self._places))

    def _names(self) -> tuple[str, ...]:
        texts = self._file.texts([name for name in self._places if isinstance(name, int)], _NAME_CHARACTERS)
        return tuple(texts.get(name, "unnamed kernel") if isinstance(name, int) else name for name in self._places)


def _devices(file: NsysFile, numbers: Sequence[int]) -> Iterator[Device]:
    """Yield the devices, with what the export says of the machine's GPUs where it is certain which is which.

    NVIDIA's own reports look `deviceId` up in `TARGET_INFO_GPU`; where the process saw the GPUs in another order than
    the machine has them (CUDA_VISIBLE_DEVICES), that would name the wrong ones.
    """
    same_order = all(gpu == cuda for gpu, cuda in file.records("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId"))
    names = dict(file.records("TARGET_INFO_GPU", "id", "name"))
    memory = dict(file.records("TARGET_INFO_GPU", "id", "totalMemory"))
    uuids = dict(file.records("TARGET_INFO_GPU", "id", "uuid"))
    buses = dict(file.records("TARGET_INFO_GPU", "id", "busLocation"))
    if not same_order:
        names = dict.fromkeys(numbers, names.popitem()[1]) if len(set(names.values())) == 1 else {}
        memory, uuids, buses = {}, {}, {}
    for number in numbers:
        total, uuid, bus = memory.get(number), uuids.get(number), buses.get(number)
        yield Device(
            name=f"GPU{number}",
            kind=DeviceKind.CUDA,
            description=str(names.get(number, "")),
            memory_bytes=total if isinstance(total, int) and total > 0 else None,
            uuid=uuid if isinstance(uuid, str) and uuid else None,
            pci_bus_id=bus if isinstance(bus, str) and bus else None,
        )


def _clock(file: NsysFile) -> RecordedClock:
    for (unix_ns,) in file.records("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
        if isinstance(unix_ns, int) and 0 < unix_ns < _LATEST_UNIX_NS:
            begin = datetime(1970, 1, 1) + timedelta(microseconds=unix_ns // _NS_PER_US)
            return RecordedClock(begin, has_date=True, unix_ns=unix_ns)
    return RecordedClock()


def _source(file: NsysFile) -> str:
    facts = dict(file.records("META_DATA_EXPORT", "name", "value"))
    version, schema = facts.get("EXPORT_PRODUCT_VERSION"), facts.get("EXPORT_SCHEMA_VERSION")
    return f"Nsight Systems {version or ''}".rstrip() + (f" (export schema {schema})" if schema else "")


def _caveats(counts: Mapping[str, int], skipped: int, processes: int) -> Iterator[Caveat]:
    if graphs := counts["whole graphs"]:
        single = f"{counts['kernels']:,}" if counts["kernels"] else "none"
        yield Caveat(
            "whole-graphs",
            f"{graphs:,} CUDA graphs were recorded as a whole, and of single kernels {single}: each graph counts as "
            "busy from its begin to its end, gaps included, on the device of its first kernel",
            "record with `nsys profile --cuda-graph-trace=node`, or start the server with GGML_CUDA_DISABLE_GRAPHS=1",
        )
    elif not counts["kernels"]:
        yield Caveat("no-kernels", "copies and memsets alone were recorded, no kernel", "record with --trace=cuda")
    if skipped:
        yield Caveat(
            "rows-skipped",
            f"{skipped:,} activities have no times or no device and are left out",
            "their work is missing from every figure; record again with a newer Nsight Systems",
        )
    if processes > 1:
        yield Caveat(
            "several-processes",
            f"{processes} processes computed, and each may number the GPUs its own way",
            "record the server's process alone",
        )
