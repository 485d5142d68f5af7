from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from k3prof.cli import explain
from k3prof.errors import ConfigError

LOG = Path(__file__).parent.parent / "llama" / "logs" / "layer-split-lv4.log"


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.callback()(lambda: None)
    explain.register(app)
    return app


def test_a_log_is_explained_as_a_table_as_markdown_and_as_json(app: typer.Typer) -> None:
    table = CliRunner().invoke(app, ["explain", str(LOG)])
    assert (table.exit_code, table.stderr) == (0, "")
    assert "Memory by device, MiB" in table.stdout
    markdown = CliRunner().invoke(app, ["explain", str(LOG), "--format", "md"])
    assert "| RPC0 | 6.18 | 1.25 | 0.29 | 24.52 | 0.00 | 32.24 |" in markdown.stdout
    found = json.loads(CliRunner().invoke(app, ["explain", str(LOG), "--format", "json"]).stdout)
    assert found["graph"] == {"nodes_pp": 1935, "nodes_tg": 1935, "splits_pp": 8, "splits_tg": 8}


def test_a_dash_reads_the_standard_input(app: typer.Typer) -> None:
    ran = CliRunner().invoke(app, ["explain", "-"], input=LOG.read_bytes())
    assert ran.exit_code == 0
    assert ran.stdout.startswith("stdin")


def test_a_missing_log_is_a_usage_error(app: typer.Typer, tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["explain", str(tmp_path / "no.log")])
    assert isinstance(ran.exception, ConfigError)
    assert ran.stdout == ""
