"""What identifies a build, how builds are found, and what is said of one that does not run."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from k3prof.core.build import Build
from k3prof.errors import ConfigError, K3profError, MachineError
from k3prof.llama.build import find_build, list_builds, missing_programs, probe, use_build
from k3prof.llama.compile import make_build
from k3prof.llama.processor import instruction_sets


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The programs of a build with llama.cpp's shape."""
    source = Path(__file__).parent.parent / "doubles" / "fake_llama_cpp"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield Path(make_build(source, [], False, "compiled").bin_dir)


@pytest.fixture
def bin_dir(compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of them, to spoil, and an empty register."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path(shutil.copytree(compiled, tmp_path / "build" / "bin", symlinks=True))


def server_that(bin_dir: Path, script: str) -> Path:
    server = bin_dir / "llama-server"
    server.unlink(missing_ok=True)
    server.write_text(f"#!/bin/sh\n{script}\n")
    server.chmod(0o755)
    return server


def test_a_build_is_described_by_what_it_says_and_by_its_code(bin_dir: Path) -> None:
    build = probe(bin_dir, "mine", ("-DA=B",), "somewhere")
    assert build.version == "0.1.42-dev (build 1, commit unknown)"
    assert build.compiler.startswith("GNU ")
    assert (build.name, build.cmake_flags, build.source) == ("mine", ("-DA=B",), "somewhere")
    assert build.shared_libraries
    assert build.bin_dir == str(bin_dir)


def test_the_real_build_is_described(build: Build) -> None:
    found = probe(Path(build.bin_dir), "real")
    assert re.fullmatch(r"[0-9a-f]{7,40}", found.commit)
    assert found.commit in found.version
    assert found.shared_libraries
    assert found.sha256 == build.sha256
    assert missing_programs(found) == ()


@pytest.mark.parametrize("given", [".", "..", "llama-server"])
def test_the_programs_folder_the_build_folder_and_the_server_all_name_a_build(bin_dir: Path, given: str) -> None:
    assert probe(bin_dir / given, "mine") == probe(bin_dir, "mine")


def test_a_link_to_a_server_names_the_build_that_it_leads_to(bin_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "llama-server").symlink_to(bin_dir / "llama-server")
    assert probe(tmp_path, "mine").bin_dir == str(bin_dir)


@pytest.mark.parametrize(
    ("said", "version", "commit", "compiler"),
    [
        (
            "version: 0.5.0-dev (build 1, commit 0c1e570)\nbuilt with GNU 12.2.0 for Linux x86_64",
            "0.5.0-dev (build 1, commit 0c1e570)",
            "0c1e570",
            "GNU 12.2.0 for Linux x86_64",
        ),
        (
            "ggml_cuda_init: found 1 CUDA devices:\nversion: 5432 (deadbeef)\nbuilt with cc (Debian) 12.2.0 for x86_64",
            "5432 (deadbeef)",
            "deadbeef",
            "cc (Debian) 12.2.0 for x86_64",
        ),
        ("version: 0 (unknown)", "0 (unknown)", "", ""),
        ("version: \x1b[31mred\x07 1 (abcdef0)", "[31mred 1 (abcdef0)", "abcdef0", ""),
    ],
)
def test_what_a_server_says_of_itself_is_read(
    bin_dir: Path, said: str, version: str, commit: str, compiler: str
) -> None:
    (bin_dir / "said").write_text(said + "\n")
    server_that(bin_dir, f"cat '{bin_dir}/said' >&2")
    build = probe(bin_dir, "mine")
    assert (build.version, build.commit, build.compiler) == (version, commit, compiler)


def test_any_change_of_the_code_changes_the_identity(bin_dir: Path) -> None:
    identities = {probe(bin_dir, "mine").identity}
    for changed in ("llama-server", "libggml-base.so.0.1.2"):
        with (bin_dir / changed).open("ab") as file:
            file.write(b"\0")
        identities.add(probe(bin_dir, "mine").identity)
    (bin_dir / "libggml-cuda.so").write_bytes(b"a backend that would be loaded by its name")
    identities.add(probe(bin_dir, "mine").identity)
    assert len(identities) == 4


def test_what_is_no_code_of_the_server_leaves_the_identity_alone(bin_dir: Path) -> None:
    before = probe(bin_dir, "mine").identity
    (bin_dir / "README").write_text("hello")
    (bin_dir / "llama-bench").unlink()
    assert probe(bin_dir, "mine").identity == before


def test_a_library_loaded_from_elsewhere_belongs_to_the_code(
    bin_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = probe(bin_dir, "mine")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.move(bin_dir / "libggml-base.so.0.1.2", elsewhere / "libggml-base.so.0")
    for link in bin_dir.glob("libggml-base.so*"):
        link.unlink()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(elsewhere))
    moved = probe(bin_dir, "mine")
    assert moved.shared_libraries
    with (elsewhere / "libggml-base.so.0").open("ab") as file:
        file.write(b"\0")
    assert len({before.identity, moved.identity, probe(bin_dir, "mine").identity}) == 3


def not_there(bin_dir: Path) -> None:
    (bin_dir / "llama-server").unlink()


def not_executable(bin_dir: Path) -> None:
    (bin_dir / "llama-server").chmod(0o644)


def not_a_program(bin_dir: Path) -> None:
    (bin_dir / "llama-server").write_text("GGUF")


def another_architecture(bin_dir: Path) -> None:
    server = bin_dir / "llama-server"
    code = bytearray(server.read_bytes())
    # e_machine: LoongArch.
    code[18:20] = (258).to_bytes(2, sys.byteorder)
    server.write_bytes(code)


def another_loader(bin_dir: Path) -> None:
    server = bin_dir / "llama-server"
    code, found = re.subn(rb"/ld-linux", b"/ld-other", server.read_bytes())
    assert found
    server.write_bytes(code)


def another_processor(bin_dir: Path) -> None:
    server_that(bin_dir, "kill -ILL $$")


def a_crash(bin_dir: Path) -> None:
    server_that(bin_dir, "echo 'GGML_ASSERT(false) failed' >&2; kill -ABRT $$")


def a_refusal(bin_dir: Path) -> None:
    server_that(bin_dir, "echo 'error: \x1b[31mno such device' >&2; exit 3")


def without_libraries(bin_dir: Path) -> None:
    for library in bin_dir.glob("*.so*"):
        library.unlink()


def another_program(bin_dir: Path) -> None:
    server_that(bin_dir, "echo nginx/1.24")


@pytest.mark.parametrize(
    ("spoil", "kind", "message", "hint"),
    [
        (not_there, ConfigError, "no llama-server there", "folder that holds llama-server"),
        (not_executable, ConfigError, "not an executable file", r"chmod \+x"),
        (not_a_program, ConfigError, "not a program", "folder that holds"),
        (another_architecture, MachineError, r"made for another .*258\), this machine is \w+", "k3prof build"),
        (another_loader, MachineError, "dynamic loader .* built for another Linux", "k3prof build"),
        (another_processor, MachineError, "instructions that this processor lacks", "GGML_NATIVE=OFF"),
        (a_crash, MachineError, r"crashed with SIGABRT: GGML_ASSERT\(false\) failed", ""),
        (a_refusal, MachineError, r"failed with exit code 3: error: \[31mno such device", ""),
        (without_libraries, MachineError, r"libggml-base\.so\.0: cannot open shared object", "LD_LIBRARY_PATH"),
        (another_program, ConfigError, "does not say a version", "by hand"),
    ],
)
def test_a_build_that_does_not_run_is_refused_with_the_reason(
    bin_dir: Path, spoil: object, kind: type[K3profError], message: str, hint: str
) -> None:
    assert callable(spoil)
    spoil(bin_dir)
    with pytest.raises(K3profError, match=message) as caught:
        probe(bin_dir, "mine")
    assert type(caught.value) is kind
    assert re.search(hint, caught.value.hint)


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent: no such file or folder"):
        probe(tmp_path / "absent", "mine")


def test_a_registered_build_is_found_by_name_and_by_path(bin_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = use_build(bin_dir.parent, "mine")
    assert used.source == "registered"
    assert find_build("mine") == used
    assert list_builds() == [used]
    assert find_build(str(bin_dir)).sha256 == used.sha256
    monkeypatch.chdir(bin_dir.parent.parent)
    assert find_build("./build").bin_dir == str(bin_dir)
    monkeypatch.chdir(bin_dir)
    assert find_build(".").bin_dir == str(bin_dir)


def test_a_name_given_again_stands_for_the_later_build(bin_dir: Path, tmp_path: Path) -> None:
    use_build(bin_dir, "mine")
    other = Path(shutil.copytree(bin_dir, tmp_path / "other", symlinks=True))
    use_build(other, "mine")
    assert [build.bin_dir for build in list_builds()] == [str(other)]


def test_a_registered_build_that_was_compiled_anew_is_described_anew(bin_dir: Path) -> None:
    before = use_build(bin_dir, "mine")
    server_that(bin_dir, "echo 'version: 7 (abcdef0)'")
    after = find_build("mine")
    assert (after.version, after.commit, after.name) == ("7 (abcdef0)", "abcdef0", "mine")
    assert after.identity != before.identity
    assert list_builds() == [after]


def test_a_build_that_is_gone_is_listed_and_its_use_is_refused(bin_dir: Path) -> None:
    build = use_build(bin_dir, "mine")
    shutil.rmtree(bin_dir)
    assert list_builds() == [build]
    assert "llama-server" in missing_programs(build)
    with pytest.raises(MachineError, match="is gone") as caught:
        find_build("mine")
    assert "--use PATH --name mine" in caught.value.hint


def test_an_unknown_name_gets_the_nearest_one(bin_dir: Path) -> None:
    use_build(bin_dir, "patched")
    with pytest.raises(ConfigError, match="no build is called 'pached'") as caught:
        find_build("pached")
    assert "did you mean patched?" in caught.value.hint


def test_without_any_build_the_command_that_makes_one_is_named(bin_dir: Path) -> None:
    assert list_builds() == []
    with pytest.raises(ConfigError, match="no build is called 'default'") as caught:
        find_build("default")
    assert caught.value.hint.startswith("make it with `k3prof build`;")


def test_a_folder_given_like_a_name_is_explained(bin_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bin_dir.parent)
    with pytest.raises(ConfigError, match="no build is called 'bin'") as caught:
        find_build("bin")
    assert "./bin" in caught.value.hint


@pytest.mark.parametrize("content", ["", "{", "[]", '{"build": {"name": 1}}'])
def test_a_spoilt_record_is_named(bin_dir: Path, tmp_path: Path, content: str) -> None:
    use_build(bin_dir, "mine")
    record = tmp_path / "cache" / "k3prof" / "builds" / "mine.json"
    record.write_text(content)
    for read in (list_builds, lambda: find_build("mine")):
        with pytest.raises(MachineError, match=r"mine\.json: not a readable record"):
            read()


def test_a_record_is_plain_json_that_names_its_fields(bin_dir: Path, tmp_path: Path) -> None:
    build = use_build(bin_dir, "mine")
    record = json.loads((tmp_path / "cache" / "k3prof" / "builds" / "mine.json").read_text())
    assert record["build"]["sha256"] == build.sha256
    assert record["instruction_sets"] == []


def test_of_an_x86_processor_only_its_instructions_count(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu tsc sse4_2 avx2 avx512_vnni ibpb hypervisor amx_tile\n")
    assert instruction_sets(cpuinfo) == {"sse4_2", "avx2", "avx512_vnni", "amx_tile"}


def test_of_an_arm_processor_all_features_count(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nFeatures\t: fp asimd asimddp sve i8mm bf16\nCPU implementer\t: 0x41\n")
    assert instruction_sets(cpuinfo) == {"fp", "asimd", "asimddp", "sve", "i8mm", "bf16"}


@pytest.mark.parametrize("content", [None, "", "processor : 0\n"])
def test_a_processor_that_says_nothing_has_no_known_instructions(tmp_path: Path, content: str | None) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    if content is not None:
        cpuinfo.write_text(content)
    assert instruction_sets(cpuinfo) == frozenset()
