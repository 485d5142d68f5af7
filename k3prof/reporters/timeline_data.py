"""What a timeline shows of a trial: lanes, phases, the stretch of tokens to look at closely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from k3prof.core.device import HOST, Device, DeviceKind
from k3prof.core.spans import NO_SPANS, SpanKind, Spans
from k3prof.core.summary import PlacementSummary, device_counters, phases, summarize_trial
from k3prof.core.thinning import Steps, thin_steps
from k3prof.core.timeline import Counter, Phase, PhaseKind, Series, busy_steps
from k3prof.core.trial import RequestRecord, RequestStatus, TrialRecord, Workload
from k3prof.reporters import formats, legend
from k3prof.reporters.split_lanes import cut_at, traced_stretches, with_splits

ZOOM_TOKENS = 10
SPLIT_ZOOM_TOKENS = 2
_GAP_PERIODS = 5
_EDGE_PERIODS = 2


@dataclass(frozen=True, eq=False)
class Lane:
    """One device's busy share over a trial.

    Attributes:
        device: The device's name.
        kind: What it is.
        edges_ns: Monotonic times, shape (steps + 1,), int64; empty when the device was never observed.
        share: Busy share between them, shape (steps,), float64; NaN where nothing was read for long.
        period_ns: The counter's resolution; None when the device was never observed.
        counter: What the share was read from; None when the device was never observed.
        exact: Stretches in which the share is that of traced splits, 0 or 1 between their ends, or as exact.
    """

    device: str
    kind: DeviceKind
    edges_ns: NDArray[np.int64]
    share: NDArray[np.float64]
    period_ns: int | None
    counter: Counter | None
    exact: tuple[tuple[int, int], ...] = ()

    def thinned(self, bins: int, whole: Sequence[tuple[int, int]] = ()) -> Steps:
        """Return the lane with neighbouring steps merged, as `thin_steps` does.

        In exact stretches bins are of equal length, for what is exact may be cut anywhere; and as the highest reading
        is always 1 there, which says nothing, it is the mean.
        """
        borders = [(edge_ns, edge_ns) for stretch in self.exact for edge_ns in stretch]
        edges_ns, share = self.edges_ns, self.share
        if share.size > bins and self.exact:
            edges_ns, share = cut_at(edges_ns, share, self._ticks_ns(bins))
        steps = thin_steps(edges_ns, share, bins, [*whole, *borders])
        high = steps.high.copy()
        for begin_ns, end_ns in self.exact:
            inside = (steps.edges_ns[:-1] >= begin_ns) & (steps.edges_ns[1:] <= end_ns)
            high[inside] = steps.mean[inside]
        return replace(steps, high=high)

    def _ticks_ns(self, bins: int) -> NDArray[np.int64]:
        """Return where bins end that lie in an exact stretch."""
        ticks_ns = np.ceil(np.linspace(self.edges_ns[0], self.edges_ns[-1], bins + 1)).astype(np.int64)
        exact = [(ticks_ns > begin_ns) & (ticks_ns < end_ns) for begin_ns, end_ns in self.exact]
        return ticks_ns[np.any(exact, axis=0)]

    def within(self, begin_ns: int, end_ns: int) -> Lane:
        """Return the lane cut to the steps that reach into an interval."""
        first = max(int(np.searchsorted(self.edges_ns, begin_ns, "right")) - 1, 0)
        last = int(np.searchsorted(self.edges_ns, end_ns, "left"))
        edges_ns, share = self.edges_ns[first : last + 1], self.share[first:last]
        return replace(self, edges_ns=edges_ns if share.size else edges_ns[:0], share=share)

    def unobserved(self, begin_ns: int, end_ns: int) -> list[tuple[int, int]]:
        """Return the parts of an interval in which nothing is known of the device."""
        if self.period_ns is None or not self.share.size:
            return [(begin_ns, end_ns)]
        missing = np.isnan(self.share)
        gaps = [
            (begin_ns, int(self.edges_ns[0])),
            *zip(self.edges_ns[:-1][missing].tolist(), self.edges_ns[1:][missing].tolist(), strict=True),
            (int(self.edges_ns[-1]), end_ns),
        ]
        return [(begin, end) for begin, end in gaps if end - begin > _EDGE_PERIODS * self.period_ns]

    @property
    def ceiling(self) -> float:
        """The share that fills the lane: 1, or the next whole number of processors that several threads filled."""
        seen = self.share[~np.isnan(self.share)]
        most = float(np.quantile(seen, 0.999)) if seen.size else 0.0
        return 1.0 if most <= 1.1 else float(np.ceil(most))


@dataclass(frozen=True, eq=False)
class Zoom:
    """A stretch of decode, close enough to see single tokens.

    Attributes:
        workload: The workload it comes from.
        begin_ns: Monotonic start.
        end_ns: Monotonic end.
        tokens: How many tokens of one stream it spans.
        arrivals_ns: When tokens arrived in it, over all streams, shape (arrivals,), int64.
        token_ns: Mean time between one stream's arrivals in it.
    """

    workload: Workload
    begin_ns: int
    end_ns: int
    tokens: int
    arrivals_ns: NDArray[np.int64]
    token_ns: float


@dataclass(frozen=True, eq=False)
class Timeline:
    """All that a drawing of one trial needs.

    Attributes:
        trial: The trial.
        summary: Its figures.
        lanes: One per device in llama.cpp's order, the host last.
        phases: What the server was doing when.
        begin_ns: Where the drawing begins.
        end_ns: Where it ends.
        zoom: The stretch to show closely; None when no generation was measured.
        spans: What the split tracer saw.
        series: The samples taken while it ran.
    """

    trial: TrialRecord
    summary: PlacementSummary
    lanes: tuple[Lane, ...]
    phases: tuple[Phase, ...]
    begin_ns: int
    end_ns: int
    zoom: Zoom | None
    spans: Spans = NO_SPANS
    series: tuple[Series, ...] = ()

    @property
    def length_ns(self) -> int:
        """How much time the drawing covers."""
        return self.end_ns - self.begin_ns

    @property
    def model(self) -> str:
        """The model's file name."""
        return self.trial.spec.model_path.rpartition("/")[2]

    @property
    def resolution_text(self) -> str:
        """How finely the devices were observed: `read every 5 ms`, `each reading a mean over 200 ms`."""
        if any(lane.counter is Counter.BUSY_TIME_NS for lane in self.lanes):
            return legend.EXACT_RECORDING
        if len(self.spans):
            return legend.EXACT_SPLITS if self.splits_are_exact else legend.LIGHT_SPLITS
        counted = [lane for lane in self.lanes if lane.kind is not DeviceKind.CPU] or self.lanes
        periods_ns = sorted({lane.period_ns for lane in counted if lane.period_ns is not None})
        periods = " and ".join(formats.resolution(period_ns) for period_ns in periods_ns)
        if not periods:
            return "devices not observed"
        windowed = any(lane.counter is Counter.BUSY_FRAC for lane in counted)
        return f"each reading a mean over {periods}" if windowed else f"read every {periods}"

    @property
    def splits_are_exact(self) -> bool:
        """Whether every traced split is known to have ended when it says."""
        return bool(self.spans.finished[self.spans.kind == SpanKind.COMPUTE].all())

    @property
    def shows_turns(self) -> bool:
        """Whether what was seen is fine enough to tell one device's part of a token from the next one's."""
        if len(self.spans):
            return True
        counted = [lane for lane in self.lanes if lane.kind is not DeviceKind.CPU and lane.period_ns is not None]
        if self.zoom is None or not counted:
            return False
        return max(lane.period_ns or 0 for lane in counted) <= self.zoom.token_ns / len(counted)


