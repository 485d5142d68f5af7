from __future__ import annotations

import math
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.collectors.dmon import read_dmon
from k3prof.core.idle import parallelism
from k3prof.core.timeline import Counter
from k3prof.errors import ConfigError

S = 1_000_000_000
OLD = """\
# gpu   pwr  temp    sm   mem   enc   dec  mclk  pclk pviol tviol    fb  bar1 sbecc dbecc   pci rxpci txpci
# Idx     W     C     %     %     %     %   MHz   MHz     %  bool    MB    MB  errs  errs  errs  MB/s  MB/s
    0    25    43    10     4    40     0  3499  1721     0     0   442     2     -     -     0   577    95
    1    25    43    90     4    40     0  3499  1721     0     0   442     2     -     -     0   577    95
    0    26    43    20     4    40     0  3499  1721     0     0   443     2     -     -     0   578     0
    1    26    43    80     4    40     0  3499  1721     0     0   443     2     -     -     0   578     0
"""
DATED = """\
#Date       Time        gpu   pwr gtemp mtemp    sm   mem   enc   dec   jpg   ofa  mclk  pclk
#YYYYMMDD   HH:MM:SS    Idx     W     C     C     %     %     %     %     %     %   MHz   MHz
 20261130   23:59:58      0   300    61     -    50    10     0     0     0     0  7250  1740
 20261130   23:59:58      1     -    61     -    50    10     0     0     0     0  7250  1740
 20261130   23:59:59      0   302    61     -   100    10     0     0     0     0  7250  1740
 20261130   23:59:59      1     -    61     -     0    10     0     0     0     0  7250  1740
#Date       Time        gpu   pwr gtemp mtemp    sm   mem   enc   dec   jpg   ofa  mclk  pclk
#YYYYMMDD   HH:MM:SS    Idx     W     C     C     %     %     %     %     %     %   MHz   MHz
 20261201   00:00:00      0   304    61     -     0    10     0     0     0     0  7250  1740
 20261201   00:00:00      1     -    61     -   100    10     0     0     0     0  7250  1740
"""
TIMED = """\
#Time        gpu    sm   mem   enc   dec  rxpci  txpci
#HH:MM:SS    Idx     %     %     %     %   MB/s   MB/s
 23:59:59      0    16    40     0     0    300    200
 00:00:00      0    17    40     0     0    300    200
 00:00:02      0    18    40     0     0    300    200
"""
CSV = """\
timestamp, index, uuid, name, utilization.gpu [%], utilization.memory [%], memory.used [MiB], memory.total [MiB], \
power.draw [W], clocks.current.sm [MHz], pstate, pcie.link.gen.current
2026/07/24 00:00:00.123, 0, GPU-1bdee8b4-22ac-536c-208b-bfb4ed38b878, NVIDIA A40, 80 %, 12 %, 22000 MiB, 46068 MiB, \
88.20 W, 1740 MHz, P0, 4
2026/07/24 00:00:00.125, 1, GPU-a2226185-cb05-a411-80da-f365154128fe, NVIDIA A40, 20 %, 5 %, 41000 MiB, 46068 MiB, \
[N/A], 1740 MHz, P2, 1
2026/07/24 00:00:01.123, 0, GPU-1bdee8b4-22ac-536c-208b-bfb4ed38b878, NVIDIA A40, 60 %, 12 %, 22000 MiB, 46068 MiB, \
90.00 W, 1740 MHz, P0, 4
2026/07/24 00:00:01.125, 1, GPU-a2226185-cb05-a411-80da-f365154128fe, NVIDIA A40, 40 %, 5 %, 41000 MiB, 46068 MiB, \
[N/A], 1740 MHz, P2, 1
"""


def values(run, device, counter):
    return {
        (one.device, one.counter): list(zip(one.time_ns.tolist(), one.value.tolist(), strict=True))
        for one in run.series
    }.get((device, counter))


