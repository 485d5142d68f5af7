"""Compiling, with a source that has llama.cpp's targets and takes a second."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from k3prof.core.build import BuildProgress, BuildStage
from k3prof.errors import ConfigError, MachineError
from k3prof.llama import cache, source
from k3prof.llama import compile as compiling
from k3prof.llama.build import find_build, is_unchanged, list_builds, missing_programs
from k3prof.llama.compile import BuildFailedError, make_build

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "k3prof"


@pytest.fixture
def llama_cpp(tmp_path: Path, repository: Path) -> Path:
    """A source tree to compile and to spoil."""
    return Path(shutil.copytree(repository / "tests/doubles/fake_llama_cpp", tmp_path / "llama.cpp"))


class Seen(list[BuildProgress]):
    """All progress that was reported."""

    def __call__(self, progress: BuildProgress) -> None:
        self.append(progress)

    @property
    def compiled(self) -> list[str]:
        return [progress.detail for progress in self if progress.stage is BuildStage.COMPILE and progress.done]


def test_a_build_runs_from_where_it_is_kept_and_is_found_by_its_name(llama_cpp: Path) -> None:
    made = make_build(llama_cpp, [], False, "mine")
    assert made.name == "mine"
    assert made.version == "0.1.42-dev (build 1, commit unknown)"
    assert made.commit == ""
    assert made.compiler.startswith("GNU ")
    assert made.source == str(llama_cpp)
    assert made.shared_libraries
    assert "-DGGML_RPC=ON" in made.cmake_flags
    assert missing_programs(made) == ()
    assert find_build("mine") == made
    assert list_builds() == [made]


def test_a_build_finds_its_libraries_without_the_tree_that_it_was_compiled_in(
    llama_cpp: Path, cache_folder: Path
) -> None:
    made = make_build(llama_cpp, [], False, "mine")
    shutil.rmtree(cache_folder / "trees")
    moved = cache_folder.parent / "moved"
    shutil.move(made.bin_dir, moved)
    for program in ("llama-server", "ggml-rpc-server", "llama-fit-params", "llama-bench"):
        assert subprocess.run([moved / program, "--help"], capture_output=True, check=False).returncode == 0


def test_progress_counts_every_step_up_to_the_last(llama_cpp: Path) -> None:
    seen = Seen()
    make_build(llama_cpp, [], False, "mine", seen)
    assert list(dict.fromkeys(progress.stage for progress in seen)) == [BuildStage.CONFIGURE, BuildStage.COMPILE]
    steps = [progress for progress in seen if progress.done]
    assert [progress.done for progress in steps] == list(range(1, len(steps) + 1))
    assert {progress.total for progress in steps} == {len(steps)}
    assert any("ggml.c" in progress.detail for progress in steps)


def test_other_flags_make_another_build_in_another_tree(llama_cpp: Path, cache_folder: Path) -> None:
    shared = make_build(llama_cpp, [], False, "shared")
    static = make_build(llama_cpp, ["BUILD_SHARED_LIBS=OFF"], False, "static")
    without_rpc = make_build(llama_cpp, ["-DGGML_RPC:BOOL=OFF"], False, "without-rpc")
    assert (shared.shared_libraries, static.shared_libraries) == (True, False)
    assert shared.identity != static.identity
    assert missing_programs(without_rpc) == ("ggml-rpc-server",)
    assert missing_programs(find_build("shared")) == ()
    assert len(list((cache_folder / "trees").iterdir())) == 3
    assert [build.name for build in list_builds()] == ["shared", "static", "without-rpc"]


def test_an_edited_source_is_compiled_anew_only_where_it_changed_and_leaves_earlier_builds_alone(
    llama_cpp: Path,
) -> None:
    before = make_build(llama_cpp, [], False, "before")
    ggml = llama_cpp / "ggml.c"
    ggml.write_text(ggml.read_text().replace("42", "43"))
    seen = Seen()
    after = make_build(llama_cpp, [], False, "after", seen)
    assert "0.1.43" in after.version
    assert objects_of(seen.compiled) == ["CMakeFiles/ggml-base.dir/ggml.c.o"]
    assert before.identity != after.identity
    assert find_build("before") == before
    assert is_unchanged(before)


def test_the_same_source_and_flags_under_two_names_are_one_build(llama_cpp: Path) -> None:
    first, second = (make_build(llama_cpp, [], False, name) for name in ("first", "second"))
    assert (second.name, second.bin_dir, second.sha256) == ("second", first.bin_dir, first.sha256)


def test_a_compiler_error_is_shown_with_the_log_and_once_mended_the_build_goes_on(llama_cpp: Path) -> None:
    ggml = llama_cpp / "ggml.c"
    right = ggml.read_text()
    ggml.write_text(right + "int broken = ;\n")
    with pytest.raises(BuildFailedError, match=r"compiling llama\.cpp failed: .*ggml\.c:2:14: error: ") as caught:
        make_build(llama_cpp, [], False, "mine")
    assert "int broken = ;" in "\n".join(caught.value.output)
    log = Path(re.findall(r"the whole log: (\S+);", caught.value.hint)[0])
    assert "error: " in log.read_text()
    assert list_builds() == []
    ggml.write_text(right)
    assert make_build(llama_cpp, [], False, "mine").commit == ""


def test_an_error_of_cmake_is_shown_with_its_place(llama_cpp: Path) -> None:
    lists = llama_cpp / "CMakeLists.txt"
    lists.write_text(lists.read_text() + 'message(FATAL_ERROR "needs a better day")\n')
    with pytest.raises(
        BuildFailedError, match=r"configuring llama\.cpp failed: CMake Error at CMakeLists\.txt:\d+.*needs a better day"
    ):
        make_build(llama_cpp, [], False, "mine")


def test_an_undefined_symbol_is_shown_by_name(llama_cpp: Path) -> None:
    (llama_cpp / "ggml.c").write_text("int something_else(void) { return 1; }\n")
    with pytest.raises(BuildFailedError, match="undefined reference to `ggml_answer'"):
        make_build(llama_cpp, [], False, "mine")


StartBuild = Callable[[Path, Path], "subprocess.Popen[str]"]


@pytest.fixture
def start_build() -> Iterator[StartBuild]:
    """Starts builds that print a line per step and make llama-server only once the gate is there."""
    program = (
        "import sys; from pathlib import Path; from k3prof.llama.compile import make_build\n"
        "show = lambda p: print(p.stage.name, p.done, p.detail, flush=True)\n"
        "print(make_build(Path(sys.argv[1]), ['GATE=' + sys.argv[2]], False, 'mine', show).version)"
    )
    with contextlib.ExitStack() as started:

        def start(llama_cpp: Path, gate: Path) -> subprocess.Popen[str]:
            building = subprocess.Popen(
                [sys.executable, "-c", program, str(llama_cpp), str(gate)],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            started.enter_context(building)
            started.callback(building.kill)
            return building

        yield start


def wait_at_the_gate(building: subprocess.Popen[str]) -> list[str]:
    """Read a build's steps until all that does not wait for the gate is done, and return what was compiled."""
    assert building.stdout is not None
    steps: list[str] = []
    # The library and the three programs beside the server.
    while len([step for step in steps if "Linking" in step]) < 4:
        steps.append(building.stdout.readline().strip())
        assert steps[-1], "the build ended before the gate"
    return objects_of(steps)


