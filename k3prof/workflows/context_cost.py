"""What context costs the placements of a trace by the traffic model, from what the trace holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from k3prof.core.device import DeviceKind
from k3prof.core.imported import is_imported
from k3prof.core.layout.context_cost import ContextCost, context_cost
from k3prof.core.layout.flag_reader import FlagReader, known_names
from k3prof.core.layout.hardware import Bandwidth
from k3prof.core.layout.placed import lay_out
from k3prof.core.layout.rig import Rig, RigDevice
from k3prof.core.layout.traps import split_mode_trap
from k3prof.core.trial import TrialRecord
from k3prof.core.weights.model import Model
from k3prof.errors import ConfigError
from k3prof.llama.devices import DevicePlan
from k3prof.workflows.legs import BANDWIDTHS
from k3prof.workflows.machine_rig import machine_rig

_BANDWIDTHS = TypeAdapter(dict[str, Bandwidth])


def known_bandwidths(plan: DevicePlan) -> dict[str, dict[str, object]]:
    """Return how fast the memory of each device of a plan can be read, by its name; those not known are left out.

    Raises:
        MachineError: A measurement that is kept cannot be read.
    """
    rig = machine_rig(plan)
    found = {device.name: rig.bandwidth(device.name) for device in plan.devices}
    return {name: dataclasses.asdict(one) for name, one in found.items() if one is not None}


def trial_context_cost(trial: TrialRecord, model: Model | None, settings: Mapping[str, Any]) -> ContextCost | None:
    """Return what context costs a trial's placement; None where its layout or its caches are not known.

    Args:
        trial: The trial.
        model: What its model's header says, if the trace holds it.
        settings: The settings of its sweep, with `BANDWIDTHS`.
    """
    if model is None or is_imported(trial.spec):
        return None
    devices = tuple(
        RigDevice(one.name, one.kind, one.description, one.memory_bytes)
        for one in trial.devices
        if one.kind is not DeviceKind.CPU
    )
    reader = FlagReader(known_names(trial.spec.flags), lambda name: f"flags.{name}")
    try:
        if split_mode_trap(model, reader):
            return None
        placed = lay_out(model, reader.flags, Rig("that of the trace", devices), reader.where)
    except ConfigError:
        return None
    return context_cost(placed, _BANDWIDTHS.validate_python(settings.get(BANDWIDTHS, {})))
