"""A llama.cpp of a few lines, compiled here: what its devices really did is known, and how it is linked is chosen."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from k3prof.core.build import Build
from k3prof.llama.build import SERVER, probe
from k3prof.llama.splits import SplitTracer, compiled_tracer

_SOURCES = Path(__file__).with_name("traced_ggml")
RECORDS_PER_PASS = 6
"""Seen lightly: the pass itself, a split on each of the four devices, one copy."""


def compile_build(folder: Path, *, static: bool = False, options: tuple[str, ...] = ()) -> Build:
    """Compile the program and its library, or both in one, and describe them as k3prof does."""
    folder.mkdir(parents=True, exist_ok=True)
    ggml, server = _SOURCES / "ggml.c", _SOURCES / "server.c"
    if static:
        _cc(*options, "-o", folder / SERVER, server, ggml, "-lpthread")
    else:
        library = folder / "libggml-base.so"
        _cc(*options, "-fPIC", "-shared", "-Wl,-soname,libggml-base.so", "-o", library, ggml)
        _cc("-o", folder / SERVER, server, library, "-Wl,-rpath,$ORIGIN", "-lpthread")
    return probe(folder, "double")


def _cc(*arguments: str | Path) -> None:
    subprocess.run(["cc", "-O2", *map(str, arguments)], check=True, timeout=60)


@dataclass(frozen=True)
class Truth:
    """What a device did: `compute` or `copy`, from when to when in monotonic ns."""

    kind: str
    device: str
    begin_ns: int
    end_ns: int


@contextlib.contextmanager
def running(
    build: Build, ring: Path, passes: int, *, split_ms: int = 0, threads: int = 1, truth: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """Run it with the tracer; it is killed at the end."""
    env = {**os.environ, **SplitTracer(compiled_tracer()).env(ring, {}), **({"SAY_TRUTH": "1"} if truth else {})}
    argv = [f"{build.bin_dir}/{SERVER}", str(passes), str(split_ms), str(threads)]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def told(process: subprocess.Popen[str]) -> list[Truth]:
    """Wait until all passes are done, and return what the devices did in them."""
    assert process.stdout is not None
    found = []
    for line in process.stdout:
        if line == "done\n":
            return found
        kind, device, begin_ns, end_ns = line.split()
        found.append(Truth(kind, device, int(begin_ns), int(end_ns)))
    raise AssertionError(f"it ended with code {process.wait()}")
