from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.probes.probe import Outcome
from k3prof.errors import ConfigError
from k3prof.store.probe_file import read_probe_file

PROBE = {"id": "a", "outcome": "pass", "answer": "yes"}
GOOD = {"format_version": 1, "set_version": 1, "verdict": "sound", "probes": [PROBE]}


def write(tmp_path, content):
    file = tmp_path / "before.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_outcomes_and_answers_are_read(tmp_path):
    found = read_probe_file(write(tmp_path, GOOD))
    assert (found.verdict, found.answers["a"].outcome, found.answers["a"].answer) == ("sound", Outcome.PASS, "yes")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no result of k3prof probe"),
        ("[]", "no result of k3prof probe"),
        ({**GOOD, "format_version": 2}, "format_version 2"),
        ({**GOOD, "probes": [PROBE, PROBE]}, "stands there twice"),
        ({**GOOD, "probes": [{**PROBE, "outcome": "maybe"}]}, "probes.0.outcome"),
        ({key: GOOD[key] for key in GOOD if key != "verdict"}, "verdict"),
    ],
)
def test_another_file_is_refused_with_its_name_and_place(tmp_path, content, said):
    with pytest.raises(ConfigError) as raised:
        read_probe_file(write(tmp_path, content))
    assert "before.json" in raised.value.message
    assert said in raised.value.message


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_probe_file(tmp_path / "none.json")


@given(st.binary(max_size=60))
def test_no_file_whatever_it_holds_gives_a_traceback(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("any") / "before.json"
    file.write_bytes(content)
    with pytest.raises(ConfigError):
        read_probe_file(file)
