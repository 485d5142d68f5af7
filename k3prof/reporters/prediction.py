"""Predictions as headed tables of text, from which the terminal's and the Markdown pages are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from k3prof.core.device import HOST
from k3prof.core.layout.hardware import Bandwidth
from k3prof.core.layout.headroom import DeviceMemory
from k3prof.core.layout.placement import Layout
from k3prof.core.layout.prediction import Ceiling, Prediction
from k3prof.core.layout.roofline import Roofline, achieved
from k3prof.reporters.anatomy import Page, Section, size
from k3prof.reporters.formats import UNKNOWN, count, rate

_UNITS = {"GiB": 2**30, "MiB": 2**20}
FITS = {True: "fits", False: "too big", None: UNKNOWN}


def summary(predictions: tuple[Prediction, ...]) -> Section:
    """Return one row per placement: whether it fits, where it is tightest, how fast it can be at best."""
    workloads = list(dict.fromkeys(one.workload.name for prediction in predictions for one in prediction.ceilings))
    return Section(
        heading="Placements",
        columns=("placement", "on the devices", "tightest", "headroom", *(f"{name}, at most" for name in workloads)),
        rows=tuple(_summary_row(prediction, workloads) for prediction in predictions),
        note="All figures are predicted. At most: one pass after the other, in tokens per second.",
    )


def page(prediction: Prediction) -> Page:
    """Return what is shown of one placement."""
    layout = prediction.layout
    if layout is None:
        return Page(prediction.placement, ("not predicted",), ())
    sections = (_memory(prediction), *_rules(layout), *_ceilings(prediction.ceilings))
    return Page(prediction.placement, tuple(_facts(prediction, layout)), sections)


def _summary_row(prediction: Prediction, workloads: list[str]) -> tuple[str, ...]:
    rates = {one.workload.name: one.roofline.tokens_per_s for one in prediction.ceilings}
    if prediction.layout is None:
        return (prediction.placement, "not predicted", "", "", *("" for _ in workloads))
    known = [need for need in prediction.memory if need.headroom_bytes is not None and need.device != HOST.name]
    tightest = min(known, key=lambda need: need.headroom_bytes or 0, default=None)
    return (
        prediction.placement,
        FITS[prediction.fits],
        tightest.device if tightest else UNKNOWN,
        _gib(tightest.headroom_bytes) if tightest else UNKNOWN,
        *(rate(rates.get(name)) for name in workloads),
    )


def _facts(prediction: Prediction, layout: Layout) -> Iterator[str]:
    yield f"layers: {_runs(layout)}"
    context = layout.context
    slots = "one slot" if context.sequences == 1 else f"{context.sequences} slots"
    shared = ", sharing one cache" if context.unified and context.sequences > 1 else ""
    types = " and ".join(dict.fromkeys((context.cache_type_k, context.cache_type_v)))
    yield f"context: {slots} of {context.slot_tokens:,} tokens{shared}; cache in {types}"
    yield f"compute buffers: {prediction.compute}"
    yield from _lacking(prediction)


def _runs(layout: Layout) -> str:
    """Name the layers of each device; the output layer has the number after the last."""
    runs = []
    for device, group in groupby(enumerate(layout.layer_devices), key=lambda item: item[1]):
        indices = [index for index, _ in group]
        span = f"{indices[0]}" if len(indices) == 1 else f"{indices[0]}–{indices[-1]}"
        runs.append(f"{span} on {device}")
    return f"{', '.join(runs)} ({len(layout.layer_devices) - 1} is the output layer)"


def _lacking(prediction: Prediction) -> Iterator[str]:
    """Say of each device that lacks room how much, what takes it, and what context would fit."""
    for need in prediction.memory:
        if need.fits is not False:
            continue
        parts = {"weights": need.weight_bytes, "KV cache": need.kv_bytes or 0, "compute buffers": need.compute_bytes}
        takes = ", ".join(f"{name} {_gib(n_bytes)}" for name, n_bytes in parts.items())
        lacks = "" if need.headroom_bytes is None else f" lacks {_gib(-need.headroom_bytes)} GiB:"
        context = prediction.longest_context.get(need.device)
        most = f"; it would fit up to ctx-size = {context}" if context else "; no shorter context would help"
        yield f"{need.device}{lacks} {takes} of {_gib(need.usable_bytes)} GiB{'' if context is None else most}"


def _memory(prediction: Prediction) -> Section:
    unit = "GiB" if max((need.weight_bytes for need in prediction.memory), default=0) >= _UNITS["GiB"] else "MiB"
    rows = tuple(_memory_row(need, _UNITS[unit]) for need in prediction.memory)
    return Section(
        heading=f"Memory in {unit}",
        columns=("", "experts", "other", "KV", "state", "compute", "total", "usable", "headroom", " "),
        rows=rows,
        note="Experts: routed ones. Other: all other weights.",
    )


def _memory_row(need: DeviceMemory, unit_bytes: int) -> tuple[str, ...]:
    figures = (
        need.expert_bytes,
        need.other_weight_bytes,
        need.kv_bytes,
        need.state_bytes,
        need.compute_bytes,
        need.needed_bytes,
        need.usable_bytes,
        need.headroom_bytes,
    )
    return (need.device, *(_in_unit(figure, unit_bytes) for figure in figures), FITS[need.fits])


def _rules(layout: Layout) -> Iterator[Section]:
    if layout.patterns:
        yield Section(
            heading="Tensors sent elsewhere by name",
            columns=("rule", "to", "matches", "decides over"),
            rows=tuple((one.text, one.target, f"{len(one.matched)}", f"{len(one.won)}") for one in layout.patterns),
            note="The first rule that matches a tensor decides.",
        )


def _ceilings(ceilings: tuple[Ceiling, ...]) -> Iterator[Section]:
    """Yield one table for all workloads: what each device reads per pass, and what time that takes at least."""
    if not ceilings:
        return
    found = [ceiling.roofline for ceiling in ceilings]
    rows = [
        (
            device.device,
            _peak(device.bandwidth),
            *_cells((one.devices[index].n_bytes, one.devices[index].ms) for one in found),
        )
        for index, device in enumerate(found[0].devices)
    ]
    crossings = found[0].crossings
    crossed = f"{UNKNOWN} crossings" if crossings.count is None else count(crossings.count, "crossing")
    link = crossings.link.bandwidth if crossings.link else None
    rows += [
        (crossed, _peak(link), *_cells((one.crossings.n_bytes, one.crossings.ms) for one in found)),
        ("all in turn", "", *_cells((one.n_bytes, one.sequential_ms) for one in found)),
        ("tok/s at most, devices taking turns", "", *_rates(one.tokens_per_s for one in found)),
        ("tok/s at most, all devices busy", "", *_rates(one.overlapped_tokens_per_s for one in found)),
    ]
    columns = [column for ceiling in ceilings for column in (ceiling.workload.name, "ms")]
    yield Section(
        heading="Ceilings: what a pass reads, over the bandwidth of where it lies",
        columns=("", "GB/s", *columns),
        rows=tuple(rows),
        note=" ".join(_verdict(found[0])),
    )


def _verdict(found: Roofline) -> Iterator[str]:
    if found.tokens_per_s is None:
        if found.n_bytes is None:
            yield "No ceiling: how much this architecture caches is not known."
        else:
            yield f"No ceiling: how fast memory is read is not known of {', '.join(found.of_unknown_speed)}."
            yield "`k3prof doctor --bandwidth` measures the machine it runs on; of another, a rig's file can say it."
        return
    yield "One stream has the devices take turns; many may keep all of them busy, though llama.cpp hardly does."
    if peaks := achieved(found, found.tokens_per_s):
        yield (
            f"At the first of the two rates, ONE device reads at {_percent(peaks.of_one_device_frac)} of its own peak "
            f"in its turn, which is {_percent(peaks.of_sum_frac)} of the SUM of all peaks."
        )
    if found.crossings.ms is None:
        yield "Crossings are not counted."
    elif found.crossings.count and found.crossings.link and found.crossings.link.latency_us is None:
        yield "What a crossing costs besides its bytes is not counted."


def _cells(pairs: Iterable[tuple[float | None, float | None]]) -> Iterator[str]:
    for n_bytes, ms in pairs:
        yield size(n_bytes)
        yield UNKNOWN if ms is None else f"{ms:.2f}"


def _rates(rates: Iterable[float | None]) -> Iterator[str]:
    for tokens_per_s in rates:
        yield ""
        yield rate(tokens_per_s)


def _peak(bandwidth: Bandwidth | None) -> str:
    return UNKNOWN if bandwidth is None else f"{bandwidth.gb_per_s:g} ({bandwidth.origin})"


def _percent(frac: float) -> str:
    return f"{100 * frac:.0f} %"


def devices(predictions: tuple[Prediction, ...]) -> str:
    """Return what the rig consists of, in a line."""
    rig = predictions[0].rig
    kinds = [device.model or device.kind for device in rig.devices]
    groups = [f"{len(list(group))}× {kind}" for kind, group in groupby(kinds)]
    return f"{rig.name}: {', '.join(groups) if groups else 'no device but the host'}"


def _gib(n_bytes: int | None) -> str:
    return _in_unit(n_bytes, _UNITS["GiB"])


def _in_unit(n_bytes: int | None, unit_bytes: int) -> str:
    if n_bytes is None:
        return UNKNOWN
    value = n_bytes / unit_bytes
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:,.0f}"
