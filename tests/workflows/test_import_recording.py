from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from k3prof.core.spans import SpanKind
from k3prof.core.timeline import ClockAnchor, Counter
from k3prof.core.trial import TrialStatus
from k3prof.errors import ConfigError, TraceError
from k3prof.store.trace import Trace
from k3prof.workflows.export import export_report, export_timeline
from k3prof.workflows.import_recording import Selection, import_dmon, import_nsys
from k3prof.workflows.results import read_results
from tests.doubles.nsys_export import COPIES, KERNELS, SESSION_NS, about, alternation, copy, write_export
from tests.doubles.pftrace import read_pftrace

MS, S = 1_000_000, 1_000_000_000


@pytest.fixture
def nsys(tmp_path) -> Path:
    tables = {
        KERNELS: alternation(2, 28 * MS, 300, 1_000 * MS),
        COPIES: [copy(0, 100 * MS, 300 * MS, 1, 2**30), copy(1, 9_300 * MS, 9_350 * MS, 2, 4096)],
        **about(),
    }
    return write_export(tmp_path / "run.sqlite", tables)


def dmon_text(seconds: int = 180) -> str:
    """Return five GPUs that idle, prefill from 20 to 50 s with P = 1.5, decode to 170 s with P = 1, and idle again."""
    lines = []
    for second in range(seconds):
        if second % 10 == 0:
            lines += [
                "#Date       Time        gpu   pwr    sm  rxpci  txpci",
                "#YYYYMMDD   HH:MM:SS    Idx     W     %   MB/s   MB/s",
            ]
        busy = 30 if 20 < second <= 50 else 20 if 50 < second <= 170 else 0
        moment = f"20260724   14:{3 + second // 60:02}:{second % 60:02}"
        lines += [f" {moment}      {gpu}   120    {busy}    {busy * 10}      9" for gpu in range(5)]
    return "\n".join(lines) + "\n"


@pytest.fixture
def dmon(tmp_path) -> Path:
    path = tmp_path / "gpus.txt"
    path.write_text(dmon_text())
    return path


def reply(folder: Path, **more: object) -> Path:
    path = folder / "reply.json"
    timings = {"prompt_n": 4096, "prompt_ms": 30_000.0, "predicted_n": 841, "predicted_ms": 120_000.0}
    path.write_text(json.dumps({"timings": timings, **more}))
    return path


def trial_of(path: Path):
    with Trace.readable(path) as trace:
        ((result),) = read_results(trace).placements
        ((trial, series),) = result.trials
        return result.summary, trial, series, trace.spans(trial.id), trace.anchors().get(trial.id)


def test_alternation_in_an_export_is_one_device_at_a_time_exactly(nsys, tmp_path):
    done = import_nsys(nsys, tmp_path / "t.sqlite", Selection("1", "9.4"))
    (found,) = done.figures
    assert (found.parallelism.degree, found.overlap_ns) == (1.0, (0, 0))
    whole = import_nsys(nsys, tmp_path / "t.sqlite", Selection()).figures[0]
    assert whole.parallelism.degree == 8_400 / 9_300


def test_the_trace_holds_every_kernel_and_copy_as_it_was(nsys, tmp_path):
    done = import_nsys(nsys, tmp_path / "t.sqlite", Selection())
    _, trial, series, spans, anchor = trial_of(done.trace)
    assert (trial.spec.build, trial.outcome.status, trial.spec.placement) == ("imported:nsys", TrialStatus.OK, "run")
    assert (trial.started_ns, trial.ended_ns) == (100 * MS, 9_400 * MS)
    assert anchor == ClockAnchor(0, SESSION_NS)
    work = spans.of_kind(SpanKind.COMPUTE)
    assert work.begin_ns.tolist() == [1_000 * MS + 28 * MS * turn for turn in range(300)]
    assert [work.devices[place] for place in work.device[:3]] == ["GPU0", "GPU1", "GPU0"]
    assert [spans.names[place] for place in work.first_node[:2]] == ["mul_mat_vec_q", "rms_norm_f32"]
    assert {one.counter for one in series} == {Counter.BUSY_TIME_NS}
    assert [one.value[-1] for one in series] == [4_200 * MS] * 2


