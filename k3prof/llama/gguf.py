"""Opens a model: the headers of its one or many GGUF files, put together and checked against each other."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path

from k3prof.core.weights.geometry import Metadata
from k3prof.core.weights.model import Model, Shard, TensorHeader, describe
from k3prof.errors import ConfigError
from k3prof.llama.gguf_header import MAX_TENSORS, Header, HeaderError, HeaderIncompleteError, parse_header

_MIB = 2**20
_READS_BYTES = (_MIB, 16 * _MIB, 64 * _MIB)
"""How much of a file is read for its header: little, then more where it goes on. The largest known vocabulary takes
16 MB; what is longer than the last is refused rather than searched through."""
_EDGE_BYTES = _MIB

_SHARD_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


def read_model(path: Path) -> Model:
    """Read a model's description from the headers of its files; no weights are read.

    Args:
        path: The model, or the first of its shards (`…-00001-of-00005.gguf`).

    Raises:
        ConfigError: A file is missing, damaged, or of another model; the message names it.
    """
    paths = shards(path)
    sizes: list[Shard] = []
    headers: list[Header] = []
    for number, shard in enumerate(paths):
        header, size_bytes = _read_header(shard)
        _check_split(shard, header.metadata, number, len(paths))
        headers.append(header)
        sizes.append(Shard(str(shard), size_bytes))
        if sum(len(header.tensors) for header in headers) > MAX_TENSORS:
            raise ConfigError(f"{path}: the shards hold more tensors than any model has")
    metadata = headers[0].metadata
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise ConfigError(f"{path}: general.architecture is missing", "is this a model at all?")
    tensors = _joined(paths, headers)
    try:
        return describe(architecture, metadata, tensors, sizes)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", error.hint) from None


def shards(path: Path) -> list[Path]:
    """Return all files of a model, found by the name of the first.

    Raises:
        ConfigError: A file is missing, or this is not the first.
    """
    named = _SHARD_NAME.fullmatch(path.name)
    if named is None or int(named["count"]) <= 1:
        _require_file(path)
        return [path]
    count = int(named["count"])
    files = [path.with_name(f"{named['stem']}-{i:05d}-of-{count:05d}.gguf") for i in range(1, count + 1)]
    if int(named["number"]) != 1:
        raise ConfigError(f"{path}: this is shard {int(named['number'])} of {count}", f"give the first: {files[0]}")
    _require_file(path)
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ConfigError(
            f"{path}: {len(missing)} of {count} shards are missing: {missing[0]}{more}",
            f"all shards must lie in {path.parent}",
        )
    return files


def fingerprint(path: Path) -> str:
    """Return an identity of a model's files that is cheap even for 600 GB.

    SHA-256 over the size, the first and the last MiB of each shard. Two files that differ only in between, which
    no quantization makes, are not told apart.

    Raises:
        ConfigError: A file is missing or cannot be read.
    """
    digest = hashlib.sha256()
    for shard in shards(path):
        try:
            with shard.open("rb") as file:
                size_bytes = file.seek(0, 2)
                digest.update(size_bytes.to_bytes(8, "little"))
                file.seek(0)
                digest.update(file.read(_EDGE_BYTES))
                file.seek(max(size_bytes - _EDGE_BYTES, 0))
                digest.update(file.read(_EDGE_BYTES))
        except OSError as error:
            raise _unreadable(shard, error) from None
    return digest.hexdigest()


def _read_header(path: Path) -> tuple[Header, int]:
    """Parse the header from as little of the file as holds it."""
    try:
        with path.open("rb") as file:
            size_bytes = file.seek(0, 2)
            for limit in _READS_BYTES:
                try:
                    return parse_header(_first_bytes(file, min(limit, size_bytes)), size_bytes), size_bytes
                except HeaderIncompleteError as error:
                    if size_bytes <= limit:
                        raise ConfigError(f"{path}: {error}", "an interrupted download?") from None
    except HeaderError as error:
        raise ConfigError(f"{path}: {error}") from None
    except OSError as error:
        raise _unreadable(path, error) from None
    raise ConfigError(f"{path}: its header is longer than {_READS_BYTES[-1] // _MIB} MiB")


def _first_bytes(file: BufferedReader, count: int) -> bytearray:
    """Read into one buffer: `read` would hold the bytes twice."""
    head = bytearray(count)
    file.seek(0)
    del head[file.readinto(head) :]
    return head


def _check_split(path: Path, metadata: Metadata, number: int, count: int) -> None:
    """Hold a shard's own account (`split.no`, from 0, and `split.count`) against its name."""
    own_count, own_number = metadata.get("split.count", 1), metadata.get("split.no", 0)
    if own_count != count and not (count == 1 and own_count == 0):
        hint = "shards must be named …-00001-of-00005.gguf" if count == 1 else "a renamed file?"
        raise ConfigError(f"{path}: split.count is {own_count!r}, but its name says {count}", hint)
    if own_number != number:
        raise ConfigError(
            f"{path}: split.no is {own_number!r}, but its name says shard {number + 1}", "a renamed file?"
        )


def _joined(paths: Sequence[Path], headers: Sequence[Header]) -> list[TensorHeader]:
    """Put the shards' tensors together; refuse shards of different models."""
    hint = "are these shards of two models?"
    owner: dict[str, int] = {}
    for number, header in enumerate(headers):
        architecture = header.metadata.get("general.architecture")
        if architecture not in (None, headers[0].metadata["general.architecture"]):
            raise ConfigError(f"{paths[number]}: general.architecture is {architecture!r}, unlike the first", hint)
        for tensor in header.tensors:
            if tensor.name in owner:
                raise ConfigError(
                    f"{paths[number]}: tensor {tensor.name!r} is in {paths[owner[tensor.name]].name} already", hint
                )
            owner[tensor.name] = number
    announced = headers[0].metadata.get("split.tensors.count")
    if announced is not None and announced != len(owner):
        raise ConfigError(
            f"{paths[0]}: split.tensors.count is {announced!r}, but the shards hold {len(owner)} tensors", hint
        )
    return [
        TensorHeader(tensor.name, tensor.shape, tensor.type_name, tensor.n_bytes, number, tensor.offset)
        for number, header in enumerate(headers)
        for tensor in header.tensors
    ]


def _require_file(path: Path) -> None:
    if path.is_dir():
        found = sorted(path.glob("*.gguf"))
        raise ConfigError(f"{path}: is a folder", f"did you mean {found[0]}?" if found else "give a .gguf file")
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")


def _unreadable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"{path}: cannot be read: {error.strerror or error}")
