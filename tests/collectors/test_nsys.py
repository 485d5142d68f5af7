from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from k3prof.collectors.nsys import read_nsys
from k3prof.core.spans import UNKNOWN, SpanKind, busy_ns, concurrency_ns
from k3prof.core.timeline import Counter, busy_share
from k3prof.errors import ConfigError
from tests.doubles.nsys_export import (
    COPIES,
    GRAPHS,
    KERNELS,
    MEMSETS,
    SESSION_NS,
    about,
    alternation,
    copy,
    kernel,
    write_export,
)

MS = 1_000_000


def test_devices_that_take_turns_without_a_gap_are_exactly_one_at_a_time(tmp_path):
    run = read_nsys(write_export(tmp_path / "a.sqlite", {KERNELS: alternation(5, 28 * MS, 1000), **about(5)}))
    names = [device.name for device in run.devices]
    assert names == ["GPU0", "GPU1", "GPU2", "GPU3", "GPU4"]
    assert concurrency_ns(run.spans, names, run.begin_ns, run.end_ns).tolist() == [0, 28_000 * MS, 0, 0, 0, 0]
    for one in run.series:
        assert one.counter is Counter.BUSY_TIME_NS
        assert busy_share(one, run.begin_ns, run.end_ns) == 0.2


def test_kernels_carry_their_short_names_and_every_nanosecond(tmp_path):
    rows = [kernel(0, 1_000, 2_001, 2), kernel(1, 1_500, 9_007_199_254_740_993, 1)]
    run = read_nsys(write_export(tmp_path / "a.sqlite", {KERNELS: rows, **about()}))
    spans = run.spans
    assert spans.begin_ns.tolist() == [1_000, 1_500]
    assert spans.end_ns.tolist() == [2_001, 9_007_199_254_740_993]
    assert [spans.names[place] for place in spans.first_node] == ["rms_norm_f32", "mul_mat_vec_q"]
    assert set(spans.first_layer.tolist()) == {UNKNOWN}
    assert spans.finished.all()


def test_rows_need_not_be_in_order_of_time(tmp_path):
    rows = alternation(2, 10, 500)
    shuffled = [rows[i] for i in np.random.default_rng(5).permutation(len(rows))]
    run = read_nsys(write_export(tmp_path / "a.sqlite", {KERNELS: shuffled}))
    assert run.spans.begin_ns.tolist() == list(range(0, 5_000, 10))


def test_kernels_of_several_streams_count_once(tmp_path):
    rows = [kernel(0, 0, 100), kernel(0, 50, 150), kernel(0, 60, 70), kernel(0, 150, 160), kernel(0, 300, 400)]
    run = read_nsys(write_export(tmp_path / "a.sqlite", {KERNELS: rows}))
    assert busy_ns(run.spans, ["GPU0"], 0, 400) == {"GPU0": 260}
    (series,) = run.series
    assert series.time_ns.tolist() == [0, 160, 300, 400]
    assert series.value.tolist() == [0, 160, 160, 260]


def test_memsets_and_graphs_compute_and_copies_do_not(tmp_path):
    tables = {
        KERNELS: [kernel(0, 0, 10)],
        MEMSETS: [kernel(0, 20, 25)],
        GRAPHS: [kernel(0, 30, 60)],
        COPIES: [copy(0, 100, 200, 1, 4096)],
    }
    run = read_nsys(write_export(tmp_path / "a.sqlite", tables))
    assert busy_ns(run.spans, ["GPU0"], 0, 200) == {"GPU0": 45}
    assert run.counts == {"kernels": 1, "copies": 1, "memsets": 1, "whole graphs": 1, "rows without times": 0}
    assert (run.begin_ns, run.end_ns) == (0, 200)


