from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import gguf
import pytest

from k3prof.errors import ConfigError
from k3prof.llama.gguf import fingerprint, read_model, shards
from k3prof.llama.gguf_header import parse_header
from tests.doubles.full_size_k3 import K3, write_full_size_k3

SMALL = K3(layers=5, tokens=40)
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def model(tmp_path) -> Path:
    return write_full_size_k3(tmp_path / "k3.gguf", SMALL)


@pytest.fixture
def split(tmp_path) -> Path:
    return write_full_size_k3(tmp_path / "k3.gguf", K3(layers=5, tokens=40, tensors_per_file=50))


def refusal(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read_model(path)
    return caught.value


def test_shards_make_the_same_model_as_one_file(tmp_path, model, split):
    one, many = read_model(model), read_model(split)
    assert len(many.shards) == 3
    assert many.geometry == one.geometry
    facts = [[(t.name, t.shape, t.type_name, t.n_bytes, t.role, t.layer) for t in m.tensors] for m in (one, many)]
    assert facts[0] == facts[1]
    assert {t.shard for t in many.tensors} == {0, 1, 2}
    assert all(t.offset + t.n_bytes <= many.shards[t.shard].size_bytes for t in many.tensors)


def test_each_shard_is_read_as_the_gguf_package_reads_it(split):
    ours = read_model(split)
    theirs = [
        (t.name, number, int(t.data_offset), int(t.n_bytes))
        for number, path in enumerate(shards(split))
        for t in gguf.GGUFReader(path).tensors
    ]
    assert [(t.name, t.shard, t.offset, t.n_bytes) for t in ours.tensors] == theirs


def test_a_missing_file_is_named(tmp_path):
    assert "nothing.gguf: no such file" in refusal(tmp_path / "nothing.gguf").message


def test_a_folder_is_refused_with_the_model_in_it(model):
    error = refusal(model.parent)
    assert "is a folder" in error.message
    assert str(model) in error.hint


def test_a_missing_shard_is_named(split):
    shards(split)[2].unlink()
    error = refusal(split)
    assert "1 of 3 shards are missing: k3-00003-of-00003.gguf" in error.message


def test_a_later_shard_is_refused_with_the_name_of_the_first(split):
    error = refusal(shards(split)[1])
    assert "shard 2 of 3" in error.message
    assert str(split) in error.hint


def test_a_renamed_shard_is_refused(split):
    first, second, third = shards(split)
    third.replace(first.with_name("kept"))
    second.replace(third)
    first.with_name("kept").replace(second)
    assert "split.no is 2, but its name says shard 2" in refusal(split).message


def test_a_shard_under_another_name_is_refused(split):
    alone = split.replace(split.with_name("alone.gguf"))
    error = refusal(alone)
    assert "split.count is 3, but its name says 1" in error.message


def test_a_single_file_named_like_a_shard_is_refused(model):
    for number in (1, 2):
        model.with_name(f"a-0000{number}-of-00002.gguf").symlink_to(model)
    assert "split.count is 1, but its name says 2" in refusal(model.with_name("a-00001-of-00002.gguf")).message


def test_shards_of_two_models_are_refused(tmp_path, split):
    other = write_full_size_k3(tmp_path / "other" / "k3.gguf", K3(layers=5, tokens=40, tensors_per_file=51))
    shards(other)[1].replace(shards(split)[1])
    error = refusal(split)
    assert "is in k3-00002-of-00003.gguf already" in error.message
    assert "two models" in error.hint


def test_shards_that_lack_a_tensor_are_refused(tmp_path, split):
    other = write_full_size_k3(tmp_path / "other" / "k3.gguf", K3(layers=5, tokens=40, tensors_per_file=49))
    shards(other)[0].replace(shards(split)[0])
    assert "split.tensors.count is 131, but the shards hold 130 tensors" in refusal(split).message


def test_an_unfinished_download_is_named(model):
    os.truncate(model, 1000)
    error = refusal(model)
    assert "k3.gguf: the file ends within its header" in error.message
    assert "download" in error.hint


def test_a_file_that_lost_its_last_weights_is_refused(model):
    os.truncate(model, model.stat().st_size - 4096)
    assert "ends after the file" in refusal(model).message


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    path = tmp_path / "locked.gguf"
    path.write_bytes(b"GGUF")
    monkeypatch.setattr(Path, "open", deny)
    assert "locked.gguf: cannot be read: Permission denied" in refusal(path).message


def deny(*_args, **_kwargs):
    # The tests may run as root, whom no file's mode keeps out.
    raise PermissionError(13, "Permission denied")


def test_an_endless_header_is_refused_after_64_mib(tmp_path):
    path = tmp_path / "endless.gguf"
    array = struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 8, 2**30)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + array)
    os.truncate(path, 2**36)
    assert "its header is longer than 64 MiB" in refusal(path).message


