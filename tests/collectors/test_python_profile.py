from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest

from k3prof.collectors import python_profile
from k3prof.collectors.python_profile import Recording, read_speedscope, record
from k3prof.core.machine.host import HostFacts, HostSettings
from k3prof.core.python_profile import PythonProfile
from k3prof.errors import ConfigError, MachineError
from k3prof.llama.demo_model import demo_model
from tests.doubles.machines import FACTS, SETTINGS

SPINNING = (
    "import hashlib\ndef spin():\n    while True: hashlib.sha256(b'x' * 1000).hexdigest()\nprint(1, flush=True)\nspin()"
)
ENGINE = """
import sys
import llama_cpp

def serve(model):
    while True:
        model.reset()
        model.create_completion("the engineer measures", max_tokens=200, temperature=0.0)

model = llama_cpp.Llama(sys.argv[1], n_ctx=512, n_threads=1, verbose=False)
print(1, flush=True)
serve(model)
"""


@contextmanager
def program(*arguments: str, env: dict[str, str] | None = None) -> Iterator[int]:
    """Run a program until the end of the block; it has said something by then."""
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **(env or {})}
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def spinning() -> Iterator[int]:
    with program(sys.executable, "-c", SPINNING) as pid:
        yield pid


def names(profile: PythonProfile) -> set[str]:
    return {frame.name for frame in profile.frames}