def objects_of(steps: list[str]) -> list[str]:
    return sorted(step.rpartition(" ")[2] for step in steps if "Building" in step)


def processes_at(gate: Path) -> list[psutil.Process]:
    """Return the processes with the gate on their command line: the build, and the shell that waits under ninja."""
    processes = psutil.process_iter(["cmdline"])
    return [process for process in processes if any(str(gate) in word for word in process.info["cmdline"] or ())]


def until_all_are_gone(gate: Path) -> None:
    deadline = time.monotonic() + 30
    while processes_at(gate):
        assert time.monotonic() < deadline, "the build's children outlived it"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_build_that_is_stopped_leaves_no_process_and_goes_on_where_it_stopped(
    llama_cpp: Path, tmp_path: Path, start_build: StartBuild, number: signal.Signals
) -> None:
    gate = tmp_path / "gate"
    building = start_build(llama_cpp, gate)
    compiled = wait_at_the_gate(building)
    assert len(processes_at(gate)) > 1
    building.send_signal(number)
    building.wait(30)
    until_all_are_gone(gate)
    assert list_builds() == []

    gate.touch()
    seen = Seen()
    made = make_build(llama_cpp, [f"GATE={gate}"], False, "mine", seen)
    assert made.version.startswith("0.1.42")
    assert len(compiled) == 4
    assert objects_of(seen.compiled) == ["CMakeFiles/llama-server.dir/server.c.o"]


