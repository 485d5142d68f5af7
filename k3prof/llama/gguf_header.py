"""Reads the header of one GGUF file from its first bytes, skipping what placement does not need.

Format: docs/gguf.md in the ggml repository; what is refused follows `gguf_init_from_reader` in llama.cpp's
ggml/src/gguf.cpp. A vocabulary of 163,840 tokens is stepped over, never decoded.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

from k3prof.core.weights.geometry import MetadataValue, Skipped
from k3prof.core.weights.ggml import TYPES_BY_ID, type_name

MAX_KEYS = 4096
MAX_TENSORS = 65_536
KEPT_ELEMENTS = 1024
"""Longer arrays are vocabularies; arrays with one value per layer are shorter."""
KEPT_TEXT_BYTES = 4096
_KEPT_ELEMENTS_IN_ALL = 262_144

_DEFAULT_ALIGNMENT = 32
_ENDS_WITHIN = "the file ends within its header"
_INT64_MAX = 2**63 - 1
_MAX_NAME_BYTES = 2**16 - 1
_UINT32, _STRING, _ARRAY = 4, 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_SIZES = {kind: struct.calcsize("<" + code) for kind, code in _SCALARS.items()}
_LENGTH = struct.Struct("<Q")
_TENSOR_TAILS = [struct.Struct(f"<{n_dims}QIQ") for n_dims in range(5)]


class HeaderError(ValueError):
    """The header is none, or contradicts itself. The message does not name the file."""


class HeaderIncompleteError(HeaderError):
    """The header goes on after the bytes at hand."""


@dataclass(frozen=True)
class TensorRow:
    """One tensor as the header lists it.

    Attributes:
        name: Full name.
        shape: Elements per dimension, ggml's order.
        type_name: Number format.
        n_bytes: Size of its data; up to the next tensor for a format that is not known.
        offset: Where its data begins, in bytes from the start of the file.
    """

    name: str
    shape: tuple[int, ...]
    type_name: str
    n_bytes: int
    offset: int


@dataclass(frozen=True)
class Header:
    """What one file says of itself."""

    metadata: dict[str, MetadataValue]
    tensors: tuple[TensorRow, ...]


def parse_header(head: bytes | bytearray, file_bytes: int) -> Header:
    """Read the header of a GGUF file of version 2 or 3.

    Args:
        head: The file's first bytes.
        file_bytes: The whole file's size.

    Raises:
        HeaderIncompleteError: `head` ends within the header.
        HeaderError: This is no header that llama.cpp could load.
    """
    try:
        cursor = _Cursor(head, file_bytes)
        n_tensors, n_keys = _preamble(cursor)
        metadata = _metadata(cursor, n_keys)
        header = Header(metadata, _tensors(cursor, n_tensors, _alignment(metadata)))
    except (struct.error, OverflowError):  # OverflowError: a length took the position past what indexes can hold
        raise HeaderIncompleteError(_ENDS_WITHIN) from None
    if cursor.at > len(head):
        raise HeaderIncompleteError(_ENDS_WITHIN)
    return header


class _Cursor:
    """A position in the header. Reading past the bytes at hand raises `struct.error`."""

    def __init__(self, head: bytes | bytearray, file_bytes: int) -> None:
        self.head = head
        self.file_bytes = file_bytes
        self.at = 0
        self.kept_elements = 0

    def scalar(self, code: str) -> int | float | bool:
        value: int | float | bool
        (value,) = struct.unpack_from("<" + code, self.head, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def uint32(self) -> int:
        return int(self.scalar("I"))

    def uint64(self) -> int:
        return int(self.scalar("Q"))

    def demand(self, n_bytes: int, what: str) -> None:
        """Refuse what cannot fit the file, before anything is allocated or looped over."""
        if n_bytes > self.file_bytes - self.at:
            raise HeaderError(f"{what} is longer than the rest of the file")

    def span(self, what: str) -> slice:
        """Step over one string and return where its bytes are."""
        length = self.uint64()
        self.demand(length, what)
        begin, self.at = self.at, self.at + length
        if self.at > len(self.head):
            raise HeaderIncompleteError(_ENDS_WITHIN)
        return slice(begin, self.at)

    def name(self, what: str) -> str:
        span = self.span(what)
        if span.stop - span.start > _MAX_NAME_BYTES:
            raise HeaderError(f"{what} is longer than {_MAX_NAME_BYTES} bytes")
        try:
            return self.head[span].decode()
        except UnicodeDecodeError:
            raise HeaderError(f"{what} is not UTF-8") from None

    def skip_strings(self, count: int) -> None:
        """Step over strings, each a 64-bit length and its bytes."""
        head, at, length_at = self.head, self.at, _LENGTH.unpack_from
        for _ in repeat(None, count):
            at += 8 + length_at(head, at)[0]
        self.at = at


def _preamble(cursor: _Cursor) -> tuple[int, int]:
    magic = cursor.head[:4]
    if magic != b"GGUF":
        raise HeaderError(f"this is no GGUF file: it begins with {bytes(magic)!r}")
    cursor.at = 4
    version = cursor.uint32()
    if version & 0xFFFF == 0 and version:
        raise HeaderError("this GGUF file is big-endian; llama.cpp loads it only on a big-endian machine")
    if version not in (2, 3):
        raise HeaderError(f"GGUF version {version} is not supported, only 2 and 3")
    n_tensors, n_keys = cursor.uint64(), cursor.uint64()
    if n_keys > MAX_KEYS or n_tensors > MAX_TENSORS:
        raise HeaderError(f"the header announces {n_keys} keys and {n_tensors} tensors, more than any model has")
    return n_tensors, n_keys


def _metadata(cursor: _Cursor, n_keys: int) -> dict[str, MetadataValue]:
    metadata: dict[str, MetadataValue] = {}
    for _ in range(n_keys):
        key = cursor.name("a key")
        if not key or key in metadata:
            raise HeaderError(f"key {key!r} is there twice" if key else "a key is empty")
        kind = cursor.uint32()
        if key == "general.alignment" and kind != _UINT32:
            raise HeaderError("general.alignment is not a 32-bit number")
        metadata[key] = _value(cursor, kind, key)
    return metadata


def _value(cursor: _Cursor, kind: int, key: str) -> MetadataValue:
    if kind == _ARRAY:
        return _array(cursor, key)
    if kind == _STRING:
        span = cursor.span(f"the text of {key!r}")
        length = span.stop - span.start
        return Skipped(length) if length > KEPT_TEXT_BYTES else cursor.head[span].decode(errors="replace")
    if kind not in _SCALARS:
        raise HeaderError(f"key {key!r} has the unknown type {kind}")
    return cursor.scalar(_SCALARS[kind])


def _array(cursor: _Cursor, key: str) -> MetadataValue:
    kind, count = cursor.uint32(), cursor.uint64()
    if kind == _ARRAY:
        raise HeaderError(f"key {key!r} is an array of arrays")
    if kind == _STRING:
        cursor.demand(8 * count, f"the array {key!r}")
        cursor.skip_strings(count)
        return Skipped(count)
    if kind not in _SCALARS:
        raise HeaderError(f"the array {key!r} has elements of the unknown type {kind}")
    n_bytes = _SIZES[kind] * count
    cursor.demand(n_bytes, f"the array {key!r}")
    begin, cursor.at = cursor.at, cursor.at + n_bytes
    if count > KEPT_ELEMENTS:
        return Skipped(count)
    cursor.kept_elements += count
    if cursor.kept_elements > _KEPT_ELEMENTS_IN_ALL:
        raise HeaderError("the header holds more arrays than any model has")
    return struct.unpack_from(f"<{count}{_SCALARS[kind]}", cursor.head, begin)


def _alignment(metadata: dict[str, MetadataValue]) -> int:
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise HeaderError(f"general.alignment is {alignment!r}, not a power of two")
    return alignment


@dataclass(frozen=True)
class _Listing:
    """A tensor before its place in the file is known.

    `offset` counts from the start of the data; `n_bytes` is None for an unknown format.
    """

    name: str
    shape: tuple[int, ...]
    type_id: int
    offset: int
    n_bytes: int | None


def _tensors(cursor: _Cursor, n_tensors: int, alignment: int) -> tuple[TensorRow, ...]:
    listed = [_listing(cursor) for _ in range(n_tensors)]
    for name, times in Counter(tensor.name for tensor in listed).most_common(1):
        if times > 1:
            raise HeaderError(f"tensor {name!r} is there {times} times")
    data_begin = -(-cursor.at // alignment) * alignment
    sizes = dict(_placed_sizes(listed, alignment, cursor.file_bytes - data_begin))
    return tuple(TensorRow(t.name, t.shape, type_name(t.type_id), sizes[t.name], data_begin + t.offset) for t in listed)


def _listing(cursor: _Cursor) -> _Listing:
    name = cursor.name("a tensor's name")
    n_dims = cursor.uint32()
    if n_dims >= len(_TENSOR_TAILS):
        raise HeaderError(f"tensor {name!r} has {n_dims} dimensions, more than 4")
    *shape, type_id, offset = _TENSOR_TAILS[n_dims].unpack_from(cursor.head, cursor.at)
    cursor.at += _TENSOR_TAILS[n_dims].size
    return _Listing(name, tuple(shape), type_id, offset, _size(name, tuple(shape), type_id))


def _size(name: str, shape: tuple[int, ...], type_id: int) -> int | None:
    elements = 1
    for extent in shape:
        elements *= extent
    if elements > _INT64_MAX:
        raise HeaderError(f"tensor {name!r} has the impossible shape {shape}")
    kind = TYPES_BY_ID.get(type_id)
    if kind is None:
        return None
    row = shape[0] if shape else 1
    if row % kind.block_elements:
        raise HeaderError(f"tensor {name!r}: rows of {row} elements do not fill blocks of {kind.name}")
    return kind.size_bytes(elements)


def _placed_sizes(listed: list[_Listing], alignment: int, data_bytes: int) -> Iterator[tuple[str, int]]:
    """Yield each tensor's name and size, checking that they lie apart and inside the file."""
    ordered = sorted(listed, key=lambda tensor: (tensor.offset, tensor.n_bytes or 0))
    free = 0
    for tensor, after in zip(ordered, [*(t.offset for t in ordered[1:]), data_bytes], strict=False):
        end = after if tensor.n_bytes is None else tensor.offset + tensor.n_bytes
        if max(tensor.offset, end) > data_bytes:
            raise HeaderError(f"tensor {tensor.name!r} ends after the file: it is incomplete or damaged")
        if tensor.offset < free or (tensor.n_bytes is None and end <= tensor.offset):
            raise HeaderError(f"tensor {tensor.name!r} overlaps another one")
        if tensor.offset % alignment:
            raise HeaderError(f"tensor {tensor.name!r} is not aligned to {alignment} bytes")
        free = end
        yield tensor.name, end - tensor.offset