def test_a_python_program_is_recorded_as_speedscope(spinning, tmp_path):
    found = record(spinning, 1, tmp_path / "spin.json")
    assert found.samples > 0
    assert found.failed_samples is not None
    (main, spin) = found.functions()
    assert (main.name, spin.name) == ("<module>", "spin")
    assert spin.own_frac > 0.9
    written = json.loads((tmp_path / "spin.json").read_text())
    assert written["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert list(tmp_path.iterdir()) == [tmp_path / "spin.json"]


def test_a_process_that_runs_llama_cpp_python_shows_its_frames(build, tmp_path):
    model = demo_model("demo:k3-tiny")
    with program(sys.executable, "-c", ENGINE, str(model), env={"LLAMA_CPP_LIB_PATH": build.bin_dir}) as pid:
        found = record(pid, 1, tmp_path / "engine.json")
    shares = {one.name: one for one in found.functions()}
    assert shares["serve"].frac > 0.9
    assert "Llama.eval" in shares
    assert "llama_cpp" in str(shares["Llama.eval"].file)


def test_a_llama_cpp_python_server_shows_its_frames_while_it_answers(build, tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = str(unused.getsockname()[1])
    argv = [sys.executable, "-m", "llama_cpp.server", "--model", str(demo_model("demo:k3-tiny")), "--n_ctx", "2048"]
    argv += ["--n_threads", "1", "--host", "127.0.0.1", "--port", port]
    env = {**os.environ, "LLAMA_CPP_LIB_PATH": build.bin_dir}
    server = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/v1"
    try:
        wait_for(lambda: answers(f"{url}/models"))
        with closing(Recording(server.pid, 60, tmp_path / "server.json")) as recording:
            wait_until_it_looks(recording)
            asked = {"prompt": "the engineer", "max_tokens": 600, "temperature": 0}
            reply = httpx.post(f"{url}/completions", json=asked, timeout=60, trust_env=False)
            assert reply.json()["usage"]["completion_tokens"] > 0
            recording.stop()
            found = recording.finish()
    finally:
        server.terminate()
        server.wait()
    # Completions run in a worker thread of the server's event loop.
    assert {"LlamaContext.decode", "Llama.create_completion", "WorkerThread.run"} <= names(found)


def test_k3prof_can_record_itself_while_it_works(tmp_path):
    stop = threading.Event()

    def generate_load() -> None:
        while not stop.is_set():
            json.dumps(list(range(2000)))

    worker = threading.Thread(target=generate_load)
    worker.start()
    try:
        found = record(os.getpid(), 1, tmp_path / "own.json")
    finally:
        stop.set()
        worker.join()
    assert "generate_load" in " ".join(names(found))


def test_nobody_waits_for_a_recording_that_goes_on(spinning, tmp_path):
    with closing(Recording(spinning, 3600, tmp_path / "long.json")) as recording:
        wait_until_it_looks(recording)
        assert not (tmp_path / "long.json").exists()
        recording.stop()
        assert recording.finish().samples > 0
    assert (tmp_path / "long.json").exists()


def test_a_recording_that_is_dropped_leaves_nothing(spinning, tmp_path):
    before = set(psutil.Process().children())
    with closing(Recording(spinning, 3600, tmp_path / "dropped.json")):
        assert set(psutil.Process().children()) > before
    assert set(psutil.Process().children()) == before
    assert list(tmp_path.iterdir()) == []


def test_one_stopped_before_it_began_says_so(spinning, tmp_path):
    with closing(Recording(spinning, 3600, tmp_path / "short.json")) as recording:
        recording.stop()
        with pytest.raises(MachineError, match="before py-spy had looked into it once"):
            recording.finish()
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_ends_meanwhile_is_recorded_until_then(tmp_path):
    ending = "import time\nprint(1, flush=True)\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    with program(sys.executable, "-c", ending) as pid:
        assert record(pid, 3600, tmp_path / "ending.json").samples > 0


def test_an_idle_program_is_a_profile_without_samples(tmp_path):
    with program(sys.executable, "-c", "import time; print(1, flush=True); time.sleep(600)") as pid:
        found = record(pid, 1, tmp_path / "idle.json")
    assert found.samples == 0
    assert found.functions() == []


def test_what_is_no_python_program_is_refused_by_name(tmp_path):
    with program("/bin/sh", "-c", "echo 1; exec sleep 600") as pid:
        wait_for(lambda: psutil.Process(pid).name() == "sleep")
        with pytest.raises(MachineError, match=rf"process {pid} \(sleep\): not a Python program"):
            record(pid, 1, tmp_path / "sleep.json")
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_has_ended_is_refused(tmp_path):
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    with pytest.raises(MachineError, match=f"process {ended.pid} has ended"):
        record(ended.pid, 1, tmp_path / "gone.json")


def test_a_file_that_cannot_be_written_is_refused_at_once(spinning, tmp_path):
    with pytest.raises(ConfigError, match=r"no-such-folder/x\.json: cannot be written"):
        record(spinning, 1, tmp_path / "no-such-folder" / "x.json")


def test_without_py_spy_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match="py-spy is not here") as raised:
        record(1, 1, tmp_path / "x.json")
    assert raised.value.hint == "pip install py-spy"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_users_program_is_refused_with_the_remedy(spinning):
    # Not below pytest's own folder, which only its owner may enter.
    folder = Path(tempfile.mkdtemp(prefix="k3prof-test-"))
    folder.chmod(0o777)
    try:
        with as_nobody(), pytest.raises(MachineError, match="belongs to another user") as raised:
            record(spinning, 1, folder / "x.json")
    finally:
        shutil.rmtree(folder)
    assert raised.value.hint == "run k3prof as that user, or as root"


@pytest.mark.parametrize(
    ("facts", "privileged", "is_ours", "why", "hint"),
    [
        ({"ptrace_scope": 3}, True, True, "ptrace_scope is 3", "boot with kernel.yama.ptrace_scope below 3"),
        ({"ptrace_scope": 1}, False, True, "ptrace_scope is 1", "sudo sysctl kernel.yama.ptrace_scope=0"),
        ({"ptrace_scope": 1}, False, False, "another user", "run k3prof as that user, or as root"),
        ({"container": "docker"}, False, True, "this container (docker)", "--cap-add SYS_PTRACE"),
        (
            {"container": "docker"},
            True,
            True,
            "out of reach even with the privilege",
            "in the container that it runs in",
        ),
        ({"container": None}, False, True, "privileges that k3prof has not", "as root"),
    ],
)
def test_where_ptrace_is_not_allowed_the_message_names_the_remedy(
    monkeypatch, spinning, tmp_path, facts, privileged, is_ours, why, hint
):
    refused = "Error: Permission Denied: Try running again with elevated permissions"
    given: HostFacts = replace(FACTS, **{"ptrace_scope": 0, "container": None, **facts})
    settings: HostSettings = replace(SETTINGS, may_trace_all=privileged)
    monkeypatch.setattr(python_profile, "host_facts", lambda: given)
    monkeypatch.setattr(python_profile, "host_settings", lambda: settings)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + (not is_ours))
    fake = tmp_path / "py-spy"
    fake.write_text(f"#!/bin/sh\necho '{refused}' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(MachineError) as raised:
        record(spinning, 1, tmp_path / "x.json")
    assert why in raised.value.message
    assert hint in raised.value.hint
    assert str(spinning) in raised.value.message


SPEEDSCOPE = {
    "$schema": "https://www.speedscope.app/file-format-schema.json",
    "profiles": [{"type": "sampled", "name": "main", "unit": "seconds", "samples": [[0, 1]], "weights": [0.01]}],
    "shared": {"frames": [{"name": "<module>", "file": "a.py", "line": 3, "col": None}, {"name": "native"}]},
}


def test_a_speedscope_file_is_read(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(SPEEDSCOPE))
    found = read_speedscope(tmp_path / "x.json")
    assert [(frame.name, frame.file, frame.line) for frame in found.frames] == [
        ("<module>", "a.py", 3),
        ("native", None, None),
    ]
    assert found.threads[0].stacks == ((0, 1),)
    assert found.failed_samples is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"profiles": [{**SPEEDSCOPE["profiles"][0], "samples": [[0, 2]]}]}, "names a frame that is not there"),
        ({"profiles": [{**SPEEDSCOPE["profiles"][0], "samples": [[-1]]}]}, "names a frame that is not there"),
        ({"profiles": [{**SPEEDSCOPE["profiles"][0], "weights": []}]}, "0 weights for 1 samples"),
        ({"profiles": [{**SPEEDSCOPE["profiles"][0], "type": "evented"}]}, "profiles.0.type"),
        ({"shared": {}}, "shared.frames"),
    ],
)
def test_a_file_that_is_no_such_profile_is_refused_with_the_place(tmp_path, change, said):
    (tmp_path / "x.json").write_text(json.dumps(SPEEDSCOPE | change))
    with pytest.raises(MachineError, match="no speedscope profile") as raised:
        read_speedscope(tmp_path / "x.json")
    assert said in raised.value.message


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_a_file_that_is_no_json_is_refused(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(MachineError, match=r"x\.json: no speedscope profile"):
        read_speedscope(tmp_path / "x.json")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(MachineError, match="No such file"):
        read_speedscope(tmp_path / "x.json")


@contextmanager
def as_nobody() -> Iterator[None]:
    nobody = 65534
    os.setresuid(nobody, nobody, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def wait_until_it_looks(recording: Recording) -> None:
    """Wait until py-spy has said that it samples, and can be stopped without losing what it saw."""
    wait_for(lambda: os.fstat(recording._told.fileno()).st_size > 0)
    time.sleep(0.3)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
