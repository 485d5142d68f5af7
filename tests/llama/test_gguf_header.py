from __future__ import annotations

import struct
import tracemalloc

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.weights.geometry import Skipped
from k3prof.llama.gguf_header import (
    KEPT_ELEMENTS,
    MAX_KEYS,
    MAX_TENSORS,
    HeaderError,
    HeaderIncompleteError,
    parse_header,
)
from tests.doubles.full_size_k3 import K3, VOCABULARY, write_full_size_k3

ARCHITECTURE = ("general.architecture", 8, b"\x05\0\0\0\0\0\0\0llama")
VALUE_TYPES = gguf.GGUFValueType


def text(content: str | bytes) -> bytes:
    raw = content.encode() if isinstance(content, str) else content
    return struct.pack("<Q", len(raw)) + raw


def tensor(name: str | bytes, shape=(32,), type_id=0, offset=0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, type_id, offset)


def head(tensors=(), keys=(ARCHITECTURE,), *, magic=b"GGUF", version=3, n_tensors=None, n_keys=None) -> bytes:
    counts = struct.pack(
        "<QQ", len(tensors) if n_tensors is None else n_tensors, len(keys) if n_keys is None else n_keys
    )
    pairs = b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in keys)
    return magic + struct.pack("<I", version) + counts + pairs + b"".join(tensors)


def parse(raw: bytes, data_bytes: int = 0):
    """Parse a header that is followed by so many bytes of weights, aligned to 32."""
    return parse_header(raw, -(-len(raw) // 32) * 32 + data_bytes)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (head(magic=b"GGML"), "begins with b'GGML'"),
        (head(magic=b"\x89PNG"), "this is no GGUF file"),
        (head(version=1), "version 1 is not supported"),
        (head(version=4), "version 4 is not supported"),
        (head(version=0), "version 0 is not supported"),
        (head(version=3 << 24), "big-endian"),
        (head(n_keys=2**62), "more than any model has"),
        (head(n_tensors=MAX_TENSORS + 1), "more than any model has"),
        (head(n_keys=MAX_KEYS + 1), "more than any model has"),
        (head(keys=[ARCHITECTURE, ARCHITECTURE]), "'general.architecture' is there twice"),
        (head(keys=[("", 4, b"\0\0\0\0")]), "a key is empty"),
        (head(keys=[(b"\xff\xfe", 4, b"\0\0\0\0")]), "a key is not UTF-8"),
        (head(keys=[("a", 13, b"\0\0\0\0")]), "'a' has the unknown type 13"),
        (head(keys=[("a", 8, struct.pack("<Q", 2**63))]), "the text of 'a' is longer than the rest of the file"),
        (head(keys=[("a", 9, struct.pack("<IQ", 9, 1))]), "'a' is an array of arrays"),
        (head(keys=[("a", 9, struct.pack("<IQ", 99, 1))]), "elements of the unknown type 99"),
        (head(keys=[("a", 9, struct.pack("<IQ", 8, 2**60))]), "the array 'a' is longer than the rest of the file"),
        (head(keys=[("a", 9, struct.pack("<IQ", 5, 2**61))]), "the array 'a' is longer than the rest of the file"),
        (head(keys=[("general.alignment", 4, struct.pack("<I", 48))]), "48, not a power of two"),
        (head(keys=[("general.alignment", 4, struct.pack("<I", 0))]), "0, not a power of two"),
        (head(keys=[("general.alignment", 10, struct.pack("<Q", 32))]), "not a 32-bit number"),
        (head([struct.pack("<Q", 2**40)]), "a tensor's name is longer than the rest of the file"),
        (head([tensor(b"\xff")]), "a tensor's name is not UTF-8"),
        (head([tensor("a"), tensor("a", offset=128)]), "'a' is there 2 times"),
        (head([tensor("a", (32, 1, 1, 1, 1))]), "5 dimensions, more than 4"),
        (head([tensor("a", (2**40, 2**40))]), "impossible shape"),
        (head([tensor("a", (33,), type_id=8)]), "rows of 33 elements do not fill blocks of Q8_0"),
        (head([tensor("a", (64,)), tensor("b", (32,), offset=128)]), "'b' overlaps another one"),
        (head([tensor("a", (32,), offset=8)]), "'a' is not aligned to 32 bytes"),
        (head([tensor("a", (32,), offset=1024)]), "'a' ends after the file"),
        (head([tensor("a", (32,), offset=2**63)]), "'a' ends after the file"),
        (head([tensor("a", (2**20,))]), "'a' ends after the file"),
        (head([tensor("a", type_id=137), tensor("b", type_id=137)]), "overlaps another one"),
        (head([tensor("a", type_id=137, offset=512)]), "'a' ends after the file"),
    ],
)
def test_what_llama_cpp_could_not_load_is_refused_with_the_reason(raw, said):
    with pytest.raises(HeaderError, match=said.replace("[", r"\[")):
        parse(raw, data_bytes=256)


@pytest.mark.parametrize("kept", range(0, len(head([tensor("blk.0.attn_q.weight")])), 3))
def test_a_header_cut_anywhere_is_incomplete_or_none(kept):
    raw = head([tensor("blk.0.attn_q.weight")])
    with pytest.raises(HeaderError):
        parse_header(raw[:kept], kept)


