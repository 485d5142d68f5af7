"""The ring between the split tracer in llama-server and us: a mapped file of fixed-size records.

The tracer appends, we read; neither waits for the other. What was written stays in the file when the server dies.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from k3prof.core.device import HOST
from k3prof.core.spans import SpanKind, Spans, SplitMode, concatenate
from k3prof.errors import MachineError

CAPACITY = 1 << 16
"""Records that fit: seconds of the busiest server, read four times a second, in 12 MiB."""

_MAX_DEVICES = 64
_NAME_BYTES = 64
_NAME = f"S{_NAME_BYTES}"
_MODES = {SplitMode.OFF: 0, SplitMode.LIGHT: 1, SplitMode.EXACT: 2}

# `struct ring` and `struct record` of splits.c.
_HEADER = np.dtype(
    {
        "names": [
            *("capacity", "record_bytes", "mode", "writer", "n_devices", "missing"),
            *("head", "tail", "lost", "devices"),
        ],
        "formats": ["u8", "u8", "u4", "u4", "u4", _NAME, "u8", "u8", "u8", (_NAME, _MAX_DEVICES)],
        "offsets": [0, 8, 16, 20, 24, 28, 128, 192, 256, 320],
        "itemsize": 320 + _MAX_DEVICES * _NAME_BYTES,
    }
)
_RECORD = np.dtype(
    [
        ("sequence", "u8"),
        ("begin_ns", "i8"),
        ("end_ns", "i8"),
        ("submitting_ns", "i8"),
        ("bytes", "i8"),
        ("nodes", "i4"),
        ("first_layer", "i4"),
        ("last_layer", "i4"),
        ("device", "i2"),
        ("source", "i2"),
        ("kind", "u1"),
        ("finished", "u1"),
        ("first_node", _NAME),
        ("last_node", _NAME),
    ],
    align=True,
)
# Builds of 2025 call each remote device after its server, `RPC[host:port]`, newer ones call only its buffers so.
_REMOTE = re.compile(r"RPC\d*\[(?P<endpoint>.+)\]")


class SplitRing:
    """The reader's side of a ring.

    Args:
        path: The file to make; its folder exists.
        endpoints: `host:port` of each stand-in, in the order of the devices `RPC0`, `RPC1`, …
        capacity: Records that fit.

    Raises:
        MachineError: There is no space for it.
    """

    def __init__(self, path: Path, endpoints: Sequence[str] = (), capacity: int = CAPACITY) -> None:
        self.path = path
        self._half_written = 0
        self._device_at = {endpoint: f"RPC{index}" for index, endpoint in enumerate(endpoints)}
        size = _HEADER.itemsize + capacity * _RECORD.itemsize
        try:
            with path.open("w+b") as file:
                # Space that is promised now cannot be missing later, when the server would die of it.
                os.posix_fallocate(file.fileno(), 0, size)
                memory = mmap.mmap(file.fileno(), size)
        except OSError as error:
            raise MachineError(
                f"{path}: no {size / 2**20:.0f} MiB for the split tracer's records: {error.strerror}",
                "set TMPDIR to a folder with more space",
            ) from error
        self._header = np.frombuffer(memory, _HEADER, 1)
        self._records = np.frombuffer(memory, _RECORD, offset=_HEADER.itemsize)
        self._header["capacity"], self._header["record_bytes"] = capacity, _RECORD.itemsize

    def watch(self, mode: SplitMode) -> None:
        """Say how closely the scheduler is watched from now on; at first it is not."""
        self._header["mode"] = _MODES[mode]

    @property
    def writer(self) -> int | None:
        """Process id of the server that the tracer is in; None when it is in none."""
        return int(self._header["writer"][0]) or None

    @property
    def missing(self) -> str:
        """The function that this llama.cpp lacks, so that nothing can be traced; empty when it lacks none."""
        return _text(self._header["missing"][0])

    @property
    def lost(self) -> int:
        """Records that found no room, or that a dying server left half written."""
        return int(self._header["lost"][0]) + self._half_written

    @property
    def taken(self) -> int:
        """Records that were taken out."""
        return int(self._header["tail"][0]) - self._half_written

    def drain(self, *, final: bool = False) -> Spans:
        """Take out what has been written.

        Args:
            final: The server is gone: a record that it was writing will never be whole, and is passed over.
        """
        tail, head = int(self._header["tail"][0]), int(self._header["head"][0])
        numbers = np.arange(tail, head, dtype=np.uint64)
        places = numbers % np.uint64(self._records.size)
        whole = self._records["sequence"][places] == numbers + np.uint64(1)
        if not final and not whole.all():
            numbers, places = numbers[: np.argmin(whole)], places[: np.argmin(whole)]
            whole = whole[: numbers.size]
        self._half_written += int((~whole).sum())
        # Copied only now: a record that was whole when its number was read stays so, until the tail moves past it.
        records = self._records[places[whole]]
        self._header["tail"] = tail + numbers.size
        return _spans(records, self._devices())

    def _devices(self) -> tuple[str, ...]:
        """Return the devices as llama-server lists them."""
        names = map(_text, self._header["devices"][0][: self._header["n_devices"][0]])
        remote = [(name, _REMOTE.fullmatch(name)) for name in names]
        return tuple(self._device_at.get(match["endpoint"], name) if match else name for name, match in remote)


def _text(raw: bytes) -> str:
    return bytes(raw).decode(errors="replace")


def _spans(records: NDArray[np.void], devices: tuple[str, ...]) -> Spans:
    """Return what records say.

    The host's own part of each split becomes a span of its own. A remote device (`RPC…`) gets its work only after
    that: the caller first writes the whole graph into one message. A GPU works while it is handed one kernel after the
    other. The host itself has computed by the time that the call returns.
    """
    names, places = np.unique(np.stack([records["first_node"], records["last_node"]]), return_inverse=True)
    first_node, last_node = places.reshape(2, -1).astype(np.int32)
    on = np.array([*devices, ""])[records["device"]]
    split = records["kind"] == SpanKind.COMPUTE
    on_host, remote = split & (on == HOST.name), split & np.strings.startswith(on, "RPC")
    finished = records["finished"].astype(np.bool_) | on_host
    submitted_ns = records["begin_ns"] + records["submitting_ns"]
    seen = Spans(
        kind=records["kind"],
        device=records["device"],
        source=records["source"],
        begin_ns=np.where(remote & finished, submitted_ns, records["begin_ns"]),
        end_ns=records["end_ns"],
        finished=finished,
        nodes=records["nodes"],
        bytes=records["bytes"],
        first_layer=records["first_layer"],
        last_layer=records["last_layer"],
        first_node=first_node,
        last_node=last_node,
        devices=devices,
        names=tuple(map(_text, names)),
    )
    handed = split & finished & ~on_host
    submitting = seen.replace(
        kind=np.full_like(seen.kind, SpanKind.SUBMIT), begin_ns=records["begin_ns"], end_ns=submitted_ns
    )
    return concatenate([seen, submitting.where(handed)])
