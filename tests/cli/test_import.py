from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from k3prof.cli import import_
from k3prof.errors import ConfigError
from tests.doubles.nsys_export import KERNELS, about, alternation, write_export


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    made.callback()(lambda: None)
    import_.register(made)
    return made


def run(app: typer.Typer, *arguments: object):
    return CliRunner().invoke(app, ["import", *map(str, arguments)], catch_exceptions=False)


def test_an_export_is_summed_up_in_a_few_lines(app, tmp_path):
    path = write_export(tmp_path / "run.sqlite", {KERNELS: alternation(2, 28_000_000, 100), **about()})
    done = run(app, "nsys", path, "-o", tmp_path / "t.sqlite")
    assert done.exit_code == 0
    assert "P = 1.00, exact. Two or more GPUs computed at once for 0 ns (0.0 %)." in done.stdout
    assert "Nsight Systems 2026.1.1.204 (export schema 3.24.14): 100 kernels" in done.stdout
    assert done.stderr == f"wrote {tmp_path / 't.sqlite'}\n"


@pytest.mark.parametrize(("kind", "begins"), [("json", "{"), ("md", "- nvidia-smi")])
def test_stdout_is_data(app, tmp_path, kind, begins):
    path = tmp_path / "gpus.txt"
    path.write_text("# gpu sm\n# Idx %\n" + " 0 50\n 1 50\n" * 30)
    done = run(app, "dmon", path, "-o", tmp_path / "t.sqlite", "--format", kind)
    assert done.stdout.startswith(begins)
    if kind == "json":
        assert json.loads(done.stdout)["stretches"][0]["parallelism"]["degree"] == 1.0


def test_a_table_without_a_header_is_read_with_its_columns(app, tmp_path):
    path = tmp_path / "gpus.csv"
    path.write_text("".join(f"{gpu}, 50\n" for _ in range(30) for gpu in range(2)))
    done = run(app, "dmon", path, "-o", tmp_path / "t.sqlite", "--columns", "index,utilization.gpu", "--every", "0.5")
    assert "each GPU read every 500 ms" in done.stdout


def test_an_error_names_the_file(app, tmp_path):
    with pytest.raises(ConfigError, match=r"none\.sqlite"):
        run(app, "nsys", tmp_path / "none.sqlite")
