"""The measured bandwidth of this machine's memory, kept as JSON so that predictions can use it."""

from __future__ import annotations

import math
import os
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from k3prof.core.machine.host_bandwidth import HostBandwidth
from k3prof.errors import MachineError

_BANDWIDTH = TypeAdapter(HostBandwidth)
_AGAIN = "measure again: `k3prof doctor --bandwidth`"


def write_bandwidth(path: Path, measured: HostBandwidth) -> None:
    """Write a measurement in place of an older one; a reader finds the one or the other.

    Raises:
        MachineError: It cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(_BANDWIDTH.dump_json(measured, indent=2))
        draft.replace(path)
    except OSError as error:
        raise MachineError(
            f"{path}: cannot be written: {error.strerror}", "set XDG_CACHE_HOME to a folder that you may write to"
        ) from error


def read_bandwidth(path: Path) -> HostBandwidth | None:
    """Return what was measured, or None where nothing was.

    Raises:
        MachineError: The file cannot be read, or holds no such measurement.
    """
    try:
        measured = _BANDWIDTH.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MachineError(f"{path}: cannot be read: {error.strerror}", _AGAIN) from error
    except ValidationError as error:
        raise MachineError(f"{path}: not a measurement of memory bandwidth", _AGAIN) from error
    if not _has_figures(measured):
        raise MachineError(f"{path}: a measurement without figures", _AGAIN)
    return measured


def _has_figures(measured: HostBandwidth) -> bool:
    return bool(measured.readings) and all(
        reading.rounds_gb_per_s and all(math.isfinite(rate) and rate > 0 for rate in reading.rounds_gb_per_s)
        for reading in measured.readings
    )
