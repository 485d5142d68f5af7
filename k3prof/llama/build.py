"""llama.cpp builds: what identifies one, and the register of those that are on this machine.

Under `builds/` in the cache, `NAME.json` describes the build of that name. Builds that k3prof made lie beside it, each
in a folder named after its code and the way it was made, and are never changed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from k3prof.core.build import Build
from k3prof.core.flags import nearest
from k3prof.errors import ConfigError, MachineError
from k3prof.llama.cache import cache_dir, write_whole
from k3prof.llama.processor import instruction_sets
from k3prof.llama.programs import ask, clean_environment, printable

SERVER = "llama-server"
PROGRAMS = (SERVER, "ggml-rpc-server", "llama-fit-params", "llama-bench")
REGISTERED = "registered"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHARED_LIBRARY = re.compile(r".+\.so(\.[0-9.]+)?")
# What the dynamic loader prints for LD_TRACE_LOADED_OBJECTS, which is all that ldd asks for.
_LOADED = re.compile(r"^\s+(?P<name>\S+) => (?P<path>/.+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_OURS = re.compile(r"lib(ggml|llama|mtmd)\b.*")

_VERSION = re.compile(r"^version: *(?P<text>\S.*)$", re.MULTILINE)
# `0.5.0-dev (build 1, commit 0c1e570)`; builds before 2026 said `5432 (0c1e570)`.
_COMMIT = re.compile(r"\((?:.*commit )?(?P<commit>[0-9a-f]{7,40})\)")
_COMPILER = re.compile(r"^built with *(?P<text>\S.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Registration:
    """A build as the register keeps it.

    Attributes:
        build: The build.
        instruction_sets: What a processor must have to run it; empty when that is not known.
    """

    build: Build
    instruction_sets: tuple[str, ...] = ()


_REGISTRATION = TypeAdapter(Registration)


def builds_dir() -> Path:
    """Return the folder of the register."""
    return cache_dir() / "builds"


def probe(bin_dir: Path, name: str, cmake_flags: tuple[str, ...] = (), source: str = REGISTERED) -> Build:
    """Run a build's llama-server and describe the build.

    Args:
        bin_dir: The folder of its programs, or the build folder above, or llama-server itself.
        name: What it is to be called.
        cmake_flags: How it was configured, where that is known.
        source: Where it came from.

    Raises:
        ConfigError: There is no llama-server.
        MachineError: It does not run on this machine; the message says why.
    """
    server = _server(bin_dir.expanduser())
    said = ask(server, "--version")
    text = f"{said.stdout}\n{said.stderr}"
    version = _VERSION.search(text)
    if version is None:
        raise ConfigError(f"{server}: does not say a version as llama.cpp's llama-server does", "run it by hand to see")
    commit = _COMMIT.search(version["text"])
    compiler = _COMPILER.search(text)
    code = _code(server)
    return Build(
        name=name,
        bin_dir=str(server.parent),
        version=printable(version["text"]).strip(),
        commit=commit["commit"] if commit else "",
        compiler=printable(compiler["text"]).strip() if compiler else "",
        cmake_flags=cmake_flags,
        source=source,
        sha256=code.sha256(),
        shared_libraries=code.shares_ggml,
    )


def register(registration: Registration) -> Build:
    """Remember a build under its name, in place of an older one of that name, and return it."""
    build = registration.build
    write_record(builds_dir() / f"{check_name(build.name)}.json", registration)
    return build


def use_build(path: Path, name: str) -> Build:
    """Register a build that somebody else made.

    Raises:
        ConfigError: There is none, or the name may not be one.
        MachineError: It does not run on this machine.
    """
    return register(Registration(probe(path, check_name(name))))


def find_build(name: str) -> Build:
    """Return the build of a name, or the one in a folder: anything with a slash in it is a path.

    A registered build that somebody compiled anew is described anew.

    Raises:
        ConfigError: There is no such build.
        MachineError: It is gone, was changed, or does not run on this machine.
    """
    if os.sep in name or name in {".", "..", "~"}:
        return probe(Path(name), name)
    path = builds_dir() / f"{name}.json"
    if not _NAME.fullmatch(name) or not path.is_file():
        raise _unknown(name)
    found = read_record(path)
    build, server = found.build, Path(found.build.bin_dir) / SERVER
    if not server.is_file():
        raise MachineError(f"build {name!r}: {server} is gone", _again(build))
    if lacking := sorted(set(found.instruction_sets) - instruction_sets()):
        raise MachineError(
            f"build {name!r} was compiled for another processor, with {', '.join(lacking)}",
            f"{_again(build)}; one that runs on both: add --cmake GGML_NATIVE=OFF",
        )
    if is_unchanged(build):
        return build
    if build.source != REGISTERED:
        raise MachineError(f"build {name!r}: {build.bin_dir} was changed after it was made", _again(build))
    return use_build(server, name)


def list_builds() -> list[Build]:
    """Return the builds in the register, by name.

    Raises:
        MachineError: A record cannot be read.
    """
    return [read_record(path).build for path in sorted(builds_dir().glob("[!.]*.json"))]


def is_unchanged(build: Build) -> bool:
    """Return whether a build's code is still that which it was described by."""
    server = Path(build.bin_dir) / SERVER
    return server.is_file() and _code(server).sha256() == build.sha256