def test_every_column_that_counts_is_read_in_base_units():
    run = read_dmon(OLD, "gpus.txt")
    assert [device.name for device in run.devices] == ["GPU0", "GPU1"]
    assert values(run, "GPU0", Counter.BUSY_FRAC) == [(0, 0.1), (S, 0.2)]
    assert values(run, "GPU1", Counter.BUSY_FRAC) == [(0, 0.9), (S, 0.8)]
    assert values(run, "GPU0", Counter.POWER_W) == [(0, 25), (S, 26)]
    assert values(run, "GPU0", Counter.MEMORY_BYTES) == [(0, 442 * 2**20), (S, 443 * 2**20)]
    assert values(run, "GPU0", Counter.PCIE_RX_BYTES_PER_S) == [(0, 577e6), (S, 578e6)]
    assert values(run, "GPU0", Counter.PCIE_TX_BYTES_PER_S) == [(0, 95e6), (S, 0)]
    assert values(run, "GPU0", Counter.SM_MHZ) == [(0, 1721), (S, 1721)]
    assert values(run, "GPU0", Counter.MEMORY_MHZ) == [(0, 3499), (S, 3499)]
    assert run.counts == {"readings": 4, "lines left out": 0}


def test_readings_without_times_are_said_to_be_taken_as_apart_as_dmon_takes_them():
    run = read_dmon(OLD, "gpus.txt")
    (caveat,) = run.caveats
    assert (caveat.code, run.clock.local) == ("times-assumed", None)
    assert "1 s apart" in caveat.message
    slow = read_dmon(OLD, "gpus.txt", every_s=2.5)
    assert values(slow, "GPU0", Counter.BUSY_FRAC)[1][0] == 2_500_000_000
    assert "2.5 s apart, as given" in slow.caveats[0].message


def test_a_missing_gpu_does_not_shift_the_readings_that_follow():
    lines = OLD.splitlines(keepends=True)
    run = read_dmon("".join([*lines[:3], *lines[4:]]), "gpus.txt")
    assert values(run, "GPU1", Counter.BUSY_FRAC) == [(S, 0.8)]


def test_dates_repeated_headers_and_what_a_gpu_does_not_offer():
    run = read_dmon(DATED, "gpus.txt")
    assert run.clock.local == datetime(2026, 11, 30, 23, 59, 58)
    assert run.clock.has_date
    assert values(run, "GPU0", Counter.BUSY_FRAC) == [(0, 0.5), (S, 1.0), (2 * S, 0.0)]
    assert values(run, "GPU1", Counter.POWER_W) is None
    assert run.caveats == ()
    assert (run.begin_ns, run.end_ns, run.counts["lines left out"]) == (0, 2 * S, 0)


def test_a_time_of_day_goes_on_after_midnight():
    run = read_dmon(TIMED, "gpus.txt")
    assert values(run, "GPU0", Counter.BUSY_FRAC) == [(0, 0.16), (S, 0.17), (3 * S, 0.18)]
    assert not run.clock.has_date


def test_a_table_of_query_gpu_is_read_with_its_units_and_what_it_says_of_the_gpus():
    run = read_dmon(CSV, "gpus.csv")
    assert values(run, "GPU0", Counter.BUSY_FRAC) == [(0, 0.8), (S, 0.6)]
    assert values(run, "GPU1", Counter.BUSY_FRAC) == [(2_000_000, 0.2), (S + 2_000_000, 0.4)]
    assert values(run, "GPU0", Counter.POWER_W) == [(0, 88.2), (S, 90.0)]
    assert values(run, "GPU1", Counter.POWER_W) is None
    assert values(run, "GPU1", Counter.P_STATE) == [(2_000_000, 2), (S + 2_000_000, 2)]
    assert values(run, "GPU0", Counter.PCIE_GENERATION) == [(0, 4), (S, 4)]
    second = run.devices[1]
    assert (second.name, second.description, second.memory_bytes) == ("GPU1", "NVIDIA A40", 46068 * 2**20)
    assert second.uuid == "GPU-a2226185-cb05-a411-80da-f365154128fe"


def test_dmon_may_write_commas():
    run = read_dmon("#gpu, pwr, sm\n#Idx, W, %\n0, 61, 47\n1, -, 53\n0, 62, 48\n1, -, 52\n", "gpus.csv")
    assert values(run, "GPU1", Counter.BUSY_FRAC) == [(0, 0.53), (S, 0.52)]
    assert values(run, "GPU0", Counter.POWER_W) == [(0, 61), (S, 62)]
    assert (run.source, run.counts["lines left out"]) == ("nvidia-smi dmon", 0)


def test_units_may_be_left_out():
    assert (
        read_dmon(CSV.replace(" %", "").replace(" MiB", "").replace(" W", "").replace(" MHz", ""), "x").counts[
            "readings"
        ]
        == 4
    )


