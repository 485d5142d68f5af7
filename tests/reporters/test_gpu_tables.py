"""The table of GPUs, from the driver's double through the real `pynvml` to the page."""

from __future__ import annotations

import json
from dataclasses import replace

import pynvml
import pytest

from k3prof.core.summary import phases, summarize_trial
from k3prof.core.timeline import PhaseKind
from k3prof.reporters.gpu_tables import GPU_COLUMNS
from k3prof.reporters.ranking_json import as_json
from k3prof.reporters.report_html import as_html
from k3prof.reporters.report_input import ReportInput
from k3prof.reporters.report_markdown import as_markdown
from tests.core.test_slowdowns import S, during
from tests.doubles.nvml_gpu import POWER_CAP, RECEIVED, SENT, FakeGpu, Fault, fields_of_an_a40
from tests.doubles.polled_gpus import watched_gpu_trial
from tests.doubles.reports import report_input
from tests.reporters.pages import Page

WIDE = fields_of_an_a40()[POWER_CAP][0]
COUNTING = FakeGpu(
    "",
    1,
    used_bytes=41 << 30,
    energy_mj=lambda at_s: 180_000 * at_s,
    fields=fields_of_an_a40()
    | {
        POWER_CAP: (WIDE, during(0, 10_000, 0.34)),
        SENT: (WIDE, lambda at_s: int(3_200_000 * at_s)),
        RECEIVED: (WIDE, lambda at_s: int(1e9 * at_s)),
    },
)
GLIMPSED = FakeGpu("", 2, sm_mhz=(1215, 1740), fields={}, pcie_kb_per_s=(120, 8000), used_bytes=40 << 30)
MUTE = FakeGpu("", 3, faults=[Fault(pynvml.NVML_ERROR_NOT_SUPPORTED)])


@pytest.fixture(scope="module")
def given() -> ReportInput:
    trial, series = watched_gpu_trial([COUNTING, GLIMPSED, MUTE])
    summary = summarize_trial(trial, series)
    return replace(report_input(), trials=[trial], series={trial.id: series}, summaries=[summary], commands={})


def rows(given: ReportInput) -> dict[tuple[str, str], dict[str, str]]:
    table = [line.strip("| ").split(" | ") for line in as_markdown(given).splitlines() if " | CUDA" in line]
    return {(row[0], row[1]): dict(zip(GPU_COLUMNS, row, strict=True)) for row in table if len(row) == len(GPU_COLUMNS)}


def s_per_token(given: ReportInput) -> float:
    (trial,) = given.trials
    decode = [one for one in phases(trial) if one.kind is PhaseKind.DECODE and one.workload == "tg128"]
    return sum(one.end_ns - one.begin_ns for one in decode) / S / (127 * len(decode))


def test_a_gpu_that_tells_everything_has_every_figure(given):
    token_s = s_per_token(given)
    found = rows(given)["tg128", "CUDA0"]
    assert found == {
        "workload": "tg128",
        "GPU": "CUDA0",
        "memory used": "41.0 GiB",
        "power": "180 W",
        "energy per token": f"{180 * token_s:.3g} J",
        "PCIe received": f"{1e9 * token_s / 1e6:.3g} MB/token",
        "PCIe sent": f"{3_200_000 * token_s / 1e3:.3g} kB/token",
        "SM clock": "1,740 MHz",
        "clock held down": "34 %",
    }


def test_a_gpu_that_counts_no_bytes_shows_the_rates_it_was_glimpsed_at(given):
    found = rows(given)["tg128", "CUDA1"]
    assert (found["PCIe received"], found["PCIe sent"], found["SM clock"]) == ("8 MB/s", "120 kB/s", "1,215 MHz")
    assert found["clock held down"] == "unknown"


def test_what_a_gpu_does_not_tell_is_unknown(given):
    for place in (("tg128", "CUDA2"), ("pp512", "CUDA4")):
        assert set(list(rows(given)[place].values())[2:]) == {"unknown"}


def test_prefill_counts_the_tokens_of_the_prompt(given):
    (trial,) = given.trials
    prefill = [one for one in phases(trial) if one.kind is PhaseKind.PREFILL and one.workload == "pp512"]
    token_s = sum(one.end_ns - one.begin_ns for one in prefill) / S / (512 * len(prefill))
    assert rows(given)["pp512", "CUDA0"]["energy per token"] == f"{180 * token_s:.3g} J"


def test_the_page_has_the_table_and_what_it_means(given):
    text = " ".join(Page(as_html(given)).text.split())
    assert "energy per token" in text
    assert "the mean of glimpses of 20 ms" in text
    assert "41.0 GiB" in text


def test_json_has_the_same_figures_and_null_for_what_is_unknown(given):
    workloads = json.loads(json.dumps(as_json(given.summaries), allow_nan=False))["placements"][0]["workloads"]
    gpus = {gpu["device"]: gpu for gpu in workloads[1]["gpus"]}
    assert gpus["CUDA0"]["energy_j_per_token"] == pytest.approx(180 * s_per_token(given))
    assert gpus["CUDA1"]["received_bytes_per_s"] == 8e6
    assert gpus["CUDA1"]["received_bytes_per_token"] is None
    assert set(gpus["CUDA4"].values()) == {"CUDA4", None}


def test_stand_ins_have_no_such_table():
    given = report_input()
    assert rows(given) == {}
    assert "energy per token" not in as_html(given)
    assert all(
        one["gpus"] == [] for placement in as_json(given.summaries)["placements"] for one in placement["workloads"]
    )