@pytest.mark.parametrize(
    ("kind", "more", "source", "device"),
    [
        (1, {}, "CPU", "GPU0"),
        (2, {}, "GPU0", "CPU"),
        (8, {}, "GPU0", "GPU0"),
        (10, {"srcDeviceId": 1, "dstDeviceId": 0}, "GPU1", "GPU0"),
        (10, {"srcDeviceId": 0, "dstDeviceId": 7}, "GPU0", None),
        (99, {}, None, "GPU0"),
    ],
)
def test_copies_say_where_from_where_to_and_how_much(tmp_path, kind, more, source, device):
    rows = [copy(0, 5, 9, kind, 2**31 + 5, **more)]
    run = read_nsys(write_export(tmp_path / "a.sqlite", {COPIES: rows, KERNELS: [kernel(1, 0, 1)]}))
    copies = run.spans.of_kind(SpanKind.COPY)
    places = [None if place == UNKNOWN else copies.devices[place] for place in (*copies.source, *copies.device)]
    assert places == [source, device]
    assert copies.bytes.tolist() == [2**31 + 5]
    assert copies.nodes.tolist() == [0]


def test_copies_are_named_as_the_export_names_their_kinds(tmp_path):
    tables = {
        COPIES: [copy(0, 0, 1, 1, 1), copy(0, 2, 3, 2, 1), copy(0, 4, 5, 99, 1)],
        "ENUM_CUDA_MEMCPY_OPER": [
            {"id": 1, "name": "X", "label": "Host-to-Device"},
            {"id": 2, "label": "Device-to-Host"},
        ],
    }
    spans = read_nsys(write_export(tmp_path / "a.sqlite", tables)).spans
    assert [spans.names[place] for place in spans.first_node] == ["Host-to-Device", "Device-to-Host", "copy of kind 99"]
    del tables["ENUM_CUDA_MEMCPY_OPER"]
    spans = read_nsys(write_export(tmp_path / "b.sqlite", tables)).spans
    assert spans.names[spans.first_node[0]] == "host to device"


def test_whole_graphs_are_pointed_out_with_both_ways_to_see_inside(tmp_path):
    run = read_nsys(write_export(tmp_path / "a.sqlite", {GRAPHS: [kernel(0, 0, 10), kernel(1, 10, 20)]}))
    (caveat,) = run.caveats
    assert caveat.code == "whole-graphs"
    assert "2 CUDA graphs" in caveat.message
    assert "of single kernels none" in caveat.message
    assert "--cuda-graph-trace=node" in caveat.remedy
    assert "GGML_CUDA_DISABLE_GRAPHS=1" in caveat.remedy
    mixed = read_nsys(write_export(tmp_path / "b.sqlite", {GRAPHS: [kernel(0, 0, 10)], KERNELS: [kernel(0, 20, 30)]}))
    assert "of single kernels 1" in mixed.caveats[0].message


def test_graphs_traced_node_by_node_are_as_good_as_none(tmp_path):
    rows = [kernel(0, 0, 10, graphNodeId=7), kernel(0, 10, 20, graphNodeId=8)]
    assert read_nsys(write_export(tmp_path / "a.sqlite", {KERNELS: rows})).caveats == ()


def test_the_machine_is_described_where_it_is_certain_which_gpu_is_which(tmp_path):
    run = read_nsys(write_export(tmp_path / "a.sqlite", {KERNELS: alternation(2, 5, 4), **about()}))
    second = run.devices[1]
    assert (second.description, second.uuid, second.pci_bus_id) == ("NVIDIA A40", "GPU-00000001", "0000:02:00.0")
    assert second.memory_bytes == 48_305_799_168
    assert run.source == "Nsight Systems 2026.1.1.204 (export schema 3.24.14)"
    renumbered = about() | {"TARGET_INFO_CUDA_DEVICE": [{"gpuId": 1, "cudaId": 0}, {"gpuId": 0, "cudaId": 1}]}
    run = read_nsys(write_export(tmp_path / "b.sqlite", {KERNELS: alternation(2, 5, 4), **renumbered}))
    assert [(device.description, device.uuid) for device in run.devices] == [("NVIDIA A40", None)] * 2
    bare = read_nsys(write_export(tmp_path / "c.sqlite", {KERNELS: alternation(2, 5, 4)}))
    assert [(device.name, device.description) for device in bare.devices] == [("GPU0", ""), ("GPU1", "")]
    assert bare.source == "Nsight Systems"


