"""Where the source of a build comes from: a folder, or the llama.cpp inside the pinned llama-cpp-python sdist.

The sdist is fetched with the user's own pip, so that their mirrors, proxies and certificates count, and only the one
archive whose hash stands in `llama_cpp.lock` is accepted.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from k3prof.core.build import BuildProgress, BuildStage
from k3prof.errors import ConfigError, MachineError
from k3prof.llama.cache import cache_dir, check_space, locked
from k3prof.llama.compile_log import last_error
from k3prof.llama.logged import run_logged
from k3prof.llama.programs import printable

_LOCK = Path(__file__).with_name("llama_cpp.lock")
_PINNED = re.compile(r"^(?P<project>[\w-]+)==(?P<version>\S+)[\s\\]+--hash=sha256:(?P<sha256>[0-9a-f]{64})\s*$", re.M)
_UNPACKED_BYTES = 300 * 2**20
"""The archive (77 MB) and what is taken out of it (176 MB)."""

_WITHOUT_NETWORK = (
    "without a network: `--source DIR` compiles a llama.cpp that is here, `--use PATH` takes a finished one"
)


@dataclass(frozen=True)
class Source:
    """A llama.cpp source tree.

    Attributes:
        folder: Where its CMakeLists.txt lies.
        name: For people: the folder again, or the archive that it came from.
        commit: llama.cpp's commit where the folder itself does not know it; else empty.
        is_pinned: Whether it never changes, so that what was once built from it need not be built again.
    """

    folder: Path
    name: str
    commit: str
    is_pinned: bool


def local_source(folder: Path) -> Source:
    """Return a source tree of the user's.

    Raises:
        ConfigError: It is none.
    """
    folder = folder.expanduser().absolute()
    if not (folder / "CMakeLists.txt").is_file():
        what = "no CMakeLists.txt in it" if folder.is_dir() else "no such folder"
        raise ConfigError(f"--source {folder}: {what}", "give the top folder of a llama.cpp checkout")
    return Source(folder.resolve(), str(folder.resolve()), commit="", is_pinned=False)


def pinned_source(progress: Callable[[BuildProgress], None]) -> Source:
    """Return the pinned llama.cpp, fetched and unpacked if it is not in the cache yet.

    Raises:
        MachineError: It cannot be fetched, is not the pinned one, or there is no space for it.
    """
    pinned = _PINNED.search(_LOCK.read_text())
    if pinned is None:
        raise MachineError(f"{_LOCK}: pins no llama.cpp", "install k3prof again")
    name = f"{pinned['project'].replace('-', '_')}-{pinned['version']}"
    sources = cache_dir() / "sources"
    home = sources / f"{name}-{pinned['sha256'][:12]}"
    with locked(sources, lambda: progress(BuildProgress(BuildStage.WAIT))):
        if not home.is_dir():
            for remains in sources.glob(".unfinished-*"):
                shutil.rmtree(remains, ignore_errors=True)
            check_space(sources, _UNPACKED_BYTES, "llama.cpp's source")
            with TemporaryDirectory(dir=sources, prefix=".unfinished-") as unfinished:
                draft = Path(unfinished)
                progress(BuildProgress(BuildStage.FETCH, detail=name))
                archive = _fetch(draft, pinned["project"], pinned["sha256"])
                progress(BuildProgress(BuildStage.UNPACK, detail=archive.name))
                _unpack(archive, name, draft / "home")
                (draft / "home").replace(home)
    commit = (home / "commit").read_text().strip() if (home / "commit").is_file() else ""
    return Source(home / "llama.cpp", name, commit, is_pinned=True)


def _fetch(folder: Path, project: str, sha256: str) -> Path:
    argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", project, "--require-hashes"]
    # pip asks the archive for its metadata, which takes the archive's build backend: ours if it is installed, so that
    # nothing unpinned is fetched.
    argv += ["--no-build-isolation"] if importlib.util.find_spec("scikit_build_core") else []
    argv += ["--requirement", str(_LOCK), "--dest", str(folder)]
    env = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    said: list[str] = []
    if run_logged(argv, env=env, log=folder / "pip.log", on_line=said.append) != 0:
        why = printable(next(iter(last_error(said)), "pip said nothing"))
        hint = "add pip: `python -m ensurepip`" if "No module named pip" in why else _WITHOUT_NETWORK
        raise MachineError(f"llama.cpp's source could not be fetched: {why}", hint)
    archive = next(iter(folder.glob("*.tar.gz")), None)
    if archive is None:
        raise MachineError("pip fetched no source archive of llama.cpp", _WITHOUT_NETWORK)
    with archive.open("rb") as content:
        if hashlib.file_digest(content, "sha256").hexdigest() != sha256:
            raise MachineError(f"{archive.name}: not the archive whose hash k3prof pins", _WITHOUT_NETWORK)
    return archive


def _unpack(archive: Path, name: str, home: Path) -> None:
    tree, head = f"{name}/vendor/llama.cpp/", f"{name}/.git/modules/vendor/llama.cpp/HEAD"
    try:
        with tarfile.open(archive) as content:
            # Python 3.11.0 to 3.11.3 have no filters; the hash vouches for the archive there.
            content.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
            content.extractall(home, members=_renamed(content, {tree: "llama.cpp/", head: "commit"}))  # noqa: S202
    except (tarfile.TarError, OSError, EOFError) as error:
        raise MachineError(
            f"{archive.name}: cannot be unpacked: {error}", "is there space left on that disk?"
        ) from error
    if not (home / "llama.cpp" / "CMakeLists.txt").is_file():
        raise MachineError(f"{archive.name}: holds no llama.cpp", "install k3prof again")


def _renamed(content: tarfile.TarFile, prefixes: dict[str, str]) -> Iterator[tarfile.TarInfo]:
    for member in content:
        for prefix, replacement in prefixes.items():
            if member.name.startswith(prefix) and (member.isfile() or member.isdir()):
                member.name = replacement + member.name.removeprefix(prefix)
                yield member
