"""Predictions as plain data: units in the keys, null for what is not known, nothing rounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from k3prof.core.layout.hardware import Bandwidth
from k3prof.core.layout.headroom import DeviceMemory
from k3prof.core.layout.placement import Layout
from k3prof.core.layout.prediction import Ceiling, Prediction
from k3prof.core.layout.rig import Rig
from k3prof.core.layout.roofline import achieved

FORMAT_VERSION = 1


def as_json(predictions: tuple[Prediction, ...], notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return what `json.dumps` takes; every figure is predicted."""
    return {
        "format_version": FORMAT_VERSION,
        "evidence": "predicted",
        "rig": _rig(predictions[0].rig),
        "notes": list(notes),
        "placements": [_prediction(prediction) for prediction in predictions],
    }


def _rig(rig: Rig) -> dict[str, Any]:
    return {
        "name": rig.name,
        "devices": [
            {
                "name": device.name,
                "kind": str(device.kind),
                "model": device.model or None,
                "memory_bytes": device.memory_bytes,
                "free_bytes": device.free_bytes,
                "usable_bytes": device.usable_bytes,
                "bandwidth": _bandwidth(device.bandwidth),
            }
            for device in rig.devices
        ],
        "host": {"memory_bytes": rig.host.memory_bytes, "bandwidth": _bandwidth(rig.host.bandwidth)},
        "link": rig.link and {"bandwidth": _bandwidth(rig.link.bandwidth), "latency_us": rig.link.latency_us},
    }


def _bandwidth(bandwidth: Bandwidth | None) -> dict[str, Any] | None:
    return None if bandwidth is None else {"gb_per_s": bandwidth.gb_per_s, "origin": bandwidth.origin}


def _prediction(prediction: Prediction) -> dict[str, Any]:
    return {
        "placement": prediction.placement,
        "fits": prediction.fits,
        "layout": None if prediction.layout is None else _layout(prediction.layout),
        "compute_buffers": str(prediction.compute),
        "devices": [_memory(need, prediction.longest_context.get(need.device)) for need in prediction.memory],
        "ceilings": [_ceiling(ceiling) for ceiling in prediction.ceilings],
        "warnings": [asdict(warning) for warning in prediction.warnings],
    }


def _layout(layout: Layout) -> dict[str, Any]:
    return {
        "layer_devices": list(layout.layer_devices),
        "context": {**asdict(layout.context), "tokens": layout.context.tokens},
        "pipelined": layout.pipelined,
        "buffers": [
            {"kind": str(one.kind), "name": one.name, "device": one.device, "bytes": one.n_bytes}
            for one in layout.buffers
        ],
        "rules": [
            {"flag": one.flag, "text": one.text, "target": one.target, "matched": one.matched, "decides": one.won}
            for one in layout.patterns
        ],
    }


def _memory(need: DeviceMemory, longest_context: int | None) -> dict[str, Any]:
    return {
        **asdict(need),
        "needed_bytes": need.needed_bytes,
        "headroom_bytes": need.headroom_bytes,
        "fits": need.fits,
        "longest_context_tokens": longest_context,
    }


def _ceiling(ceiling: Ceiling) -> dict[str, Any]:
    found = ceiling.roofline
    peaks = achieved(found, found.tokens_per_s) if found.tokens_per_s else None
    return {
        "workload": ceiling.workload.name,
        "read_bytes": found.n_bytes,
        "devices": [
            {
                "device": one.device,
                "read_bytes": one.n_bytes,
                "weight_bytes_by_role": {str(role): n_bytes for role, n_bytes in one.bytes_by_role.items()},
                "kv_bytes": one.kv_bytes,
                "state_bytes": one.state_bytes,
                "bandwidth": _bandwidth(one.bandwidth),
                "ms": one.ms,
            }
            for one in found.devices
        ],
        "crossings": {
            "splits": found.crossings.splits,
            "bytes_each": found.crossings.bytes_each,
            "ms": found.crossings.ms,
        },
        "sequential_ms": found.sequential_ms,
        "overlap_ms": found.overlap_ms,
        "tok_per_s_at_most": found.tokens_per_s,
        "tok_per_s_at_most_overlapped": found.overlapped_tokens_per_s,
        "of_one_device_frac_at_most": peaks and peaks.of_one_device_frac,
        "of_all_devices_frac_at_most": peaks and peaks.of_sum_frac,
    }
