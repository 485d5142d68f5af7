from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner, Result

from k3prof.cli import ops
from k3prof.errors import ConfigError


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.callback()(lambda: None)
    ops.register(app)
    return CliRunner().invoke(app, ["ops", *arguments])


def test_a_real_model_is_profiled_to_stdout(build):
    result = run("demo:qwen3moe", "--build", build.bin_dir, "--tokens", "3", "--threads", "1", "--prefill", "8")
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert "prefill: 8 tokens at once, 9 times" in text
    assert "decode: 3 tokens one by one" in text
    for part in ("MoE", "attention (GQA)", "MUL_MAT_ID", "routed experts"):
        assert part in text


def test_every_option_reaches_the_data(build):
    overrides = {"qwen3moe.expert_used_count": 2, "qwen3moe.rope.freq_base": 20000.5}
    kinds = {int: "int", float: "float"}
    given = [f"--override-kv={key}={kinds[type(value)]}:{value}" for key, value in overrides.items()]
    options = ("--format", "json", "--mode", "layer", "--tokens", "2", "--threads", "1")
    result = run("demo:qwen3moe", "--build", build.bin_dir, *options, *given)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["mode"], found["threads"]) == ("layer", 1)
    assert found["model"]["overrides"] == overrides
    (decode,) = found["passes"]
    assert decode["passes"] == 2
    assert decode["shares"]["by_op"] is None
    assert sum(one["share_frac"] for one in decode["shares"]["by_part"]) == pytest.approx(1)


def test_markdown_is_printed(build):
    result = run("demo:llama", "--build", build.bin_dir, "--format", "md", "--tokens", "1", "--threads", "1")
    assert result.stdout.startswith("# ")
    assert "### by part" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["demo:llama", "--mode", "kernel"], 2),
        (["demo:llama", "--tokens", "0"], 2),
        (["demo:llama", "--prefill", "-1"], 2),
        (["demo:llama", "--threads", "0"], 2),
        ([], 2),
    ],
)
def test_options_out_of_range_are_a_usage_error(arguments, code):
    assert run(*arguments).exit_code == code


def test_a_model_that_is_not_there_is_refused():
    result = run("nowhere.gguf")
    assert isinstance(result.exception, ConfigError)
    assert "nowhere.gguf: no such file" in result.exception.message
