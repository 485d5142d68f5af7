from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from k3prof.core.build import Build
from k3prof.core.trial import Failure
from k3prof.llama.demo_model import demo_model
from k3prof.llama.devices import free_port
from k3prof.llama.server import Loading, ServerFailedError, running_server
from tests.doubles.completion_server import completion_server
from tests.llama.test_child import eventually, is_running

SILENT = "#!/bin/sh\nexec sleep 600\n"
CHATTY = "#!/bin/sh\nfor n in 1 2 3 4 5 6 7 8; do sleep 0.25; echo line $n; done\nexit 3\n"


def script(folder: Path, text: str) -> list[str]:
    path = folder / "llama-server"
    path.write_text(text)
    path.chmod(0o755)
    return [str(path)]


def ignore(_: Loading) -> None:
    return


def start(folder: Path, text: str, port: int | None = None, env: Mapping[str, str] = os.environ):
    return running_server(script(folder, text), env, port or free_port(), "ours", folder / "log")


@pytest.mark.server
def test_a_real_server_is_ready_is_ours_and_is_gone_afterwards(build: Build, tmp_path: Path) -> None:
    port = free_port()
    argv = [f"{build.bin_dir}/llama-server", "-m", str(demo_model("llama")), "--port", str(port), "--alias", "ours"]
    seen: list[Loading] = []
    with running_server(argv, os.environ, port, "ours", tmp_path / "log") as server:
        server.wait_until_ready(60, seen.append)
        server.raise_if_dead(0.1)
    assert not is_running(server.pid)
    assert "listening" in server.log_text()
    assert all(one.silent_s <= one.elapsed_s for one in seen)


@pytest.mark.server
def test_a_server_that_cannot_load_its_model_is_a_failure_with_its_own_words(build: Build, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + b"\0" * 100)
    port = free_port()
    argv = [f"{build.bin_dir}/llama-server", "-m", str(tmp_path / "m.gguf"), "--port", str(port)]
    with (
        running_server(argv, os.environ, port, "ours", tmp_path / "log") as server,
        pytest.raises(ServerFailedError) as caught,
    ):
        server.wait_until_ready(60, ignore)
    assert caught.value.outcome.failure is Failure.BAD_MODEL
    assert caught.value.outcome.evidence


def test_another_server_on_the_port_is_not_taken_for_ours(tmp_path: Path) -> None:
    with completion_server(lambda *_: None) as url:
        port = int(url.rpartition(":")[2])
        with start(tmp_path, SILENT, port) as server, pytest.raises(ServerFailedError) as caught:
            server.wait_until_ready(60, ignore)
    assert caught.value.outcome.failure is Failure.PORT_TAKEN
    assert "not the server that was started" in caught.value.outcome.message


def test_a_silent_server_is_stalled_after_the_patience(tmp_path: Path) -> None:
    seen: list[Loading] = []
    with start(tmp_path, SILENT) as server, pytest.raises(ServerFailedError) as caught:
        server.wait_until_ready(0.8, seen.append)
    assert caught.value.outcome.failure is Failure.STALLED
    assert max(one.silent_s for one in seen) > 0.8
    assert eventually(lambda: not is_running(server.pid))


def test_a_server_that_keeps_writing_its_log_is_waited_for_until_it_ends(tmp_path: Path) -> None:
    began = time.monotonic()
    with start(tmp_path, CHATTY) as server, pytest.raises(ServerFailedError) as caught:
        server.wait_until_ready(0.8, ignore)
    assert caught.value.outcome.failure is Failure.CRASHED
    assert time.monotonic() - began >= 2.0  # eight lines, a quarter of a second apart, each within the patience
    assert "line 8" in server.log_text()


def test_a_server_that_lives_is_not_dead(tmp_path: Path) -> None:
    with start(tmp_path, SILENT) as server:
        server.raise_if_dead(0.1)
        os.kill(server.pid, 9)
        with pytest.raises(ServerFailedError, match="SIGKILL"):
            server.raise_if_dead(5)
