from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def k3prof(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "k3prof", *arguments], capture_output=True, text=True, cwd=cwd, check=False, timeout=60
    )


def test_without_arguments_the_commands_are_listed() -> None:
    shown = k3prof()
    for command in ("doctor", "build", "sweep", "timeline", "report"):
        assert command in shown.stdout + shown.stderr


def test_the_version_is_printed() -> None:
    shown = k3prof("--version")
    assert (shown.returncode, shown.stdout) == (0, "k3prof 0.1.0\n")


def test_help_imports_nothing_heavy() -> None:
    script = "import sys\nfrom k3prof.cli.main import make_app\nmake_app()\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    heavy = {
        "numpy",
        "scipy",
        "pandas",
        "pydantic",
        "httpx",
        "matplotlib",
        "bokeh",
        "jinja2",
        "psutil",
        "pynvml",
        "rich",
    }
    assert heavy.isdisjoint(loaded)


def test_an_unknown_command_is_a_usage_error() -> None:
    shown = k3prof("sweeep")
    assert shown.returncode == 2
    assert "sweeep" in shown.stderr


@pytest.mark.parametrize("command", [["report"], ["timeline", "-o", "x.png"]])
@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such trace"), (b"", "is empty"), (b"not a database", "is no k3prof trace")],
)
def test_a_trace_that_is_none_is_one_clear_error(
    tmp_path: Path, command: list[str], content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "a.sqlite").write_bytes(content)
    shown = k3prof(command[0], "a.sqlite", *command[1:], cwd=tmp_path)
    assert shown.returncode == 1
    assert shown.stderr.startswith("error: a.sqlite: ")
    assert message in shown.stderr
    assert "Traceback" not in shown.stderr


def test_names_cannot_command_the_terminal(tmp_path: Path) -> None:
    shown = k3prof("report", "evil\x1b[2Jname.sqlite", cwd=tmp_path)
    assert shown.returncode == 1
    assert "\x1b" not in shown.stderr
    assert "evil" in shown.stderr


def test_a_reader_that_goes_away_is_no_crash(tmp_path: Path) -> None:
    shown = subprocess.run(
        f"{sys.executable} -m k3prof inspect demo:llama | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "llama" in shown.stdout
    assert "Traceback" not in shown.stderr
    assert "BrokenPipe" not in shown.stderr
