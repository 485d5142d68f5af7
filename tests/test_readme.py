"""The README and the command must not drift apart."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from k3prof.cli.main import make_app

COMMANDS = sorted(typer.main.get_command(make_app()).commands)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def readme() -> str:
    return (Path(__file__).parent.parent / "README.md").read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme_and_has_help(command: str, readme: str) -> None:
    assert f"k3prof {command}" in readme
    shown = subprocess.run(
        [sys.executable, "-m", "k3prof", command, "--help"], capture_output=True, text=True, check=True
    )
    assert f"k3prof {command}" in shown.stdout
    summary = re.sub(r"^Usage:.*?\n\n", "", shown.stdout, flags=re.DOTALL).strip().splitlines()[0]
    assert len(summary) > 20


def test_every_command_that_the_readme_shows_exists(readme: str) -> None:
    code = "\n".join(re.findall(r"^```sh\n(.*?)^```", readme, re.MULTILINE | re.DOTALL))
    shown = set(re.findall(r"^k3prof (\w+)", code, re.MULTILINE))
    assert shown
    assert shown <= set(COMMANDS)


def test_every_make_target_that_the_readme_shows_exists(readme: str, repository: Path) -> None:
    targets = set(re.findall(r"^(\w+):", (repository / "Makefile").read_text(), re.MULTILINE))
    assert {"sweep", "test"} <= set(re.findall(r"(?:^|`)make (\w+)", readme, re.MULTILINE)) <= targets


def test_every_file_that_the_readme_links_to_is_here(readme: str, repository: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", readme):
        assert (repository / target).is_file(), target