def test_its_kernels_open_in_perfetto_to_the_nanosecond_with_dates(nsys, tmp_path):
    done = import_nsys(nsys, tmp_path / "t.sqlite", Selection())
    output = tmp_path / "t.pftrace"
    assert export_timeline(done.trace, output, None) == ["run"]
    read = read_pftrace(output.read_bytes())
    for gpu in range(2):
        slices = [(begin_ns, end_ns) for begin_ns, end_ns, _, _ in read.slices["run", f"GPU{gpu}"]]
        begins = SESSION_NS + 1_000 * MS + 28 * MS * np.arange(gpu, 300, 2)
        assert slices == [(int(begin_ns), int(begin_ns) + 28 * MS) for begin_ns in begins]
    ((begin_ns, end_ns, name, facts),) = read.slices["run", "GPU0", "copies to GPU0"]
    assert (begin_ns, end_ns, name) == (SESSION_NS + 100 * MS, SESSION_NS + 300 * MS, "host to device")
    assert facts == {"copied": "host to device", "from": "CPU", "bytes": 2**30}


@pytest.mark.parametrize("suffix", [".html", ".png", ".svg"])
def test_pictures_are_drawn_of_what_was_imported(nsys, dmon, tmp_path, suffix):
    for trace in (
        import_nsys(nsys, tmp_path / "a.sqlite", Selection()).trace,
        import_dmon(dmon, tmp_path / "b.sqlite", Selection(reply=reply(tmp_path), begin="20")).trace,
    ):
        output = tmp_path / f"out{suffix}"
        assert len(export_timeline(trace, output, None)) == 1
        assert 5_000 < output.stat().st_size < 3_000_000


def test_a_report_states_p_the_source_and_the_resolution(nsys, tmp_path):
    trace = import_nsys(nsys, tmp_path / "t.sqlite", Selection("1", "9.4")).trace
    for kind in ("html", "md"):
        text = export_report(trace, kind)
        assert "P = 1.00, exact" in text
        assert "Nsight Systems 2026.1.1.204" in text
        assert "every begin and end" in text
        assert "2026-09-21 14:13 UTC" in text


def test_a_reply_tells_prefill_from_decode(dmon, tmp_path):
    done = import_dmon(dmon, tmp_path / "t.sqlite", Selection(begin="14:03:20", reply=reply(tmp_path)))
    whole, prefill, decode = done.figures
    assert [one.name for one in done.figures] == ["whole recording", "prefill", "decode"]
    assert prefill.parallelism.degree == pytest.approx(1.5)
    assert prefill.parallelism.proves_overlap
    assert decode.parallelism.degree == pytest.approx(1.0)
    assert not decode.parallelism.proves_overlap
    assert (prefill.begin_ns, prefill.end_ns, decode.end_ns) == (20 * S, 50 * S, 170 * S)
    assert prefill.devices["GPU0"].levels[Counter.PCIE_RX_BYTES_PER_S] == 300e6
    assert whole.parallelism.degree < 1


def test_the_same_p_comes_out_of_the_trace(dmon, tmp_path):
    done = import_dmon(dmon, tmp_path / "t.sqlite", Selection(end="14:05:50", reply=reply(tmp_path)))
    summary, trial, _, spans, anchor = trial_of(done.trace)
    (workload,) = summary.workloads
    assert workload.workload.name == "tg841@d4096"
    assert workload.parallelism == done.figures[-1].parallelism
    assert workload.rate.median == pytest.approx(840 / 120)
    assert workload.ttft_ms.median == pytest.approx(30_000)
    assert (trial.spec.build, len(spans), anchor) == ("imported:dmon", 0, None)
    assert "when**: unknown" in export_report(done.trace, "md")


