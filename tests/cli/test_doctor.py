from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner, Result

from k3prof.cli import doctor
from k3prof.errors import ConfigError
from tests.doubles.nvml import FakeNvml, installed


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """A cache of our own, and no driver whatever this machine has."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with installed(FakeNvml([])):
        yield


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.callback()(lambda: None)
    doctor.register(app)
    return CliRunner().invoke(app, ["doctor", *arguments])


def test_it_succeeds_where_a_sweep_can_run(build):
    result = run("--build", build.bin_dir)
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert "A sweep can run here" in text
    assert build.version in text


def test_it_fails_and_says_what_to_fix_where_no_sweep_can_run():
    result = run()
    assert result.exit_code == 1
    assert result.stdout.startswith("problem  build")
    assert "Fix first: build: make it with `k3prof build`" in " ".join(result.stdout.split())


def test_json_is_all_that_stands_on_stdout(build):
    result = run("--build", build.bin_dir, "--format", "json")
    assert json.loads(result.stdout)["can_sweep"] is True


def test_markdown_is_a_page(build):
    assert run("--build", build.bin_dir, "--format", "md").stdout.startswith("# Doctor\n")


def test_the_bandwidth_is_measured_shown_and_kept(build, tmp_path):
    result = run("--build", build.bin_dir, "--bandwidth")
    assert result.exit_code == 0, result.output
    assert "plateau" in result.stdout
    assert "each byte counted once" in result.stdout
    kept = tmp_path / "cache" / "k3prof" / "bandwidth.json"
    assert str(kept) in result.stderr
    assert str(kept) not in result.stdout
    assert json.loads(run("--build", build.bin_dir, "--format", "json").stdout)["bandwidth"]["gb_per_s"] > 0


def test_a_missing_model_is_the_users_mistake():
    assert isinstance(run("--model", "missing.gguf").exception, ConfigError)


def test_its_help_loads_nothing_heavy():
    code = (
        "import sys, typer; from k3prof.cli import doctor; app = typer.Typer(); doctor.register(app);"
        "print([name for name in ('numpy', 'psutil', 'pynvml', 'pydantic') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert said.stdout == "[]\n"
