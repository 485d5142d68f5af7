"""Builds as they are printed."""

from __future__ import annotations

import io
import json

from rich.console import Console

from k3prof.core.build import Build
from k3prof.reporters.builds import BuildsTable, ListedBuild, as_json, as_markdown

BUILD = Build(
    name="default",
    bin_dir="/cache/builds/0123/bin",
    version="0.5.0-dev (build 1, commit 0c1e570)",
    commit="0c1e570",
    compiler="GNU 12.2.0 for Linux x86_64",
    cmake_flags=("-DGGML_RPC=ON", "-DGGML_CUDA=ON"),
    source="llama_cpp_python-0.3.36",
    sha256="ab" * 32,
    shared_libraries=True,
)
SPOILT = Build("we|rd", "/tmp/\x1b[31mred", "1 <b>", "", "", (), "registered", "cd" * 32, shared_libraries=False)


def drawn(builds: list[ListedBuild], width: int) -> str:
    output = io.StringIO()
    Console(file=output, width=width).print(BuildsTable(builds))
    return output.getvalue()


def test_a_build_is_shown_with_all_that_tells_it_from_another() -> None:
    shown = drawn([(BUILD, ())], 120)
    for part in (
        "default",
        BUILD.version,
        BUILD.bin_dir,
        "from llama_cpp_python-0.3.36, GNU 12.2.0 for Linux x86_64, shared libraries",
        "GGML_RPC=ON GGML_CUDA=ON",
    ):
        assert part in shown
    assert "missing" not in shown


def test_what_a_build_lacks_is_said() -> None:
    assert "missing: ggml-rpc-server" in drawn([(BUILD, ("ggml-rpc-server",))], 120)


def test_a_narrow_terminal_loses_no_word() -> None:
    shown = drawn([(BUILD, ())], 40)
    assert max(map(len, shown.splitlines())) <= 40
    assert "".join(BUILD.bin_dir.split()) in "".join(shown.split())


def test_no_build_at_all_names_the_command_that_makes_one() -> None:
    assert "k3prof build" in drawn([], 80)


def test_what_others_wrote_cannot_steer_the_terminal_or_the_document() -> None:
    shown = drawn([(SPOILT, ())], 120)
    assert "\x1b" not in shown
    assert "/tmp/red" in shown
    row = as_markdown([(SPOILT, ())]).splitlines()[2]
    assert "\x1b" not in row
    assert "we\\|rd" in row
    assert "<b>" not in row


def test_the_document_has_one_row_of_equal_width_per_build() -> None:
    lines = as_markdown([(BUILD, ()), (BUILD, ("llama-bench",))]).splitlines()
    assert len(lines) == 4
    assert {line.count("|") for line in lines} == {9}


def test_json_holds_every_field_and_what_is_missing() -> None:
    (found,) = json.loads(as_json([(BUILD, ("llama-bench",))]))
    assert found["sha256"] == BUILD.sha256
    assert found["cmake_flags"] == ["-DGGML_RPC=ON", "-DGGML_CUDA=ON"]
    assert found["missing"] == ["llama-bench"]