def test_a_second_build_of_the_same_waits_for_the_first_and_says_so(
    llama_cpp: Path, tmp_path: Path, start_build: StartBuild
) -> None:
    gate = tmp_path / "gate"
    first = start_build(llama_cpp, gate)
    wait_at_the_gate(first)
    second = start_build(llama_cpp, gate)
    assert second.stdout is not None
    assert second.stdout.readline().startswith("WAIT")
    gate.touch()
    assert "0.1.42" in first.communicate(timeout=60)[0]
    assert "0.1.42" in second.communicate(timeout=60)[0]


@pytest.fixture
def pinned(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pin a small archive of llama-cpp-python's shape, which pip finds in a folder."""
    top = tmp_path / "archives" / "llama_cpp_python-0.3.36"
    shutil.copytree(repository / "tests/doubles/fake_sdist", top)
    shutil.copytree(repository / "tests/doubles/fake_llama_cpp", top / "vendor/llama.cpp")
    head = top / ".git/modules/vendor/llama.cpp/HEAD"
    head.parent.mkdir(parents=True)
    head.write_text(f"{COMMIT}\n")
    (top / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: llama_cpp_python\nVersion: 0.3.36\n")
    archive = top.parent / f"{top.name}.tar.gz"
    with tarfile.open(archive, "w:gz") as content:
        content.add(top, top.name)
    lock = tmp_path / "llama_cpp.lock"
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    lock.write_text(f"llama-cpp-python==0.3.36 \\\n    --hash=sha256:{sha256}\n")
    monkeypatch.setattr(source, "_LOCK", lock)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(archive.parent))
    return archive


def test_the_pinned_source_is_fetched_once_and_its_build_made_once(pinned: Path) -> None:
    seen = Seen()
    made = make_build(None, [], False, "default", seen)
    assert [*dict.fromkeys(progress.stage for progress in seen)] == [
        BuildStage.FETCH,
        BuildStage.UNPACK,
        BuildStage.CONFIGURE,
        BuildStage.COMPILE,
    ]
    assert made.source == "llama_cpp_python-0.3.36"
    assert made.commit == COMMIT[:7]
    pinned.unlink()
    again = Seen()
    assert make_build(None, [], False, "default", again) == made
    assert again == []


def test_a_finished_build_that_was_spoilt_is_noticed_and_made_again(pinned: Path) -> None:
    made = make_build(None, [], False, "default")
    with (Path(made.bin_dir) / "llama-server").open("ab") as server:
        server.write(b"more")
    with pytest.raises(MachineError, match="was changed after it was made"):
        find_build("default")
    assert make_build(None, [], False, "default") == made
    assert find_build("default") == made


def test_an_archive_with_another_hash_is_refused(pinned: Path, cache_folder: Path) -> None:
    with pinned.open("ab") as archive:
        archive.write(b"x")
    with pytest.raises(MachineError, match=r"could not be fetched: .*HASH"):
        make_build(None, [], False, "default")
    assert [path.name for path in (cache_folder / "sources").iterdir()] == ["lock"]


def test_an_archive_that_cannot_be_found_says_what_to_do_without_a_network(pinned: Path) -> None:
    pinned.unlink()
    with pytest.raises(MachineError, match="could not be fetched: ") as caught:
        make_build(None, [], False, "default")
    assert "--source DIR" in caught.value.hint


def test_the_lock_file_that_is_shipped_pins_one_hash(pinned: Path) -> None:
    shipped = (Path(source.__file__).parent / "llama_cpp.lock").read_text()
    assert re.fullmatch(r"llama-cpp-python==[\d.]+ \\\n    --hash=sha256:[0-9a-f]{64}\n", shipped)


@pytest.mark.parametrize("wrong", ["GGML_CUDA", "-G Ninja", "=ON", "--fresh", "A B=1"])
def test_what_is_no_definition_is_refused(llama_cpp: Path, wrong: str) -> None:
    with pytest.raises(ConfigError, match="not a definition for CMake"):
        make_build(llama_cpp, [wrong], False, "mine")


@pytest.mark.parametrize("wrong", ["", "a/b", "../a", "-x", ".hidden", "a b", "x" * 65])
def test_a_name_that_is_none_is_refused_before_anything_starts(llama_cpp: Path, wrong: str) -> None:
    with pytest.raises(ConfigError, match="not a build's name"):
        make_build(llama_cpp, [], False, wrong)


def test_a_folder_that_is_no_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no CMakeLists\.txt"):
        make_build(tmp_path, [], False, "mine")
    with pytest.raises(ConfigError, match="no such folder"):
        make_build(tmp_path / "absent", [], False, "mine")


def test_a_source_that_makes_no_server_is_refused(llama_cpp: Path) -> None:
    lists = llama_cpp / "CMakeLists.txt"
    lists.write_text(lists.read_text().replace("llama-server", "something-else"))
    with pytest.raises(ConfigError, match="make no llama-server"):
        make_build(llama_cpp, [], False, "mine")


def test_a_machine_without_a_compiler_is_told_what_to_install(
    llama_cpp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match="no C compiler here") as caught:
        make_build(llama_cpp, [], False, "mine")
    assert "apt install build-essential" in caught.value.hint


def test_a_compiler_that_is_named_but_absent_is_refused(llama_cpp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="--cmake CMAKE_CXX_COMPILER: nope"):
        make_build(llama_cpp, ["CMAKE_CXX_COMPILER=nope"], False, "mine")
    monkeypatch.setenv("CC", "nope -O2")
    with pytest.raises(ConfigError, match="CC: nope -O2: no such compiler"):
        make_build(llama_cpp, [], False, "mine")


def test_cuda_without_nvcc_is_refused(llama_cpp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDACXX", str(tmp_path / "nvcc"))
    with pytest.raises(MachineError, match="no CUDA compiler here"):
        make_build(llama_cpp, [], True, "cuda")


def fake_cuda(folder: Path, monkeypatch: pytest.MonkeyPatch, capability: str) -> None:
    """Put an nvcc and an nvidia-smi on the PATH, of which only the answers matter."""
    answers = {
        "nvcc": "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88",
        "nvidia-smi": capability,
    }
    folder.mkdir(exist_ok=True)
    for name, answer in answers.items():
        (folder / name).write_text(f"#!/bin/sh\nprintf '%s\\n' '{answer}'\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDACXX", raising=False)


def test_cuda_without_a_gpu_asks_for_its_architecture(
    llama_cpp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cuda(tmp_path / "cuda", monkeypatch, "")
    with pytest.raises(MachineError, match="no NVIDIA GPU is visible") as caught:
        make_build(llama_cpp, [], True, "cuda")
    assert "CMAKE_CUDA_ARCHITECTURES=86" in caught.value.hint
    assert "-DGGML_CUDA=ON" in make_build(llama_cpp, ["CMAKE_CUDA_ARCHITECTURES=86"], True, "cuda").cmake_flags


def test_another_gpu_makes_another_build(
    llama_cpp: Path, tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for capability in ("8.6", "9.0", "8.6"):
        fake_cuda(tmp_path / "cuda", monkeypatch, capability)
        make_build(llama_cpp, [], True, "cuda")
    assert len(list((cache_folder / "trees").iterdir())) == 2


def test_too_little_space_is_said_before_anything_is_compiled(
    llama_cpp: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "_TREE_BYTES", 2**60)
    with pytest.raises(MachineError, match=r"compiling llama\.cpp takes about \d+ MiB, \d+ MiB are free"):
        make_build(llama_cpp, [], False, "mine")
    assert not list(cache_folder.glob("trees/*/CMakeCache.txt"))


def test_a_cache_that_cannot_be_made_is_named(llama_cpp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(MachineError, match="cannot be made") as caught:
        make_build(llama_cpp, [], False, "mine")
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_a_relative_cache_is_ignored_as_its_specification_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.cache_dir() == tmp_path / ".cache" / "k3prof"


def test_a_build_compiled_for_another_processor_is_refused_with_what_is_lacking(
    llama_cpp: Path, cache_folder: Path
) -> None:
    make_build(llama_cpp, [], False, "mine")
    record = cache_folder / "builds" / "mine.json"
    content = json.loads(record.read_text())
    assert content["instruction_sets"]
    content["instruction_sets"].append("avx9000")
    record.write_text(json.dumps(content))
    with pytest.raises(MachineError, match="compiled for another processor, with avx9000"):
        find_build("mine")


def test_a_build_for_any_processor_is_bound_to_none(llama_cpp: Path, cache_folder: Path) -> None:
    make_build(llama_cpp, ["GGML_NATIVE=OFF"], False, "any")
    assert json.loads((cache_folder / "builds" / "any.json").read_text())["instruction_sets"] == []
