"""Compile llama.cpp.

Each combination of source, flags, compilers and processor has its own tree under `trees/` in the cache, where ninja
goes on after an interruption or an edit of the source. A finished build is copied out of it, so that later edits do
not change what an earlier name stands for.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from k3prof.core.build import Build, BuildProgress, BuildStage
from k3prof.errors import ConfigError, MachineError
from k3prof.llama import build as builds
from k3prof.llama.build import Registration
from k3prof.llama.cache import cache_dir, check_space, locked
from k3prof.llama.compile_log import NINJA_STATUS, last_error, step
from k3prof.llama.logged import run_logged
from k3prof.llama.processor import instruction_sets
from k3prof.llama.programs import printable
from k3prof.llama.source import Source, local_source, pinned_source
from k3prof.llama.toolchain import Definitions, Toolchain, find_toolchain, jobs

_DEFAULTS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=ON",
    "-DGGML_RPC=ON",
    # Nothing is downloaded, neither while compiling nor by the server later.
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
)
# Libraries are looked for beside the program and where the linker found them (CUDA's), so that the build can be moved.
_RELOCATABLE = (
    "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",
    "-DCMAKE_INSTALL_RPATH=$ORIGIN",
    "-DCMAKE_INSTALL_RPATH_USE_LINK_PATH=ON",
)
_DEFINITION = re.compile(r"(?:-D)?(?P<definition>[A-Za-z_][\w.-]*(?::[A-Z]+)?=.*)")
_TREE_BYTES = 200 * 2**20
_CUDA_TREE_BYTES = 3 * 2**30
"""Object files and programs of a build, as measured for the processor alone, and roomy for CUDA's kernels."""


class BuildFailedError(MachineError):
    """CMake or a compiler refused.

    Attributes:
        output: The few lines of theirs that say why.
    """

    def __init__(self, message: str, hint: str, output: Sequence[str]) -> None:
        super().__init__(message, hint)
        self.output = tuple(output)


def make_build(
    source: Path | None,
    cmake: Sequence[str],
    cuda: bool,
    name: str,
    progress: Callable[[BuildProgress], None] = lambda _: None,
) -> Build:
    """Compile llama.cpp, or find that it is compiled already, and register the build.

    Args:
        source: The top folder of a llama.cpp checkout; the pinned source when None.
        cmake: Definitions for CMake, with or without `-D`; they overrule k3prof's own.
        cuda: Whether to compile for NVIDIA GPUs.
        name: What the build is to be called.
        progress: Told how far it is.

    Raises:
        ConfigError: The name, a definition or the source is wrong.
        MachineError: Something is missing on this machine, or compiling fails (`BuildFailedError`).
    """
    builds.check_name(name)
    flags = (*_DEFAULTS, *(["-DGGML_CUDA=ON"] if cuda else []), *map(_definition, cmake))
    definitions = Definitions(flags)
    toolchain = find_toolchain(definitions)
    found = pinned_source(progress) if source is None else local_source(source)
    processor = tuple(sorted(instruction_sets())) if definitions.is_native else ()
    key = _digest([str(found.folder), *flags, *toolchain.identity, *processor])
    tree = _Tree(cache_dir() / "trees" / key, found, flags, definitions, toolchain, progress)
    with locked(tree.folder, lambda: progress(BuildProgress(BuildStage.WAIT))):
        finished = tree.finished() if found.is_pinned else None
        if finished is None:
            tree.check_space()
            finished = tree.make(name)
        return builds.register(Registration(replace(finished, name=name), processor))


