"""The split tracer: a small C library that llama-server is started with, compiled once and tried on each build."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from k3prof.core.build import Build
from k3prof.errors import MachineError
from k3prof.llama.build import SERVER
from k3prof.llama.cache import cache_dir, locked, make_folder
from k3prof.llama.programs import ask, clean_environment, printable
from k3prof.llama.split_ring import SplitRing
from k3prof.llama.toolchain import c_compiler

_SOURCE = Path(__file__).with_name("splits.c")
_OPTIONS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-ftls-model=initial-exec")
_LIBRARIES = ("-ldl", "-lpthread")
_ENTRY = "ggml_backend_graph_compute_async"
_COMPILE_PATIENCE_S = 120
_MAKE_ONE = "make one that can be traced: `k3prof build`"


@dataclass(frozen=True)
class SplitTracer:
    """A tracer that is known to work with a build.

    Attributes:
        library: The shared library to preload.
    """

    library: Path

    def env(self, ring: Path | str, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that make a server write to a ring, added to those that it inherits."""
        preloaded = [str(self.library), inherited.get("LD_PRELOAD", "")]
        return {"LD_PRELOAD": ":".join(filter(None, preloaded)), "K3PROF_SPLITS": str(ring)}


def split_tracer(build: Build) -> SplitTracer:
    """Return the tracer for a build.

    Raises:
        ConfigError: CC names a compiler that is not there.
        MachineError: The tracer cannot be compiled here, or the build cannot be traced; the message says why.
    """
    if not build.shared_libraries:
        raise MachineError(
            f"build {build.name!r} cannot be traced: ggml is linked into its programs, so there is no call to watch",
            f"{_MAKE_ONE}, or configure yours with -DBUILD_SHARED_LIBS=ON",
        )
    tracer = SplitTracer(compiled_tracer())
    if re.search(r"[\s:]", str(tracer.library)):
        raise MachineError(
            f"{tracer.library}: cannot be preloaded: to the dynamic loader, a space or colon ends a file's name",
            "set XDG_CACHE_HOME to a folder without them",
        )
    _try(tracer, build)
    return tracer


def compiled_tracer() -> Path:
    """Return the compiled library, compiling it if this compiler has not done so before.

    Raises:
        ConfigError: CC names a compiler that is not there.
        MachineError: There is no C compiler, or it fails.
    """
    command, identity = c_compiler()
    parts = (_SOURCE.read_bytes(), " ".join([*command, *_OPTIONS, *_LIBRARIES]).encode(), identity.encode())
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    library = cache_dir() / "tracer" / f"splits-{key}.so"
    if not library.is_file():
        with locked(library.parent, lambda: None):
            if not library.is_file():
                _compile(command, library)
    return library


def _compile(command: list[str], library: Path) -> None:
    draft = make_folder(library.parent) / f".{library.name}"
    argv = [*command, *_OPTIONS, "-o", str(draft), str(_SOURCE), *_LIBRARIES]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMPILE_PATIENCE_S,
            check=False,
        )
        if done.returncode == 0:
            draft.replace(library)
            return
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"the split tracer cannot be compiled: {error}") from error
    said = [printable(line) for line in done.stderr.splitlines()]
    reason = next((line for line in said if "error" in line), said[-1] if said else f"exit code {done.returncode}")
    raise MachineError(
        f"the split tracer cannot be compiled with {printable(command[0])}: {reason}",
        "name another C compiler with CC; gcc 9 and clang 10 can",
    )


def _try(tracer: SplitTracer, build: Build) -> None:
    """Start a build with the tracer and ask the dynamic loader whose function its scheduler calls.

    A library calls its own functions past every other one's if it was linked with -Bsymbolic or compiled with
    -fno-semantic-interposition or for link-time optimization; the loader then binds no such call.
    """
    with tempfile.TemporaryDirectory(prefix="k3prof-") as folder:
        ring = SplitRing(Path(folder) / "ring", capacity=1)
        environment = clean_environment()
        asked = {"LD_DEBUG": "bindings", "LD_BIND_NOW": "1"}
        said = ask(
            Path(build.bin_dir) / SERVER,
            "--version",
            env={**environment, **tracer.env(ring.path, environment), **asked},
        )
    if ring.missing:
        raise MachineError(
            f"build {build.name!r} cannot be traced: its ggml has no {ring.missing}, so it is older than 2025",
            _MAKE_ONE,
        )
    if ring.writer is None:
        raise MachineError(
            f"build {build.name!r} cannot be traced: no shared ggml met the tracer in its {SERVER}",
            f"the dynamic loader says why: LD_PRELOAD={tracer.library} {build.bin_dir}/{SERVER} --version",
        )
    binding = rf"binding file (?P<caller>\S+) \[\d+\] to {re.escape(str(tracer.library))} \[\d+\]: .*`{_ENTRY}'"
    if not re.search(binding, said.stderr):
        raise MachineError(
            f"build {build.name!r} cannot be traced: its ggml calls {_ENTRY} within itself, past any other library",
            f"{_MAKE_ONE}, or leave -Bsymbolic, -fno-semantic-interposition and link-time optimization out of yours",
        )
