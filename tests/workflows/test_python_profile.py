from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from k3prof.workflows.python_profile import own_profile

BUSY = "while True: sum(range(1000))"


def test_our_own_work_is_recorded_while_it_runs(tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from k3prof.workflows.python_profile import own_profile\n"
        "def spin_in_circles(until):\n"
        "    while time.monotonic() < until: sum(range(1000))\n"
        "with own_profile(Path(sys.argv[1]), print):\n"
        "    spin_in_circles(time.monotonic() + 4)\n"
    )
    path = tmp_path / "own.speedscope.json"
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == f"profile  {path}\n"
    names = {frame["name"] for frame in json.loads(path.read_text())["shared"]["frames"]}
    assert any("spin_in_circles" in name for name in names)


def test_a_profile_that_cannot_be_had_stops_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    ran = False
    with own_profile(tmp_path / "no" / "folder" / "p.json", told.append):
        ran = True
    assert ran
    assert told[0].startswith("no profile of the load generator: ")


def test_what_the_body_raises_passes_through(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), own_profile(tmp_path / "p.json", lambda _: None):
        raise KeyboardInterrupt
    assert not list(tmp_path.glob(".*.part"))


def test_an_engine_is_recorded_by_its_pid_through_the_command(tmp_path: Path) -> None:
    engine = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        done = subprocess.run(
            [sys.executable, "-m", "k3prof", "pyspy", str(engine.pid), "--seconds", "2", "-o", "e.json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        engine.kill()
        engine.wait()
    if done.returncode and "ptrace" in done.stderr:
        pytest.skip(f"py-spy may not look into other programs here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert "<module>" in done.stdout
    assert json.loads((tmp_path / "e.json").read_text())["profiles"]


def test_a_program_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "k3prof", "pyspy", "4194303", "-o", "e.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr
