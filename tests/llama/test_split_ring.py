"""The tracer and its ring on a double whose devices say what they did, since no asynchronous device is here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from k3prof.core.build import Build
from k3prof.core.spans import UNKNOWN, SpanKind, Spans, SplitMode, busy_ns, concatenate, layers_by_device
from k3prof.errors import MachineError
from k3prof.llama.split_ring import SplitRing
from tests.doubles.traced_build import RECORDS_PER_PASS, Truth, compile_build, running, told

DEVICES = ("CUDA0", "CUDA1", "RPC1")
ENDPOINTS = ("10.0.0.6:50052", "10.0.0.7:50052")


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return compile_build(tmp_path_factory.mktemp("double"))


def watch(
    double: Build, folder: Path, mode: SplitMode, passes: int = 3, split_ms: int = 5
) -> tuple[Spans, list[Truth]]:
    ring = SplitRing(folder / "ring", ENDPOINTS)
    ring.watch(mode)
    with running(double, ring.path, passes, split_ms=split_ms, truth=True) as process:
        truth = told(process)
    return ring.drain(final=True), truth


def work_of(truth: list[Truth], device: str, kind: str = "compute") -> list[Truth]:
    given = {"RPC1": "RPC[10.0.0.7:50052]"}.get(device, device)
    return [one for one in truth if one.device == given and one.kind == kind]


def test_exact_spans_cover_what_each_device_really_did(double: Build, tmp_path: Path) -> None:
    spans, truth = watch(double, tmp_path, SplitMode.EXACT)
    work = spans.of_kind(SpanKind.COMPUTE)
    assert work.finished.all()
    for device in DEVICES:
        seen, real = work.on(device), work_of(truth, device)
        assert len(seen) == len(real) == 3
        handed = spans.of_kind(SpanKind.SUBMIT).on(device)
        for i, one in enumerate(real):
            assert handed.begin_ns[i] <= one.begin_ns
            assert one.end_ns <= seen.end_ns[i]


def test_a_remote_device_is_not_busy_while_the_host_writes_its_message(double: Build, tmp_path: Path) -> None:
    spans, _ = watch(double, tmp_path, SplitMode.EXACT, split_ms=5)
    handed, work = spans.of_kind(SpanKind.SUBMIT), spans.of_kind(SpanKind.COMPUTE)
    assert (handed.on("RPC1").end_ns - handed.on("RPC1").begin_ns >= 2_500_000).all()
    assert (work.on("RPC1").begin_ns == handed.on("RPC1").end_ns).all()
    assert (work.on("CUDA0").begin_ns == handed.on("CUDA0").begin_ns).all()  # it works while it is handed kernels


def test_exact_spans_of_different_devices_never_overlap(double: Build, tmp_path: Path) -> None:
    spans, _ = watch(double, tmp_path, SplitMode.EXACT)
    work = spans.of_kind(SpanKind.COMPUTE)
    assert (work.end_ns[:-1] <= work.begin_ns[1:]).all()


def test_a_copy_that_no_function_shows_is_seen_as_a_wait_for_inputs_of_unknown_size(
    double: Build, tmp_path: Path
) -> None:
    spans, truth = watch(double, tmp_path, SplitMode.EXACT)
    copies, work = spans.of_kind(SpanKind.COPY).on("CUDA1"), spans.of_kind(SpanKind.COMPUTE).on("CUDA1")
    real = work_of(truth, "CUDA1", "copy")
    assert len(copies) == len(real) == 3
    assert (copies.bytes == UNKNOWN).all()
    for i, one in enumerate(real):
        assert one.end_ns <= copies.end_ns[i] <= work.begin_ns[i]


def test_what_the_scheduler_only_asked_for_is_not_called_busy(double: Build, tmp_path: Path) -> None:
    spans, _ = watch(double, tmp_path, SplitMode.LIGHT)
    work = spans.of_kind(SpanKind.COMPUTE)
    assert not work.on("CUDA0").finished.any()
    assert work.on("CPU").finished.all()  # whose call is the work
    busy = busy_ns(spans, ["CPU", *DEVICES], int(spans.begin_ns[0]), int(spans.end_ns.max()))
    assert busy["CPU"] is not None
    assert {busy[device] for device in DEVICES} == {None}
    assert not len(spans.of_kind(SpanKind.SUBMIT))


def test_nothing_is_written_until_somebody_wants_to_watch(double: Build, tmp_path: Path) -> None:
    spans, truth = watch(double, tmp_path, SplitMode.OFF)
    assert truth
    assert not len(spans)


def test_layers_come_from_the_nodes_between_unnamed_ones(double: Build, tmp_path: Path) -> None:
    spans, _ = watch(double, tmp_path, SplitMode.EXACT, passes=1, split_ms=1)
    assert layers_by_device(spans) == {"CUDA0": (0, 1), "CUDA1": (2,), "RPC1": (3,)}
    work = spans.of_kind(SpanKind.COMPUTE).on("CUDA1")
    assert work.nodes.tolist() == [3]
    assert (work.names[work.first_node[0]], work.names[work.last_node[0]]) == ("node_7", "node_8")


def test_a_copy_has_both_its_ends_its_bytes_and_its_layer(double: Build, tmp_path: Path) -> None:
    spans, _ = watch(double, tmp_path, SplitMode.LIGHT, passes=1, split_ms=1)
    (copy,) = [spans.of_kind(SpanKind.COPY)]
    assert copy.bytes.tolist() == [64]  # one copy, though it reads and writes on its way
    assert (copy.devices[copy.source[0]], copy.devices[copy.device[0]]) == ("CUDA1", "RPC1")
    assert copy.first_layer.tolist() == [2]
    assert copy.names[copy.first_node[0]] == "l_out-2"


def test_a_pass_contains_its_splits(double: Build, tmp_path: Path) -> None:
    spans, _ = watch(double, tmp_path, SplitMode.LIGHT)
    passes, work = spans.of_kind(SpanKind.PASS), spans.of_kind(SpanKind.COMPUTE)
    assert len(passes) == 3
    for begin_ns, end_ns in zip(passes.begin_ns, passes.end_ns, strict=True):
        assert ((work.begin_ns >= begin_ns) & (work.end_ns <= end_ns)).sum() == 4


def test_nothing_that_was_written_is_lost_when_the_server_is_killed(double: Build, tmp_path: Path) -> None:
    ring = SplitRing(tmp_path / "ring")
    ring.watch(SplitMode.LIGHT)
    with running(double, ring.path, passes=500) as process:
        told(process)
        process.kill()
        process.wait()
        assert len(ring.drain(final=True)) == 500 * RECORDS_PER_PASS
    assert ring.lost == 0


def test_records_without_room_are_counted_and_the_ring_does_not_grow(double: Build, tmp_path: Path) -> None:
    ring = SplitRing(tmp_path / "ring", capacity=100)
    size = ring.path.stat().st_size
    ring.watch(SplitMode.LIGHT)
    with running(double, ring.path, passes=50) as process:
        told(process)
    assert len(ring.drain(final=True)) == ring.taken == 100
    assert ring.lost == 50 * RECORDS_PER_PASS - 100
    assert ring.path.stat().st_size == size


def test_threads_that_write_at_once_lose_nothing_and_mix_nothing(double: Build, tmp_path: Path) -> None:
    ring = SplitRing(tmp_path / "ring", capacity=1 << 15)
    ring.watch(SplitMode.LIGHT)
    with running(double, ring.path, passes=500, threads=8) as process:
        told(process)
    spans = ring.drain(final=True)
    assert (len(spans), ring.lost) == (8 * 500 * RECORDS_PER_PASS, 0)
    assert (spans.begin_ns <= spans.end_ns).all()
    work = spans.of_kind(SpanKind.COMPUTE)
    nodes = {device: work.on(device).nodes for device in ("CPU", "CUDA0", "CUDA1", "RPC[10.0.0.7:50052]")}
    assert {device: np.unique(column).tolist() for device, column in nodes.items()} == {
        "CPU": [1],
        "CUDA0": [2],
        "CUDA1": [3],
        "RPC[10.0.0.7:50052]": [3],
    }
    assert {column.size for column in nodes.values()} == {8 * 500}


def test_a_ring_that_is_read_while_it_is_written_loses_only_what_it_counts(double: Build, tmp_path: Path) -> None:
    ring = SplitRing(tmp_path / "ring", capacity=64)
    ring.watch(SplitMode.LIGHT)
    parts = []
    with running(double, ring.path, passes=2000, threads=2) as process:
        while len(parts) < 200:
            parts.append(ring.drain())
        told(process)
    spans = concatenate([*parts, ring.drain(final=True)])
    assert len(spans) + ring.lost == 2 * 2000 * RECORDS_PER_PASS
    assert (spans.begin_ns <= spans.end_ns).all()
    assert set(np.unique(spans.kind)) <= {SpanKind.PASS, SpanKind.COMPUTE, SpanKind.COPY}


def test_a_ring_without_space_is_refused_with_its_size(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"no \d+ MiB for the split tracer's records"):
        SplitRing(tmp_path / "ring", capacity=1 << 40)
