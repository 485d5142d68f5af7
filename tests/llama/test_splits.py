"""Which builds can be traced, and why others cannot."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from k3prof.core.build import Build
from k3prof.errors import ConfigError, MachineError
from k3prof.llama.splits import SplitTracer, compiled_tracer, split_tracer
from tests.doubles.traced_build import compile_build


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_default_build_can_be_traced(build: Build) -> None:
    assert split_tracer(build).library == compiled_tracer()


def test_a_build_whose_ggml_is_a_shared_library_can_be_traced(tmp_path: Path) -> None:
    assert split_tracer(compile_build(tmp_path)).library.is_file()


def test_a_static_build_is_named_as_such(tmp_path: Path) -> None:
    static = compile_build(tmp_path, static=True)
    with pytest.raises(MachineError, match="'double' cannot be traced: ggml is linked into its programs") as caught:
        split_tracer(static)
    assert "BUILD_SHARED_LIBS" in caught.value.hint


def test_a_static_build_that_looks_shared_is_found_out(tmp_path: Path) -> None:
    static = replace(compile_build(tmp_path, static=True), shared_libraries=True)
    with pytest.raises(MachineError, match="'double' cannot be traced: no shared ggml met the tracer"):
        split_tracer(static)


@pytest.mark.parametrize("options", [("-Wl,-Bsymbolic",), ("-fno-semantic-interposition", "-fvisibility=protected")])
def test_a_library_that_calls_itself_past_all_others_is_named_as_such(tmp_path: Path, options: tuple[str, ...]) -> None:
    with pytest.raises(MachineError, match="its ggml calls ggml_backend_graph_compute_async within itself") as caught:
        split_tracer(compile_build(tmp_path, options=options))
    assert "-Bsymbolic" in caught.value.hint


def test_a_ggml_without_a_function_that_is_needed_is_refused_with_its_name(tmp_path: Path) -> None:
    old = compile_build(tmp_path, options=("-Dggml_backend_dev_name=ggml_backend_name_of_old",))
    with pytest.raises(MachineError, match="its ggml has no ggml_backend_dev_name"):
        split_tracer(old)


def test_the_library_is_compiled_once_for_each_compiler(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = compiled_tracer()
    made_ns = library.stat().st_mtime_ns
    assert compiled_tracer() == library
    assert library.stat().st_mtime_ns == made_ns
    monkeypatch.setenv("CC", "cc -g")
    other = compiled_tracer()
    assert other != library
    assert {library, other} == set((cache / "k3prof" / "tracer").glob("*.so"))


def test_the_source_compiles_without_a_warning(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "cc -Werror -Wshadow -Wconversion -Wno-sign-conversion")
    assert compiled_tracer().is_file()


def test_a_machine_without_a_compiler_is_told_to_install_one(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(MachineError, match="no C compiler here: looked for cc, gcc, clang") as caught:
        compiled_tracer()
    assert "apt install build-essential" in caught.value.hint


def test_a_compiler_that_is_not_there_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-cc")
    with pytest.raises(ConfigError, match="CC: no-such-cc: no such compiler"):
        compiled_tracer()


def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "cc -DNAME_BYTES=!")
    with pytest.raises(MachineError, match=r"cannot be compiled with \S*cc: .*error: "):
        compiled_tracer()
    assert not list((cache / "k3prof" / "tracer").glob("*.so"))


def test_a_path_that_the_loader_would_take_for_two_is_refused(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a b"))
    with pytest.raises(MachineError, match="a space or colon ends a file's name") as caught:
        split_tracer(build)
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_what_was_to_be_preloaded_anyway_still_is() -> None:
    env = SplitTracer(Path("/cache/splits.so")).env("/tmp/ring", {"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"})
    assert env == {"LD_PRELOAD": "/cache/splits.so:/usr/lib/libjemalloc.so.2", "K3PROF_SPLITS": "/tmp/ring"}


def test_programs_without_ggml_run_as_ever_with_the_tracer_in_their_environment(tmp_path: Path) -> None:
    import subprocess

    true = shutil.which("true")
    assert true is not None
    done = subprocess.run(
        [true], env=SplitTracer(compiled_tracer()).env(tmp_path / "none", {}), capture_output=True, check=True
    )
    assert done.stderr == b""
