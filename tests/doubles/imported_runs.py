"""Recordings of other programs of which every nanosecond is known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from k3prof.core.device import Device, DeviceKind
from k3prof.core.imported import ImportedRun, RecordedClock, busy_time
from k3prof.core.spans import NO_SPANS, SpanKind
from k3prof.core.timeline import Counter, Series
from tests.doubles.named_spans import named_spans

S = 1_000_000_000
LOCAL = datetime(2026, 7, 24, 14, 3, 0)


def gpus(count: int) -> tuple[Device, ...]:
    return tuple(Device(f"GPU{i}", DeviceKind.CUDA) for i in range(count))


def traced(work: Sequence[tuple[str, int, int]], copies: Sequence[tuple[str, str, int, int]] = (), devices: int = 2):
    """Return a recording of kernels (device, begin, end) and copies (source, device, begin, end)."""
    rows = [(SpanKind.COMPUTE, device, begin, end, {"names": ("k", "")}) for device, begin, end in work]
    rows += [(SpanKind.COPY, to, begin, end, {"source": source, "bytes": 1}) for source, to, begin, end in copies]
    spans = named_spans(rows)
    begin_ns, end_ns = int(spans.begin_ns[0]), int(spans.end_ns.max())
    series = busy_time(spans, gpus(devices), begin_ns, end_ns)
    clock = RecordedClock(LOCAL, has_date=True, unix_ns=1_784_901_780 * S)
    return ImportedRun(
        "nsys", "Nsight", gpus(devices), series, spans, begin_ns, end_ns, clock, (), {"kernels": len(work)}
    )


def sampled(
    shares: Sequence[Sequence[float]], clock: RecordedClock | None = None, period_ns: int = S, **levels: float
) -> ImportedRun:
    """Return a recording of readings a second apart, one row of shares for each GPU."""
    time_ns = np.arange(len(shares[0]), dtype=np.int64) * period_ns
    series = [
        Series(f"GPU{i}", Counter.BUSY_FRAC, period_ns, time_ns, np.array(share)) for i, share in enumerate(shares)
    ]
    series += [
        Series("GPU0", Counter(name), period_ns, time_ns, np.full(time_ns.size, value))
        for name, value in levels.items()
    ]
    clock = clock or RecordedClock(LOCAL, has_date=True)
    counts = {"readings": time_ns.size * len(shares)}
    return ImportedRun(
        "dmon", "nvidia-smi dmon", gpus(len(shares)), tuple(series), NO_SPANS, 0, int(time_ns[-1]), clock, (), counts
    )