def test_a_header_that_goes_on_after_the_bytes_at_hand_asks_for_more():
    raw = head(keys=[ARCHITECTURE, ("a", 9, struct.pack("<IQ", 8, 1000) + text("token") * 1000)])
    with pytest.raises(HeaderIncompleteError):
        parse_header(raw[:500], len(raw))


@pytest.mark.parametrize("length", [2**31, 2**63, 2**64 - 1])
def test_a_string_in_a_vocabulary_that_is_longer_than_the_file_is_refused(length):
    raw = head(keys=[("a", 9, struct.pack("<IQ", 8, 2) + struct.pack("<Q", length) + text("b"))])
    with pytest.raises(HeaderIncompleteError):
        parse(raw)


def test_metadata_that_would_fill_memory_is_refused():
    array = struct.pack("<IQ", 0, KEPT_ELEMENTS) + bytes(KEPT_ELEMENTS)
    raw = head(keys=[(f"key{number}", 9, array) for number in range(300)])
    with pytest.raises(HeaderError, match="more arrays than any model has"):
        parse(raw)


def test_a_format_that_is_not_known_here_is_sized_up_to_the_next_tensor():
    rows = parse(
        head([tensor("a", (64,), 137, 0), tensor("c", (64,), 200, 256), tensor("b", (8,), 0, 192)]), 320
    ).tensors
    assert [(row.name, row.type_name, row.n_bytes) for row in rows] == [
        ("a", "type 137", 192),
        ("c", "type 200", 64),
        ("b", "F32", 32),
    ]


def test_a_file_without_tensors_may_end_with_its_header():
    raw = head()
    assert parse_header(raw, len(raw)).tensors == ()


def test_version_2_is_read_like_version_3():
    assert parse(head([tensor("a")], version=2), 128) == parse(head([tensor("a")]), 128)


numbers = st.one_of(
    st.tuples(st.just(VALUE_TYPES.UINT8), st.integers(0, 255)),
    st.tuples(st.just(VALUE_TYPES.INT16), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just(VALUE_TYPES.UINT32), st.integers(0, 2**32 - 1)),
    st.tuples(st.just(VALUE_TYPES.INT64), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(VALUE_TYPES.UINT64), st.integers(0, 2**64 - 1)),
    st.tuples(st.just(VALUE_TYPES.FLOAT64), st.floats(allow_nan=False)),
    st.tuples(st.just(VALUE_TYPES.BOOL), st.booleans()),
    st.tuples(st.just(VALUE_TYPES.STRING), st.text(max_size=40).filter(bool)),
)
shapes = st.lists(st.integers(1, 9), min_size=1, max_size=4)
kinds = st.sampled_from([gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.F16])


@given(
    keys=st.dictionaries(st.text("abc.", min_size=1, max_size=8), numbers, max_size=8),
    words=st.lists(st.text(max_size=300), min_size=1, max_size=30),
    tensors=st.dictionaries(st.text("xyz.", min_size=1, max_size=8), st.tuples(shapes, kinds), max_size=8),
)
def test_the_gguf_package_reads_the_same_from_what_it_wrote(tmp_path_factory, keys, words, tensors):
    path = tmp_path_factory.mktemp("header") / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for key, (kind, value) in keys.items():
        writer.add_key_value(f"key.{key}", value, kind)
    writer.add_array("key.words", words)
    for name, (extents, kind) in tensors.items():
        shape = [*extents[:-1], 32 * extents[-1]]
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        n_bytes = int(np.prod(shape)) // block * block_bytes
        writer.add_tensor_info(name, shape, np.dtype(np.float32), n_bytes, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    file = writer.fout[0]
    # The package's reader wants the file padded even when there are no tensors.
    file.truncate(-(-file.tell() // 32) * 32 + sum(-(-t.nbytes // 32) * 32 for t in writer.tensors[0].values()))
    writer.close()
    raw = path.read_bytes()
    ours, theirs = parse_header(raw, len(raw)), gguf.GGUFReader(path)
    assert rows(ours) == their_rows(theirs)
    for key, value in ours.metadata.items():
        expected = theirs.fields[key].contents()
        assert value == (Skipped(len(expected)) if isinstance(expected, list) else expected)


def test_all_tensors_of_a_full_size_k3_are_read_as_the_gguf_package_reads_them(tmp_path):
    # The package takes seconds for a whole vocabulary, so this one is short.
    path = write_full_size_k3(tmp_path / "k3.gguf", K3(tokens=1000))
    with path.open("rb") as file:
        ours = parse_header(file.read(2**24), path.stat().st_size)
    assert rows(ours) == their_rows(gguf.GGUFReader(path))
    assert len(ours.tensors) == 2573


def test_a_vocabulary_is_stepped_over_and_never_kept(tmp_path):
    """This is where the time goes: the `gguf` package makes four objects of every token, this reader none."""
    path = write_full_size_k3(tmp_path / "k3.gguf")
    with path.open("rb") as file:
        raw = file.read(2**24)
    tracemalloc.start()
    metadata = parse_header(raw, path.stat().st_size).metadata
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert all(metadata[f"tokenizer.ggml.{key}"] == Skipped(VOCABULARY) for key in ("tokens", "merges", "token_type"))
    assert peak_bytes < 2 * 2**20


def rows(header):
    return [(row.name, row.shape, row.type_name, row.n_bytes, row.offset) for row in header.tensors]


def their_rows(reader):
    return [
        (t.name, tuple(t.shape.tolist()), t.tensor_type.name, int(t.n_bytes), int(t.data_offset))
        for t in reader.tensors
    ]