def timeline(trial: TrialRecord, series: Sequence[Series], spans: Spans = NO_SPANS) -> Timeline:
    """Return what a drawing of a trial needs, from the samples and the spans taken while it ran."""
    last_ns = max((int(one.time_ns[-1]) for one in series if one.time_ns.size), default=trial.started_ns)
    end_ns = max(last_ns if trial.ended_ns is None else trial.ended_ns, trial.started_ns + 1)
    lanes, found = _lanes(trial, series, trial.started_ns, end_ns), tuple(phases(trial))
    return Timeline(
        trial=trial,
        summary=summarize_trial(trial, series),
        lanes=_traced(lanes, found, spans) if len(spans) else lanes,
        phases=found,
        begin_ns=trial.started_ns,
        end_ns=end_ns,
        zoom=_decode_zoom(trial.requests, SPLIT_ZOOM_TOKENS if len(spans) else ZOOM_TOKENS),
        spans=spans,
        series=tuple(series),
    )


def describe_devices(devices: Sequence[Device]) -> str:
    """Return what devices are, in a few words: `3 stand-in devices`, `5 × NVIDIA A40`, `the host only`."""
    counted = [device for device in devices if device.kind is not DeviceKind.CPU]
    if not counted:
        return "the host only"
    if any(device.kind is DeviceKind.STAND_IN for device in counted):
        return formats.count(len(counted), "stand-in device")
    names = sorted({device.description or "GPU" for device in counted})
    return f"{len(counted)} × {', '.join(names)}"


