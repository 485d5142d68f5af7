"""What identifies one llama.cpp build."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class Build:
    """One llama.cpp build: its programs and the libraries beside them.

    Attributes:
        name: What the user calls it: `default`, `cuda`.
        bin_dir: Folder of `llama-server` and `ggml-rpc-server`, absolute.
        version: What `llama-server --version` says: `0.5.0-dev (build 1, commit 0c1e570)`.
        commit: llama.cpp's commit as the build reports it; empty when it reports none.
        compiler: What `--version` says it was built with.
        cmake_flags: The `-D…` options it was configured with; empty for a registered build that we did not make.
        source: Where it came from: a folder, an sdist's name, or `registered`.
        sha256: Over `llama-server`, every shared library that lies beside it, and llama.cpp's own that it loads from
            elsewhere.
        shared_libraries: Whether ggml is a shared library, so that calls into it can be interposed.
    """

    name: str
    bin_dir: str
    version: str
    commit: str
    compiler: str
    cmake_flags: tuple[str, ...]
    source: str
    sha256: str
    shared_libraries: bool

    @property
    def identity(self) -> str:
        """Short hash that differs whenever the code that runs differs."""
        return self.sha256[:16]


class BuildStage(StrEnum):
    """What a build is doing, in the order in which it does it."""

    WAIT = "waiting for another k3prof that makes the same build"
    FETCH = "fetching the source"
    UNPACK = "unpacking the source"
    CONFIGURE = "configuring"
    COMPILE = "compiling"


@dataclass(frozen=True)
class BuildProgress:
    """How far a build has come.

    Attributes:
        stage: What it does now.
        done: Steps of this stage that are finished.
        total: All its steps; None when it cannot tell.
        detail: The latest step, for people.
    """

    stage: BuildStage
    done: int = 0
    total: int | None = None
    detail: str = ""