def _definition(text: str) -> str:
    match = _DEFINITION.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"--cmake {printable(text)}: not a definition for CMake", "write NAME=VALUE: `--cmake GGML_NATIVE=OFF`"
        )
    return f"-D{match['definition']}"


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class _Tree:
    """A folder in which one combination is compiled."""

    folder: Path
    source: Source
    flags: tuple[str, ...]
    definitions: Definitions
    toolchain: Toolchain
    progress: Callable[[BuildProgress], None]

    @property
    def log(self) -> Path:
        return self.folder / "build.log"

    @property
    def record(self) -> Path:
        return self.folder / "finished.json"

    def check_space(self) -> None:
        """Refuse to start what would not fit; what an earlier attempt left is not needed again."""
        whole_bytes = _CUDA_TREE_BYTES if self.definitions.is_cuda else _TREE_BYTES
        there_bytes = sum(path.lstat().st_size for path in self.folder.rglob("*"))
        check_space(self.folder, whole_bytes - there_bytes, "compiling llama.cpp")

    def finished(self) -> Build | None:
        """Return the build that was made here, if it is still what it was."""
        if not self.record.is_file():
            return None
        build = builds.read_record(self.record).build
        return build if builds.is_unchanged(build) else None

    def make(self, name: str) -> Build:
        """Configure, compile and copy out."""
        self.log.unlink(missing_ok=True)
        self._configure()
        targets = self._targets()
        # Linking all anew keeps libraries out that an earlier state of the source made under other names.
        shutil.rmtree(self.folder / "bin", ignore_errors=True)
        self._compile(targets)
        build = self._copy_out(name)
        builds.write_record(self.record, Registration(build))
        return build

    def _configure(self) -> None:
        self.progress(BuildProgress(BuildStage.CONFIGURE, detail=self.source.name))
        commit = [f"-DLLAMA_BUILD_COMMIT={self.source.commit[:7]}"] if self.source.commit else []
        argv = [self.toolchain.cmake, "-S", str(self.source.folder), "-B", str(self.folder), "-G", "Ninja"]
        argv += [f"-DCMAKE_MAKE_PROGRAM={self.toolchain.ninja}", *_RELOCATABLE, *commit, *self.flags]
        self._run("configuring", argv, {})

    def _targets(self) -> list[str]:
        """Return which of the programs this source can make: older ones have not all of them."""
        asked = [self.toolchain.ninja, "-C", str(self.folder), "-t", "targets", "all"]
        listed = subprocess.run(asked, capture_output=True, text=True, errors="replace", check=False).stdout
        known = {line.partition(":")[0] for line in listed.splitlines()}
        if builds.SERVER not in known:
            raise ConfigError(
                f"{self.source.folder}: its CMake files make no {builds.SERVER} with these flags",
                "give the top folder of a llama.cpp checkout, and check --cmake",
            )
        return [program for program in builds.PROGRAMS if program in known]

    def _compile(self, targets: Sequence[str]) -> None:
        self.progress(BuildProgress(BuildStage.COMPILE))
        chosen = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", "")
        at_once = int(chosen) if chosen.isdecimal() else jobs(self.definitions.is_cuda)
        argv = [self.toolchain.ninja, "-C", str(self.folder), *([f"-j{at_once}"] if at_once else []), *targets]
        self._run("compiling", argv, {"NINJA_STATUS": NINJA_STATUS})

    def _run(self, what: str, argv: Sequence[str], extra_env: Mapping[str, str]) -> None:
        said: list[str] = []

        def follow(line: str) -> None:
            said.append(line)
            if at := step(printable(line)):
                self.progress(BuildProgress(BuildStage.COMPILE, *at))

        env = {**os.environ, **self.toolchain.env, **extra_env, "LC_ALL": "C"}
        # A source that is no checkout must not take its commit from a repository that it happens to lie in.
        env["GIT_CEILING_DIRECTORIES"] = str(self.source.folder.parent)
        if run_logged(argv, env=env, log=self.log, on_line=follow) != 0:
            output = [printable(line) for line in last_error(said)]
            # CMake says where in its first line, what in its second.
            n_telling = 2 if output and output[0].startswith("CMake Error") else 1
            why = " ".join(line.strip() for line in output[:n_telling]) or "no word of why"
            raise BuildFailedError(f"{what} llama.cpp failed: {why}", self._remedy(output), output)

    def _remedy(self, output: Sequence[str]) -> str:
        said = "\n".join(output)
        whole = f"the whole log: {self.log}"
        if "No space left" in said:
            return f"make space on the disk of {self.folder}, or set XDG_CACHE_HOME to a folder on another; {whole}"
        if "Killed" in said:
            return f"memory ran out: compile fewer files at once with CMAKE_BUILD_PARALLEL_LEVEL=1; {whole}"
        return f"{whole}; the same command again goes on where this one stopped"

    def _copy_out(self, name: str) -> Build:
        draft = self.folder / "draft"
        shutil.rmtree(draft, ignore_errors=True)
        (draft / "bin").mkdir(parents=True)
        for path in (self.folder / "bin").iterdir():
            if path.name in builds.PROGRAMS or builds.is_shared_library(path):
                shutil.copy2(path, draft / "bin" / path.name, follow_symlinks=False)
        build = builds.probe(draft / "bin", name, self.flags, self.source.name)
        # Not by its identity alone: a build without some of the programs may have the same llama-server.
        home = builds.builds_dir() / f"{build.identity}-{self.folder.name}"
        build = replace(build, bin_dir=str(home / "bin"))
        with locked(builds.builds_dir(), lambda: self.progress(BuildProgress(BuildStage.WAIT))):
            if not builds.is_unchanged(build):
                shutil.rmtree(home, ignore_errors=True)
                draft.replace(home)
        return build