def first_phase(drawn: Timeline, kind: PhaseKind, workload_kind: str) -> Phase | None:
    """Return the middle repetition's phase of the first workload whose name starts like that: `pp`, `tg`."""
    found = [phase for phase in drawn.phases if phase.kind is kind and phase.workload.startswith(workload_kind)]
    same = [phase for phase in found if phase.workload == found[0].workload]
    return same[len(same) // 2] if same else None


def _lanes(trial: TrialRecord, series: Sequence[Series], begin_ns: int, end_ns: int) -> tuple[Lane, ...]:
    counters = {one.device: one for one in device_counters(trial, series)}
    host = {one.device: one for one in series if one.device == HOST.name and one.counter is Counter.CPU_TIME_NS}
    devices = [device for device in trial.devices if device.kind is not DeviceKind.CPU]
    if host or len(devices) < len(trial.devices):
        devices.append(HOST)
    return tuple(_lane(device, (counters | host).get(device.name), begin_ns, end_ns) for device in devices)


def _lane(device: Device, series: Series | None, begin_ns: int, end_ns: int) -> Lane:
    if series is None:
        return Lane(device.name, device.kind, np.empty(0, np.int64), np.empty(0), None, None)
    edges_ns, share = busy_steps(series, begin_ns, end_ns)
    if series.counter is Counter.BUSY_FRAC and share.size:
        lengths_ns = np.diff(edges_ns)
        longest_ns = _GAP_PERIODS * max(series.period_ns, float(np.median(lengths_ns)))
        share = np.where(lengths_ns > longest_ns, np.nan, share)
    exact = ((begin_ns, end_ns),) if series.counter is Counter.BUSY_TIME_NS else ()
    return Lane(device.name, device.kind, edges_ns, share, series.period_ns, series.counter, exact)


def _traced(lanes: Sequence[Lane], found: Sequence[Phase], spans: Spans) -> tuple[Lane, ...]:
    work, stretches = spans.of_kind(SpanKind.COMPUTE), traced_stretches(found, spans)
    traced = []
    for lane in lanes:
        if lane.kind is DeviceKind.CPU and lane.share.size:
            # The host does more than its splits: sampling, serving, handing over.
            traced.append(lane)
            continue
        (edges_ns, share), exact = with_splits(
            (lane.edges_ns, lane.share), work.on(lane.device), lane.device, stretches
        )
        period_ns = 1 if exact and lane.period_ns is None else lane.period_ns
        traced.append(replace(lane, edges_ns=edges_ns, share=share, period_ns=period_ns, exact=tuple(exact)))
    return tuple(traced)


def _decode_zoom(requests: Sequence[RequestRecord], most_tokens: int) -> Zoom | None:
    """Pick the most typical stretch of the middle repetition of the generation with the fewest streams."""
    measured = [
        request
        for request in requests
        if request.role == "measure"
        and request.workload.kind == "tg"
        and request.status is RequestStatus.OK
        and request.arrivals_ns.size > 2
    ]
    if not measured:
        return None
    workload = min((request.workload for request in measured), key=lambda one: one.streams)
    candidates = [request for request in measured if request.workload == workload]
    chosen = candidates[len(candidates) // 2].arrivals_ns
    tokens = min(most_tokens, chosen.size - 1)
    first = _most_typical(np.diff(chosen), tokens)
    token_ns = float(chosen[first + tokens] - chosen[first]) / tokens
    margin_ns = int(token_ns / 4)
    begin_ns, end_ns = int(chosen[first]) - margin_ns, int(chosen[first + tokens]) + margin_ns
    arrivals_ns = np.sort(np.concatenate([request.arrivals_ns for request in measured]))
    inside = (arrivals_ns >= begin_ns) & (arrivals_ns <= end_ns)
    return Zoom(workload, begin_ns, end_ns, tokens, arrivals_ns[inside], token_ns)


def _most_typical(gaps_ns: NDArray[np.int64], length: int) -> int:
    """Return where the run of gaps begins that differ least from the median gap; of equals, the middle one."""
    strangeness = np.abs(gaps_ns - np.median(gaps_ns))
    runs = np.lib.stride_tricks.sliding_window_view(strangeness, length).sum(axis=1)
    least = np.flatnonzero(runs == runs.min())
    return int(least[least.size // 2])