def test_a_model_without_an_architecture_is_refused(tmp_path):
    path = tmp_path / "anonymous.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0))
    assert "general.architecture is missing" in refusal(path).message


def test_an_impossible_key_is_refused_with_file_and_key(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "wrong.gguf", "llama")
    writer.add_key_value("llama.block_count", "many", gguf.GGUFValueType.STRING)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    assert (
        "wrong.gguf: llama.block_count: expected a whole number, got 'many'" in refusal(tmp_path / "wrong.gguf").message
    )


def test_the_fingerprint_changes_with_either_end_of_any_shard(split):
    before = fingerprint(split)
    assert fingerprint(split) == before
    seen = {before}
    for shard in shards(split):
        for place in (20, shard.stat().st_size - 1):
            with shard.open("r+b") as file:
                file.seek(place)
                file.write(b"\x7f")
            seen.add(fingerprint(split))
    assert len(seen) == 7


def test_the_fingerprint_changes_with_the_size(model):
    before = fingerprint(model)
    os.truncate(model, model.stat().st_size + 1)
    assert fingerprint(model) != before


def test_vocabulary_files_are_opened(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "vocabulary.gguf", "llama")
    writer.add_block_count(32)
    writer.add_token_list([f"word{number}" for number in range(1000)])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    model = read_model(tmp_path / "vocabulary.gguf")
    assert (model.tensors, model.parameters, len(model.geometry.layers)) == ((), 0, 32)


def test_damaged_headers_are_opened_or_refused_and_nothing_else(tmp_path, model, split):
    """Ten thousand: `K3PROF_FUZZ_HEADERS=10000 pytest -k damaged_headers`."""
    count = os.environ.get("K3PROF_FUZZ_HEADERS", "1500")
    command = [sys.executable, "-m", "tests.doubles.fuzz_headers", count, "1", str(model), *map(str, shards(split))]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["refused"] > int(count) // 4
    assert found["opened"] > int(count) // 10
    assert found["peak_mib"] < 200


@pytest.mark.parametrize("seed", range(3))
def test_the_largest_header_that_is_not_refused_stays_small_in_memory(tmp_path, seed):
    """As many tensors as are allowed, as many keys as are allowed, one vocabulary that fills the header."""
    keys, tensors = [(0, 60_000), (4096, 0), (1, 0)][seed]
    word = struct.pack("<Q", 1) + b"a"
    if seed == 2:
        pairs = word + struct.pack("<IIQ", 9, 8, 5_000_000) + bytes(8) * 5_000_000
    else:
        array = struct.pack("<IIQ", 9, 10, 60) + b"\xff" * 480
        pairs = b"".join(struct.pack("<Q", 8) + f"{number:08}".encode() + array for number in range(keys))
    listed = b"".join(
        struct.pack("<Q", 28)
        + f"blk.{number:07}.ffn_down.weight"[:28].ljust(28, "x").encode()
        + struct.pack("<I4QIQ", 4, 32, 1, 1, 1, 0, 128 * number)
        for number in range(tensors)
    )
    path = tmp_path / "large.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + pairs + listed)
    size = path.stat().st_size
    os.truncate(path, -(-size // 32) * 32 + 128 * tensors)
    parse_header(path.read_bytes(), path.stat().st_size)
    script = (
        "import sys; from pathlib import Path; from k3prof.llama.gguf import read_model;"
        "from k3prof.errors import K3profError; from tests.doubles.fuzz_headers import peak_mib\n"
        "try: read_model(Path(sys.argv[1]))\n"
        "except K3profError as error: assert 'architecture' in error.message, error.message\n"
        "print(peak_mib())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        check=False,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < 200
