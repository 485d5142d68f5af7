from __future__ import annotations

import os
from pathlib import Path

import pytest

from k3prof.errors import ConfigError
from k3prof.store.toml_file import read_toml, shown


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("a.toml")


def refusal(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_toml(file)
    assert caught.value.hint
    return caught.value.message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[flags]\nfit = on\n", "a.toml: not TOML: Invalid value (at line 2, column 7)"),
        (b"x = 1\nx = 2\n", "a.toml: not TOML: Cannot overwrite a value (at line 2, column 6)"),
        (b"x = 1\n\n# \xe9t\xe9\n", "a.toml: not UTF-8: byte 0xe9 in line 3"),
        (b"x = " + b"[" * 100_000, "a.toml: not TOML: nested too deeply"),
        (b"x = " + b"1" * 5000, "a.toml: not TOML: Exceeds the limit"),
        (b"#" * (1 << 20) + b"#", "a.toml: larger than 1 MiB"),
    ],
    ids=["no value", "twice", "latin-1", "deep", "digits", "large"],
)
def test_a_file_that_is_no_toml_is_refused_with_its_line(file, content, message):
    file.write_bytes(content)
    assert refusal(file).startswith(message)


def test_a_folder_named_like_a_file_is_refused(file):
    file.mkdir()
    assert refusal(file) == "a.toml: a folder, where a file should be"


def test_a_pipe_is_refused_without_waiting_for_a_writer(file):
    os.mkfifo(file)
    assert refusal(file) == "a.toml: no regular file"


def test_links_in_a_circle_and_links_to_nowhere_are_refused(file):
    Path("b.toml").symlink_to("a.toml")
    file.symlink_to("b.toml")
    assert refusal(file) == "a.toml: Too many levels of symbolic links"
    Path("b.toml").unlink()
    assert refusal(file) == "a.toml: No such file or directory"


def test_a_file_that_cannot_be_read_is_refused_with_the_systems_reason(file):
    # Permissions do not stop root, but nobody reads address 0 of this process's memory.
    file.symlink_to("/proc/self/mem")
    assert refusal(file) == "a.toml: Input/output error"


def test_values_are_shown_short_and_in_the_words_of_toml():
    assert [shown(value) for value in (True, 4, -0.5, "a\x1b", {}, [1])] == [
        *("true", "4", "-0.5", r"'a\x1b'", "a table", "a list")
    ]
    assert shown(1 << 70) == "a number beyond 64 bits"
    assert len(shown("x" * 1000)) == 60
