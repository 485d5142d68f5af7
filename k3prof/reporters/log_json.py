"""What a log tells, as plain data: units in the keys, null for what is not known, nothing rounded."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from k3prof.core.evidence.explanation import Explanation
from k3prof.core.evidence.loaded import Buffer, LoadedServer, LoggedRequest, MemoryRow

FORMAT_VERSION = 1


def as_json(explanation: Explanation) -> dict[str, Any]:
    """Return what `json.dumps` takes."""
    failure = explanation.failure
    return {
        "format_version": FORMAT_VERSION,
        "source": explanation.source,
        "failure": None
        if failure is None
        else {"kind": failure.failure, "message": failure.message, "evidence": failure.evidence},
        **_server(explanation.done),
        "header": [asdict(check) for check in explanation.header] or None,
    }


def _server(done: LoadedServer) -> dict[str, Any]:
    return {
        "build": done.build,
        "verbosity": done.verbosity,
        "model": {**asdict(done.model), "overrides": dict(done.model.overrides)},
        "devices": None if done.devices is None else [asdict(device) for device in done.devices],
        "load_mode": done.load_mode,
        "layers_offloaded": done.layers_offloaded,
        "layers_total": done.layers_total,
        "layer_devices": done.layer_devices,
        "overridden_tensors": None if done.overridden_tensors is None else dict(done.overridden_tensors),
        "buffers": {str(kind): [_buffer(buffer) for buffer in buffers] for kind, buffers in done.buffers.items()},
        "context": asdict(done.context),
        "graph": asdict(done.graph),
        "fit": None if done.fit is None else asdict(done.fit),
        "memory": None if done.memory is None else [_row(row) for row in done.memory],
        "requests": [_request(request) for request in done.requests],
        "caveats": [asdict(caveat) for caveat in done.caveats],
    }


def _buffer(buffer: Buffer) -> dict[str, Any]:
    return {"name": buffer.name, "device": buffer.device, "size_mib": buffer.mib}


def _row(row: MemoryRow) -> dict[str, Any]:
    return {key if key == "name" else f"{key}_mib": value for key, value in asdict(row).items()}


def _request(request: LoggedRequest) -> dict[str, Any]:
    rates = {"prompt_tok_per_s": request.prompt_per_s, "predicted_tok_per_s": request.predicted_per_s}
    return {**asdict(request), **rates}
