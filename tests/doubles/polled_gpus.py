"""What the collectors read of GPUs that follow a script, through the real `pynvml`, at its deadlines on a set clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from k3prof.collectors.nvml import GpuIntervals, open_gpus
from k3prof.core.timeline import Series
from k3prof.core.trial import TrialRecord
from tests.doubles.nvml import FakeNvml, installed
from tests.doubles.nvml_gpu import FakeGpu
from tests.doubles.trials import A40S, MS, gpu_trial


def polled(gpus: Sequence[FakeGpu], begin_ns: int, end_ns: int) -> list[Series]:
    """Return the polled counters of GPUs, named `CUDA0` and on, from before `begin_ns` until after `end_ns`."""
    now_ns = begin_ns - 2_000 * MS
    readings: dict[tuple[str, str, int], list[tuple[int, float]]] = defaultdict(list)
    with installed(FakeNvml(gpus, clock=lambda: now_ns / 1e9)):
        named = [(f"CUDA{number}", gpu.uuid) for number, gpu in enumerate(gpus)]
        sources, _ = open_gpus(named, GpuIntervals(), lambda _: None)
        for source in sources:
            now_ns = source.schedule.next_after(begin_ns - 2_000 * MS)
            while now_ns < end_ns + 2_000 * MS:
                for channel, value in zip(source.channels, source.read(), strict=True):
                    if value is not None:
                        readings[channel.device, channel.counter, channel.period_ns].append((now_ns, value))
                now_ns = source.schedule.next_after(now_ns)
    return [
        Series(device, counter, period_ns, np.array([at for at, _ in found], np.int64), np.array([v for _, v in found]))
        for (device, counter, period_ns), found in readings.items()
    ]


def watched_gpu_trial(gpus: Sequence[FakeGpu]) -> tuple[TrialRecord, tuple[Series, ...]]:
    """Return a trial on five A40s with the counters of these, first to last; the rest of the five tell none."""
    trial, series = gpu_trial()
    devices = {device.name: device for device in A40S}
    named = [replace(gpu, uuid=devices[f"CUDA{number}"].uuid or "") for number, gpu in enumerate(gpus)]
    return trial, (*series, *polled(named, trial.started_ns, trial.ended_ns or 0))