def test_the_date_in_a_reply_is_enough_whatever_the_zone(dmon, tmp_path):
    # 14:05:50 by a clock two hours ahead of UTC.
    dated = reply(tmp_path, created=1_784_894_750)
    done = import_dmon(dmon, tmp_path / "t.sqlite", Selection(reply=dated))
    assert done.figures[-1].end_ns == 170 * S + S // 2


def test_two_times_select_a_part(dmon, tmp_path):
    done = import_dmon(dmon, tmp_path / "t.sqlite", Selection("14:04:00", "2026-07-24 14:05:40"))
    (found,) = done.figures
    assert (found.name, found.begin_ns, found.end_ns) == ("whole selection", 60 * S, 160 * S)
    assert found.parallelism.degree == pytest.approx(1.0)
    _, trial, _, _, _ = trial_of(done.trace)
    assert (trial.started_ns, trial.ended_ns) == (60 * S, 160 * S)


@pytest.mark.parametrize(
    "selection",
    [Selection("50", "20"), Selection("0", "999"), Selection("-1"), Selection("14:02:00"), Selection("abc")],
)
def test_times_out_of_the_recording_are_refused_with_what_it_holds(dmon, tmp_path, selection):
    with pytest.raises(ConfigError):
        import_dmon(dmon, tmp_path / "t.sqlite", selection)
    assert not (tmp_path / "t.sqlite").exists()


def test_timings_with_both_times_or_with_none_are_refused(dmon, tmp_path):
    with pytest.raises(ConfigError, match="--timings, --from and --to"):
        import_dmon(dmon, tmp_path / "t.sqlite", Selection("20", "170", reply(tmp_path)))
    with pytest.raises(ConfigError, match="not known when") as caught:
        import_dmon(dmon, tmp_path / "t.sqlite", Selection(reply=reply(tmp_path)))
    assert "--from" in caught.value.hint


def test_by_default_the_trace_lies_with_the_others(dmon, nsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert import_dmon(dmon, None, Selection()).trace == Path("traces/gpus.dmon.sqlite")
    assert import_nsys(nsys, None, Selection()).trace == Path("traces/run.nsys.sqlite")
    assert sorted(one.name for one in (tmp_path / "traces").iterdir()) == ["gpus.dmon.sqlite", "run.nsys.sqlite"]


def test_importing_again_replaces_the_import_and_nothing_else(dmon, nsys, tmp_path):
    output = import_dmon(dmon, tmp_path / "t.sqlite", Selection()).trace
    import_nsys(nsys, output, Selection())
    assert trial_of(output)[1].spec.build == "imported:nsys"
    sweep = tmp_path / "sweep.sqlite"
    with Trace.writable(sweep) as trace:
        trace.begin_sweep(ClockAnchor(1, 2), {"model": "m"}, {}, [])
    for other in (sweep, nsys, dmon):
        before = other.read_bytes()
        with pytest.raises(TraceError):
            import_dmon(dmon, other, Selection())
        assert other.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_a_trace_that_cannot_be_written_is_named(dmon, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TraceError, match="cannot be written"):
        import_dmon(dmon, tmp_path / "file" / "t.sqlite", Selection())


@pytest.mark.parametrize("name", ["none.txt", ".", "a\0b"])
def test_a_recording_that_cannot_be_read_is_named(tmp_path, name):
    with pytest.raises(ConfigError):
        import_dmon(tmp_path / name, tmp_path / "t.sqlite", Selection())


def test_a_single_reading_is_no_recording(tmp_path):
    path = tmp_path / "one.txt"
    path.write_text("# gpu sm\n# Idx %\n 0 5\n")
    with pytest.raises(ConfigError, match="one moment alone"):
        import_dmon(path, tmp_path / "t.sqlite", Selection())
