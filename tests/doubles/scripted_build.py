"""Builds of llama.cpp of a few lines of shell, which say about themselves what a test wants to hear."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from k3prof.core.build import Build
from k3prof.llama.build import SERVER, probe

_SCRIPT = """#!/bin/sh
case "$1" in
--version) echo "version: 1 (abcdef0)"; echo "built with cc 12";;
--help) cat <<'END'
{help}
END
;;
--list-devices) cat <<'END'
Available devices:
{devices}
END
;;
esac
"""


def script_build(folder: Path, flags: Sequence[str] = (), devices: Sequence[str] = ()) -> Path:
    """Write a build that knows these flags, each with a value, and lists these devices; return its folder."""
    folder.mkdir()
    options = [f"--{name} N" for name in ("ctx-size", *flags)]
    lines = [f"{option:<40}what it does" for option in options]
    server = folder / SERVER
    server.write_text(_SCRIPT.format(help="\n".join(lines), devices="\n".join(f"  {one}" for one in devices)))
    server.chmod(0o755)
    return folder


def rebuild(build: Build, folder: Path, name: str) -> Build:
    """Return a build of another identity that works as the given one does: its server has some bytes more."""
    shutil.copytree(build.bin_dir, folder, symlinks=True)
    with (folder / SERVER).open("ab") as server:
        server.write(b"compiled anew")
    return probe(folder, name)