def test_times_are_dated_by_the_sessions_start(tmp_path):
    run = read_nsys(write_export(tmp_path / "a.sqlite", {KERNELS: [kernel(0, 0, 10)], **about()}))
    assert run.clock.unix_ns == SESSION_NS
    assert run.clock.shown(0) == "2026-09-21 14:13:20 UTC"
    undated = read_nsys(write_export(tmp_path / "b.sqlite", {KERNELS: [kernel(0, 0, 10)]}))
    assert undated.clock.unix_ns is None


@pytest.mark.parametrize("column", ["shortName", "globalPid", "graphNodeId", "demangledName"])
def test_columns_that_some_versions_lack_are_done_without(tmp_path, column):
    path = write_export(tmp_path / "a.sqlite", {KERNELS: [kernel(0, 0, 10)], **about()}, {KERNELS: [column]})
    assert len(read_nsys(path).spans) == 1


def test_copies_of_a_version_without_kinds_and_sizes_are_of_unknown_kind_and_size(tmp_path):
    lacking = {COPIES: ["copyKind", "bytes", "srcDeviceId", "dstDeviceId"]}
    spans = read_nsys(write_export(tmp_path / "a.sqlite", {COPIES: [copy(0, 0, 10, 1, 5)]}, lacking)).spans
    assert (spans.bytes.tolist(), spans.source.tolist()) == ([UNKNOWN], [UNKNOWN])


@pytest.mark.parametrize("column", ["start", "end", "deviceId"])
@pytest.mark.parametrize("table", [KERNELS, COPIES, MEMSETS, GRAPHS])
def test_a_column_without_which_nothing_is_known_is_named(tmp_path, table, column):
    path = write_export(tmp_path / "a.sqlite", {table: [kernel(0, 0, 10)]}, {table: [column]})
    with pytest.raises(ConfigError, match=f"a.sqlite: {table} has no column {column}") as caught:
        read_nsys(path)
    assert "nsys export" in caught.value.hint


def test_rows_without_times_are_left_out_and_counted(tmp_path):
    rows = [
        kernel(0, 0, 0),
        kernel(0, 20, 10),
        kernel(0, -5, 10),
        kernel(-1, 0, 10),
        kernel(0, 5, None),
        kernel(0, "x", 10),
        kernel(0, 1.5, 10),
        kernel(0, 30, 40),
    ]
    run = read_nsys(write_export(tmp_path / "a.sqlite", {KERNELS: rows}))
    assert (run.spans.begin_ns.tolist(), run.counts["rows without times"]) == ([30], 7)
    assert "7 activities" in run.caveats[0].message


def test_several_processes_are_pointed_out(tmp_path):
    rows = [kernel(0, 0, 10, globalPid=1 << 24), kernel(0, 10, 20, globalPid=2 << 24)]
    assert read_nsys(write_export(tmp_path / "a.sqlite", {KERNELS: rows})).caveats[0].code == "several-processes"


def test_an_export_without_gpu_work_says_how_to_record_some(tmp_path):
    for name, tables in (("a", about()), ("b", {KERNELS: [], **about()})):
        with pytest.raises(ConfigError, match="nothing in it ran on a GPU") as caught:
            read_nsys(write_export(tmp_path / f"{name}.sqlite", tables))
        assert "--trace=cuda" in caught.value.hint


def test_an_unexported_report_says_how_to_export_it(tmp_path):
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(b"\x00nsys" * 100)
    with pytest.raises(ConfigError, match="is no SQLite export") as caught:
        read_nsys(report)
    assert caught.value.hint == "export it first: `nsys export --type sqlite run.nsys-rep`"


