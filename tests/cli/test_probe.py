from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner, Result

from k3prof.cli import probe
from k3prof.errors import ConfigError


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.callback()(lambda: None)
    probe.register(app)
    return CliRunner().invoke(app, ["probe", *arguments])


def test_a_demo_model_is_said_to_be_broken_by_construction(build, tmp_path):
    options = ("demo:llama", "--build", build.bin_dir, "--devices", "cpu", "--flag", "threads=1")
    before = tmp_path / "before.json"
    assert run(*options, "-o", str(before)).exit_code == 0
    assert json.loads(before.read_text())["verdict"] == "broken"
    result = run(*options, "--compare", str(before))
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert "demo models have random weights: they are broken by construction" in text
    assert "broken: it says nothing sensible in any group" in text
    assert "0 probes changed" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["demo:llama", "-o", "x.txt"], "x.txt: no result is of this kind"),
        (["demo:llama", "--flag", "=3"], "--flag: '=3' is no NAME=VALUE"),
        (["demo:llama", "--flag", "threads="], "is no NAME=VALUE"),
        (["demo:llama", "--flag", "a=1", "--placement", "x.toml"], "--flag: goes with no --placement"),
        (["demo:llama", "--compare", "none.json"], "none.json: cannot be read"),
        (["nowhere.gguf"], "nowhere.gguf: no such file"),
    ],
)
def test_wrong_options_are_refused(build, arguments, said):
    result = run(*arguments, "--build", build.bin_dir)
    assert isinstance(result.exception, ConfigError)
    assert said in result.exception.message