def test_a_table_without_a_header_needs_the_columns_that_were_asked_for():
    body = "2026/07/24 00:00:00.123, 0, 80\n2026/07/24 00:00:01.123, 0, 60\n"
    with pytest.raises(ConfigError, match="no line of it") as caught:
        read_dmon(body, "gpus.csv")
    assert "--columns" in caught.value.hint
    run = read_dmon(body, "gpus.csv", ["timestamp", "index", "utilization.gpu"])
    assert values(run, "GPU0", Counter.BUSY_FRAC) == [(0, 0.8), (S, 0.6)]
    with pytest.raises(ConfigError, match="--columns"):
        read_dmon(body, "gpus.csv", ["whatever"])


def test_a_table_that_does_not_say_which_gpu_is_refused():
    with pytest.raises(ConfigError, match="which GPU a row is of"):
        read_dmon("timestamp, utilization.gpu [%]\n2026/07/24 00:00:00.123, 80 %\n", "gpus.csv")


def test_gpus_without_an_index_are_told_apart_by_uuid_or_bus():
    text = "pci.bus_id, utilization.gpu [%]\n00000000:41:00.0, 10 %\n00000000:C1:00.0, 20 %\n"
    run = read_dmon(text, "gpus.csv")
    assert [(device.name, device.pci_bus_id) for device in run.devices] == [
        ("GPU0", "00000000:41:00.0"),
        ("GPU1", "00000000:C1:00.0"),
    ]


def test_devices_are_in_the_order_of_their_numbers():
    text = "# gpu sm\n# Idx %\n" + "".join(f" {n} 5\n" for n in (10, 2, 0))
    assert [device.name for device in read_dmon(text, "x").devices] == ["GPU0", "GPU2", "GPU10"]


@pytest.mark.parametrize(
    "line",
    [
        "    0    62    27",
        "    0    62    27     -     7     1   100     5  6250  1710     0    61    27     -     7     1   100",
        "    0     W    27     -     7     1   100     5  6250  1710",
        "    0    62    27     -   101     1   100     5  6250  1710",
        "    0    62    27     -    -7     1   100     5  6250  1710",
        "    x    62    27     -     7     1   100     5  6250  1710",
        "Failed to initialize NVML: Driver/library version mismatch",
        "# nonsense",
        "a, b, c",
        "\x1b[31m0\x1b[0m",
    ],
)
def test_a_line_that_is_no_reading_is_counted_and_nothing_in_it_is_believed(line):
    text = f"""\
# gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk
# Idx     W     C     C     %     %     %     %   MHz   MHz
    0    62    27     -     7     1   100     5  6250  1710
{line}
    0    63    27     -     8     1   100     5  6250  1710
"""
    run = read_dmon(text, "gpus.txt")
    assert values(run, "GPU0", Counter.BUSY_FRAC) == [(0, 0.07), (S, 0.08)]
    assert run.counts == {"readings": 2, "lines left out": 1}
    assert "beginning with line 4" in run.caveats[-1].message


def test_a_last_line_without_an_end_may_be_cut_in_a_number_and_is_left_out():
    run = read_dmon(DATED.rstrip("\n")[:-1], "gpus.txt")
    assert run.counts == {"readings": 5, "lines left out": 1}


def test_readings_that_go_back_in_time_are_left_out():
    lines = DATED.splitlines(keepends=True)
    run = read_dmon("".join([*lines, lines[2]]), "gpus.txt")
    assert run.counts == {"readings": 6, "lines left out": 1}


def test_a_header_with_other_columns_holds_from_there_on():
    more = "#Date       Time        gpu    fb    sm\n 20261201   00:00:01      0  1000    25\n"
    run = read_dmon(DATED + more, "gpus.txt")
    assert values(run, "GPU0", Counter.BUSY_FRAC)[-1] == (3 * S, 0.25)
    assert values(run, "GPU0", Counter.MEMORY_BYTES) == [(3 * S, 1000 * 2**20)]
    undated = read_dmon(DATED + OLD, "gpus.txt")
    assert undated.counts == {"readings": 6, "lines left out": 4}