@pytest.mark.parametrize("content", [b"", b"{}", b"SQLite format 3\0", b"SQLite format 3\0" + b"\xff" * 4096])
def test_what_is_no_export_is_refused_by_name(tmp_path, content):
    path = tmp_path / "odd.sqlite"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"odd\.sqlite"):
        read_nsys(path)


def test_what_is_not_there_or_a_folder_is_refused_by_name(tmp_path):
    for path in (tmp_path, tmp_path / "none.sqlite", Path("a\0b")):
        with pytest.raises(ConfigError):
            read_nsys(path)


def test_a_view_in_the_place_of_a_table_is_never_run(tmp_path):
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE StringIds (id, value)")
        db.execute(
            f"CREATE VIEW {KERNELS} AS WITH RECURSIVE forever(start) AS (SELECT 1 UNION ALL SELECT start + 1"
            ' FROM forever) SELECT start, start + 1 AS "end", 0 AS deviceId FROM forever'
        )
    with pytest.raises(ConfigError, match="nothing in it ran on a GPU"):
        read_nsys(path)


def test_names_too_long_or_not_text_do_no_harm(tmp_path):
    tables = {
        KERNELS: [kernel(0, 0, 1, 1), kernel(0, 1, 2, 2), kernel(0, 2, 3, 3), kernel(0, 3, 4, 404)],
        "StringIds": [{"id": 1, "value": "x" * 100_000}, {"id": 2, "value": None}, {"id": 3, "value": b"\xff\xfe"}],
    }
    names = read_nsys(write_export(tmp_path / "a.sqlite", tables)).spans.names
    assert names == ("x" * 200, *["unnamed kernel"] * 3)


def test_more_device_numbers_than_a_machine_has_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="300 device numbers"):
        read_nsys(write_export(tmp_path / "a.sqlite", {KERNELS: [kernel(n, n, n + 1) for n in range(300)]}))


def test_so_many_changes_that_they_are_summed_up_stay_exact_where_they_are(tmp_path):
    rows = [kernel(0, 10 * n, 10 * n + 7) for n in range(150_000)]
    run = read_nsys(write_export(tmp_path / "a.sqlite", {KERNELS: rows}))
    (series,) = run.series
    assert series.period_ns == 8
    assert series.time_ns.size <= 200_002
    truth = (series.time_ns // 10) * 7 + np.minimum(series.time_ns % 10, 7)
    assert series.value.tolist() == truth.tolist()


ROW = st.tuples(st.integers(0, 3), st.integers(0, 300), st.integers(0, 40))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kernels=st.lists(ROW, min_size=1, max_size=25), memsets=st.lists(ROW, max_size=5))
def test_busy_time_is_what_counting_each_nanosecond_gives(tmp_path, kernels, memsets):
    path = tmp_path / "a.sqlite"
    path.unlink(missing_ok=True)
    rows = {
        table: [kernel(device, 1 + at, 1 + at + length) for device, at, length in given_rows]
        for table, given_rows in ((KERNELS, kernels), (MEMSETS, memsets))
    }
    run = read_nsys(write_export(path, rows))
    busy = np.zeros((4, 400), bool)
    for device, at, length in [*kernels, *memsets]:
        busy[device, 1 + at : 1 + at + length] = True
    names = [device.name for device in run.devices]
    counted = busy[[int(name[3:]) for name in names], run.begin_ns : run.end_ns]
    assert list(busy_ns(run.spans, names, run.begin_ns, run.end_ns).values()) == counted.sum(axis=1).tolist()
    at_once = concurrency_ns(run.spans, names, run.begin_ns, run.end_ns)
    assert at_once.tolist() == np.bincount(counted.sum(axis=0), minlength=len(names) + 1).tolist()
    for one, own in zip(run.series, counted, strict=True):
        assert one.value[-1] == own.sum()