def missing_programs(build: Build) -> tuple[str, ...]:
    """Return which of the programs that k3prof uses the build lacks; all when it is gone."""
    return tuple(name for name in PROGRAMS if not (Path(build.bin_dir) / name).is_file())


def is_shared_library(path: Path) -> bool:
    """Return whether a file is called as a shared library is, with a version behind or not."""
    return _SHARED_LIBRARY.fullmatch(path.name) is not None


def read_record(path: Path) -> Registration:
    """Return what `write_record` wrote.

    Raises:
        MachineError: It cannot be read.
    """
    try:
        return _REGISTRATION.validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise MachineError(f"{path}: not a readable record of a build", "remove that file, then build again") from error


def write_record(path: Path, registration: Registration) -> None:
    """Write a build's record."""
    write_whole(path, _REGISTRATION.dump_json(registration, indent=2).decode())


def check_name(name: str) -> str:
    """Return a build's name if it may be one.

    Raises:
        ConfigError: It may not.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"--name {printable(name)!r}: not a build's name", "use letters, digits, '.', '_' and '-', up to 64"
        )
    return name


def _server(path: Path) -> Path:
    if not path.exists():
        raise ConfigError(f"{path}: no such file or folder", "give the folder that holds a build's programs")
    candidates = [path] if path.is_file() else [path / SERVER, path / "bin" / SERVER]
    server = next((candidate for candidate in candidates if candidate.is_file()), None)
    if server is None or server.name != SERVER:
        raise ConfigError(f"{path}: no {SERVER} there", f"give the folder that holds {SERVER}")
    # Its libraries lie where the file really is, unless the link also renames it.
    real = server.resolve()
    return real if real.name == SERVER else server.absolute()


@dataclass(frozen=True)
class _Code:
    """The files whose code runs.

    Attributes:
        files: llama-server and its libraries.
        shares_ggml: Whether ggml is one of the libraries.
    """

    files: tuple[Path, ...]
    shares_ggml: bool

    def sha256(self) -> str:
        digest = hashlib.sha256()
        for file in self.files:
            with file.open("rb") as content:
                digest.update(file.name.encode() + b"\0" + hashlib.file_digest(content, "sha256").digest())
        return digest.hexdigest()


def _code(server: Path) -> _Code:
    # Backends may be loaded by name at run time, so all libraries beside the server count.
    beside = {path.name: path for path in server.parent.iterdir() if is_shared_library(path)}
    loaded = dict(_loaded_libraries(server))
    libraries = {*beside.values(), *(path for name, path in loaded.items() if _OURS.fullmatch(name))}
    real = {library.resolve() for library in libraries if library.is_file()}
    return _Code(
        files=(server, *sorted(real, key=lambda library: (library.name, library))),
        shares_ggml=any(name.startswith("libggml") for name in (loaded or beside)),
    )


def _loaded_libraries(server: Path) -> Iterator[tuple[str, Path]]:
    # A statically linked program, and other loaders than glibc's, answer `--version` instead: nothing is found then.
    traced = ask(server, "--version", env={**clean_environment(), "LD_TRACE_LOADED_OBJECTS": "1"})
    for match in _LOADED.finditer(traced.stdout):
        yield match["name"], Path(match["path"])


def _unknown(name: str) -> ConfigError:
    known = [path.stem for path in builds_dir().glob("[!.]*.json")]
    if Path(name).is_dir():
        return ConfigError(f"no build is called {printable(name)!r}", f"for the folder, write ./{name}")
    if near := nearest(name, known):
        return ConfigError(f"no build is called {printable(name)!r}", f"did you mean {near}? `k3prof build list`")
    how = "make it with `k3prof build`" if name == "default" else f"make it with `k3prof build --name {name}`"
    return ConfigError(f"no build is called {printable(name)!r}", f"{how}; `k3prof build list` shows those here")


def _again(build: Build) -> str:
    if build.source == REGISTERED:
        return f"register it again: `k3prof build --use PATH --name {build.name}`"
    cuda = " --cuda" if "-DGGML_CUDA=ON" in build.cmake_flags else ""
    return f"make it again: `k3prof build{cuda} --name {build.name}`"