def test_readings_in_one_printed_second_lie_within_it():
    header, row = "#Date Time gpu sm\n", " 20260724 12:00:0{} 0 {}\n"
    text = header + row.format(0, 10) + row.format(0, 20) + row.format(1, 30) + row.format(3, 40) + row.format(3, 50)
    times_ns, shares = zip(*values(read_dmon(text, "x"), "GPU0", Counter.BUSY_FRAC), strict=True)
    assert times_ns == (0, S // 2, S, 3 * S, 3 * S + S // 2)
    assert shares == (0.1, 0.2, 0.3, 0.4, 0.5)


def test_slow_polling_is_pointed_out():
    text = "#Date Time gpu sm\n" + "".join(f" 20260724 12:00:{second:02} 0 50\n" for second in range(0, 60, 5))
    run = read_dmon(text, "x")
    assert [caveat.code for caveat in run.caveats] == ["polled"]
    assert run.series[0].period_ns == 5 * S


@pytest.mark.parametrize("text", ["", "\n\n", "hello\n", "{}\n", "\0\0\0\n", "# gpu sm\n# Idx %\n", "# gpu sm\n 0 5"])
def test_a_file_without_a_reading_is_refused_by_name(text):
    with pytest.raises(ConfigError, match=r"^odd\.txt"):
        read_dmon(text, "odd.txt")


def test_alternation_as_five_flat_bars_near_a_fifth_gives_p_of_one():
    header = "#Date       Time        gpu    sm\n#YYYYMMDD   HH:MM:SS    Idx     %\n"
    rows = "".join(
        f" 20260724   12:{second // 60:02}:{second % 60:02}  {gpu:3}  {[21, 19, 20, 22, 18][(gpu + second) % 5]:4}\n"
        for second in range(300)
        for gpu in range(5)
    )
    run = read_dmon(header + rows, "x")
    found = parallelism([one for one in run.series if one.counter is Counter.BUSY_FRAC], [(run.begin_ns, run.end_ns)])
    assert found is not None
    assert found.degree == pytest.approx(1.0, abs=1e-12)
    assert not found.proves_overlap


CELL = st.one_of(st.integers(0, 100).map(str), st.just("-"))


@given(
    readings=st.lists(st.tuples(st.integers(0, 7), CELL, CELL, CELL), min_size=1, max_size=40),
    noise=st.lists(st.tuples(st.integers(0, 40), st.text(st.characters(exclude_characters="\n"), max_size=60))),
)
def test_readings_come_back_whatever_lies_between_them(readings, noise):
    lines = [f" {i // 60:02}:{i % 60:02}:00 {gpu} {a} {b} {c}" for i, (gpu, a, b, c) in enumerate(readings)]
    kept = [line for _, line in noise if not line.strip("\x1c\x1d\x1e\x1f \t\r\x0b\x0c\x85").startswith("#")]
    kept = [line for line in kept if len(line.split()) != 5 and "," not in line]
    for (at, _), line in zip(noise, kept, strict=False):
        lines.insert(min(at, len(lines)), line)
    run = read_dmon("#Time gpu sm pwr rxpci\n#HH:MM:SS Idx % W MB/s\n" + "\n".join(lines) + "\n", "x")
    for column, counter, scale in (
        (1, Counter.BUSY_FRAC, 0.01),
        (2, Counter.POWER_W, 1),
        (3, Counter.PCIE_RX_BYTES_PER_S, 1e6),
    ):
        wanted: dict[str, list[tuple[int, float]]] = {}
        for i, reading in enumerate(readings):
            if reading[column] != "-":
                wanted.setdefault(f"GPU{reading[0]}", []).append((i * 60 * S, float(reading[column]) * scale))
        for device, expected in wanted.items():
            assert values(run, device, counter) == expected
    assert run.counts["readings"] == len(readings)


@given(st.text(max_size=400), st.sampled_from(["", OLD, DATED, TIMED, CSV]))
def test_no_text_whatsoever_ends_in_a_traceback(text, before):
    try:
        run = read_dmon(before + text, "x")
    except ConfigError:
        return
    for one in run.series:
        assert (np.diff(one.time_ns) > 0).all()
        assert all(math.isfinite(value) and value >= 0 for value in one.value)
        assert one.counter is not Counter.BUSY_FRAC or one.value.max() <= 1


@given(st.sampled_from([OLD, DATED, TIMED, CSV]), st.integers(0, 2000), st.integers(0, 2000))
def test_cutting_a_piece_out_adds_no_reading_that_was_not_there(whole, first, last):
    first, last = sorted((first % len(whole), last % len(whole)))
    try:
        cut = read_dmon(whole[:first], "x")
    except ConfigError:
        return
    full = read_dmon(whole, "x")
    for one in cut.series:
        known = values(full, one.device, one.counter)
        assert known is not None
        assert values(cut, one.device, one.counter) == known[: one.time_ns.size]
