"""Trials whose every busy nanosecond is known: what a sweep over stand-ins, or over real GPUs, leaves in a trace.

A `Script` lays busy intervals on devices and writes down the requests that caused them. The counters are then read
from those intervals exactly as a sampler would read them, so a test can compute what a reporter should say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from k3prof.core.device import HOST, Device, DeviceKind
from k3prof.core.timeline import Counter, Series
from k3prof.core.trial import (
    Caveat,
    Failure,
    FlagValue,
    Outcome,
    RequestRecord,
    ServerTimings,
    TrialRecord,
    TrialSpec,
    TrialStatus,
    Workload,
)

MS = 1_000_000
START_NS = 4_000_000_000_000
STAND_INS = tuple(Device(f"RPC{i}", DeviceKind.STAND_IN, "ggml-rpc-server, one thread") for i in range(3))
A40S = tuple(
    Device(f"CUDA{i}", DeviceKind.CUDA, "NVIDIA A40", 48_305_799_168, f"GPU-{i:08x}", f"00000000:{i:02x}:00.0")
    for i in range(5)
)
PP512, TG128 = Workload("pp", 512), Workload("tg", 128)


@dataclass
class Script:
    """A server's life, written step by step on one clock."""

    now_ns: int = START_NS
    busy: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    requests: list[RequestRecord] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(3))

    def work(self, device: str, begin_ns: int, length_ns: int) -> None:
        self.busy[device].append((begin_ns, begin_ns + length_ns))

    def wait(self, length_ns: int) -> None:
        self.now_ns += length_ns

    def load(self, devices: Sequence[str], length_ns: int) -> None:
        each_ns = length_ns // len(devices)
        for i, device in enumerate(devices):
            self.work(device, self.now_ns + i * each_ns, each_ns // 2)
            self.work("CPU", self.now_ns + i * each_ns, each_ns // 3)
        self.wait(length_ns)

    def prefill(self, turns_ns: Mapping[str, int], ubatches: int) -> int:
        """Lay a pipelined prefill: a device starts the next ubatch while its neighbour is at the one before."""
        step_ns = int(1.7 * max(turns_ns.values()))
        for ubatch in range(ubatches):
            begin_ns = self.now_ns + ubatch * step_ns
            for device, turn_ns in turns_ns.items():
                self.work(device, begin_ns, turn_ns)
                begin_ns += turn_ns
        self.work("CPU", self.now_ns, 4 * MS)
        length_ns = (ubatches - 1) * step_ns + sum(turns_ns.values()) + 4 * MS
        self.wait(length_ns)
        return length_ns

    def decode(self, turns_ns: Mapping[str, int], host_ns: int, tokens: int) -> list[int]:
        """Lay tokens one after another, the devices taking turns; return when each token was done.

        Tokens differ in length, like real ones, but not in what share of one each device is busy.
        """
        arrivals_ns = []
        for pace in self.rng.normal(1.0, 0.04, tokens) + self.rng.normal(0.0, 0.01):
            for device, turn_ns in turns_ns.items():
                paced_ns = int(turn_ns * pace)
                self.work(device, self.now_ns, paced_ns)
                self.wait(paced_ns)
            self.work("CPU", self.now_ns, int(host_ns * pace) // 3)
            self.wait(int(host_ns * pace))
            arrivals_ns.append(self.now_ns)
        return arrivals_ns

    def request(
        self, workload: Workload, role: str, repetition: int, turns_ns: Mapping[str, int], host_ns: int
    ) -> None:
        sent_ns = self.now_ns
        pp = workload.kind == "pp"
        prompt_ns = self.prefill(turns_ns, ubatches=16 if pp else 1)
        arrivals_ns = [self.now_ns, *([] if pp else self.decode(turns_ns, host_ns, workload.tokens - 1))]
        self.requests.append(
            RequestRecord(
                workload,
                "warmup" if role == "warmup" else "measure",
                repetition,
                0,
                sent_ns,
                np.array(arrivals_ns, np.int64),
                np.ones(len(arrivals_ns), np.int64),
                self.now_ns,
                ServerTimings(
                    prompt_n=workload.tokens if pp else 1,
                    prompt_ms=prompt_ns / 1e6,
                    predicted_n=len(arrivals_ns),
                    predicted_ms=(arrivals_ns[-1] - arrivals_ns[0]) / 1e6,
                ),
            )
        )
        self.wait(60 * MS)

    def busy_ns(self, device: str, at_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the device's busy time since the start, at each of the given times."""
        edges, total = [START_NS], [0]
        for begin_ns, end_ns in _union(self.busy[device]):
            edges += [begin_ns, end_ns]
            total += [total[-1], total[-1] + end_ns - begin_ns]
        return np.interp(at_ns, edges, total)


def stand_in_trial(
    placement: str = "even",
    turns_ms: Sequence[float] = (8, 6, 7),
    token_ms: float = 30,
    *,
    number: int = 1,
    repeat: int = 3,
    devices: Sequence[Device] = STAND_INS,
    caveats: tuple[Caveat, ...] = (),
    flags: Mapping[str, FlagValue] | None = None,
) -> tuple[TrialRecord, tuple[Series, ...]]:
    """Return a trial on stand-ins whose devices take turns in decode and overlap in prefill, read every 5 ms.

    In decode device i is busy for `turns_ms[i]` of each `token_ms`, so P is their sum over `token_ms`.
    """
    script = _script([device.name for device in devices], turns_ms, token_ms, repeat)
    trial = _record(placement, script, tuple(devices), number, repeat, caveats, flags)
    time_ns = _reading_times(START_NS - 20 * MS, script.now_ns, 5 * MS, seed=number)
    series = [
        Series(name, Counter.CPU_TIME_NS, 5 * MS, time_ns, script.busy_ns(name, time_ns) + 1e9 * (i + 1))
        for i, name in enumerate([*(device.name for device in devices), "CPU"])
    ]
    return trial, (*series, *_sampler_series(time_ns, seed=number))


def gpu_trial(
    placement: str = "layers",
    turns_ms: Sequence[float] = (26, 27, 27, 28, 24),
    token_ms: float = 140,
    *,
    number: int = 1,
    repeat: int = 2,
) -> tuple[TrialRecord, tuple[Series, ...]]:
    """Return a trial on five A40s, whose utilisation counter averages over 200 ms and is rounded to percents."""
    script = _script([device.name for device in A40S], turns_ms, token_ms, repeat)
    trial = _record(placement, script, A40S, number, repeat, (), None)
    period_ns = 200 * MS
    time_ns = np.arange(START_NS, script.now_ns, period_ns, dtype=np.int64)
    gpus = [
        Series(
            device.name,
            Counter.BUSY_FRAC,
            period_ns,
            time_ns[1:],
            np.round(np.diff(script.busy_ns(device.name, time_ns)) / period_ns, 2),
        )
        for device in A40S
    ]
    cpu_ns = _reading_times(START_NS - 20 * MS, script.now_ns, 5 * MS, seed=number)
    cpu = Series("CPU", Counter.CPU_TIME_NS, 5 * MS, cpu_ns, script.busy_ns("CPU", cpu_ns))
    return trial, (*gpus, cpu, *_sampler_series(cpu_ns, seed=number))


def failed_trial(
    placement: str = "all-on-one",
    *,
    number: int = 9,
    failure: Failure = Failure.OUT_OF_MEMORY,
    message: str = "RPC1 has no room for the weights",
    evidence: str = "ggml_backend_rpc_buffer_type_alloc_buffer: failed to allocate 41231.00 MiB on RPC1",
    status: TrialStatus = TrialStatus.FAILED,
) -> tuple[TrialRecord, tuple[Series, ...]]:
    """Return a trial whose server never answered."""
    trial = TrialRecord(
        id=number,
        spec=_spec(placement, ("rpc:3",), 3, {"tensor-split": (0, 1, 0)}),
        devices=STAND_INS,
        started_ns=START_NS,
        ready_ns=None,
        ended_ns=START_NS + 1_200 * MS,
        outcome=Outcome(status, failure, message, evidence),
    )
    return trial, ()


def million_sample_trial(samples: int = 1_000_000) -> tuple[TrialRecord, tuple[Series, ...]]:
    """Return a trial of hours: `samples` readings of each of three stand-ins and of the host."""
    trial, series = stand_in_trial()
    last_ns = int(series[0].time_ns[-1])
    rng = np.random.default_rng(7)
    time_ns = last_ns + 5 * MS * np.arange(1, samples - series[0].time_ns.size + 1, dtype=np.int64)
    longer = []
    for one in series:
        if one.counter is not Counter.CPU_TIME_NS:
            continue
        more = one.value[-1] + np.cumsum(rng.uniform(0, 5 * MS, time_ns.size))
        longer.append(
            Series(
                one.device,
                one.counter,
                one.period_ns,
                np.concatenate([one.time_ns, time_ns]),
                np.concatenate([one.value, more]),
            )
        )
    return replace(trial, ended_ns=int(time_ns[-1])), tuple(longer)


def _script(devices: Sequence[str], turns_ms: Sequence[float], token_ms: float, repeat: int) -> Script:
    turns_ns = {device: int(ms * MS) for device, ms in zip(devices, turns_ms, strict=True)}
    host_ns = int(token_ms * MS) - sum(turns_ns.values())
    script = Script()
    script.load(devices, 1_400 * MS)
    for workload in (PP512, TG128):
        prefill_ns = {device: 5 * turn_ns for device, turn_ns in turns_ns.items()}
        turns = prefill_ns if workload.kind == "pp" else turns_ns
        script.request(workload, "warmup", 0, turns, host_ns)
        for repetition in range(repeat):
            script.request(workload, "measure", repetition, turns, host_ns)
    return script


def _record(
    placement: str,
    script: Script,
    devices: tuple[Device, ...],
    number: int,
    repeat: int,
    caveats: tuple[Caveat, ...],
    flags: Mapping[str, FlagValue] | None,
) -> TrialRecord:
    asked = ("rpc:3",) if devices[0].kind is DeviceKind.STAND_IN else tuple(device.uuid or "" for device in devices)
    return TrialRecord(
        id=number,
        spec=_spec(placement, asked, repeat, flags),
        devices=(*devices, HOST),
        started_ns=START_NS,
        ready_ns=START_NS + 1_400 * MS,
        ended_ns=script.now_ns,
        outcome=Outcome(TrialStatus.OK),
        requests=tuple(script.requests),
        caveats=caveats,
    )


def _spec(placement: str, devices: tuple[str, ...], repeat: int, flags: Mapping[str, FlagValue] | None) -> TrialSpec:
    return TrialSpec(
        placement=placement,
        model="8c1f0a52e6d94b37",
        model_path="/home/someone/.cache/k3prof/models/kimi-k3-demo.gguf",
        build="0c1e570aa41b22d3",
        devices=devices,
        flags={"ctx-size": 4096, "tensor-split": (1, 1, 1), **(flags or {})},
        env={"GGML_OP_OFFLOAD_MIN_BATCH": "64"},
        workloads=(PP512, TG128),
        repeat=repeat,
    )


def _reading_times(begin_ns: int, end_ns: int, period_ns: int, seed: int) -> NDArray[np.int64]:
    deadlines = np.arange(begin_ns, end_ns + period_ns, period_ns, dtype=np.int64)
    late_ns = np.random.default_rng(seed).gamma(2.0, 60_000, deadlines.size).astype(np.int64)
    return deadlines + np.minimum(late_ns, period_ns - 1)


def _sampler_series(time_ns: NDArray[np.int64], seed: int) -> tuple[Series, ...]:
    late_ns = np.minimum(np.random.default_rng(seed).gamma(2.0, 60_000, time_ns.size).astype(np.int64), 5 * MS - 1)
    return (
        Series("host", Counter.LATENESS_NS, 5 * MS, time_ns, late_ns.astype(np.float64)),
        Series("host", Counter.READ_ERRORS, 5 * MS, time_ns[::100], np.zeros(time_ns[::100].size)),
    )


def _union(intervals: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for begin_ns, end_ns in sorted(intervals):
        if merged and begin_ns <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end_ns, merged[-1][1]))
        else:
            merged.append((begin_ns, end_ns))
    return merged
