from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.machine.host_bandwidth import BandwidthReading, HostBandwidth
from k3prof.errors import MachineError
from k3prof.store.bandwidth import read_bandwidth, write_bandwidth

MEASURED = HostBandwidth(
    "AMD EPYC 7453", 7.65, 1 << 30, 1_790_000_000, (BandwidthReading(1, (17.1, 16.8)), BandwidthReading(2, (33.5,)))
)


def test_a_measurement_reads_back_as_it_was_written(tmp_path):
    path = tmp_path / "cache" / "bandwidth.json"
    write_bandwidth(path, MEASURED)
    assert read_bandwidth(path) == MEASURED
    assert [file.name for file in path.parent.iterdir()] == ["bandwidth.json"]


def test_a_new_measurement_takes_the_place_of_the_old_one(tmp_path):
    path = tmp_path / "bandwidth.json"
    path.write_text("old")
    write_bandwidth(path, MEASURED)
    assert read_bandwidth(path) == MEASURED


def test_nothing_measured_is_none(tmp_path):
    assert read_bandwidth(tmp_path / "bandwidth.json") is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"readings": []}', MEASURED.__repr__()], ids=["empty", "cut", "list", "part", "other"]
)
def test_what_is_no_measurement_is_refused_with_its_path(tmp_path, text):
    path = tmp_path / "bandwidth.json"
    path.write_text(text)
    with pytest.raises(MachineError) as raised:
        read_bandwidth(path)
    assert str(path) in raised.value.message
    assert "k3prof doctor --bandwidth" in raised.value.hint


def test_a_measurement_without_figures_is_refused(tmp_path):
    path = tmp_path / "bandwidth.json"
    for readings in ((), (BandwidthReading(1, ()),), (BandwidthReading(1, (0.0,)),)):
        write_bandwidth(path, HostBandwidth(None, None, 1, 1, readings))
        with pytest.raises(MachineError, match="without figures"):
            read_bandwidth(path)


@given(data=st.binary(max_size=200))
def test_any_bytes_in_place_of_a_measurement_are_refused_in_one_way(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("cache") / "bandwidth.json"
    path.write_bytes(data)
    with pytest.raises(MachineError):
        read_bandwidth(path)


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="cannot be written"):
        write_bandwidth(tmp_path / "file" / "bandwidth.json", MEASURED)
