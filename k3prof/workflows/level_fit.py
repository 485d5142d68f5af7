"""Which levels of an experiment's ladders a placement's server can take, by its flags, its model and its machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial

from k3prof.core.experiment import Placement, Settings, effective_flags, where_flag
from k3prof.core.flags import FlagVocabulary
from k3prof.core.layout.context_shape import context_shape
from k3prof.core.layout.flag_reader import FlagReader, known_names
from k3prof.core.layout.headroom import compute_margin, longest_context, memory_by_device
from k3prof.core.layout.level_fit import LevelFit, Room, fitting_levels
from k3prof.core.layout.placed import Placed, lay_out
from k3prof.core.layout.rig import Rig
from k3prof.core.layout.traps import split_mode_trap
from k3prof.core.trial import FlagValue
from k3prof.core.weights.model import Model
from k3prof.errors import ConfigError, IneffectiveError
from k3prof.llama.command import measurement_flags


def level_fit(
    settings: Settings,
    placement: Placement,
    vocabulary: FlagVocabulary,
    model: Model,
    machine: Rig,
    *,
    has_stand_ins: bool,
) -> LevelFit:
    """Return what a placement can be asked for, and what is left out of its ladders.

    Args:
        settings: What all placements share; flags under the build's own names.
        placement: The placement, likewise.
        vocabulary: The flags that its build understands.
        model: What the model's header says.
        machine: What it runs on.
        has_stand_ins: Whether stand-ins are among the devices.

    Raises:
        ConfigError: The flags are wrong, or nothing at all fits.
    """
    if not settings.levels:
        return LevelFit(settings.workloads, ())
    where = partial(where_flag, settings, placement)

    @cache
    def room(streams: int) -> Room:
        widest = replace(settings.workloads[0], streams=streams)
        flags = {**measurement_flags(vocabulary, [widest], has_stand_ins), **effective_flags(settings, placement)}
        reader = FlagReader(known_names(flags), where)
        return _room(reader, model, _placed(reader.flags, reader, model, machine))

    fit = fitting_levels(settings.workloads, settings.levels, room)
    if not fit.kept:
        first = fit.skipped[0]
        raise ConfigError(f"{placement.file}: nothing is left to measure: {first.message}", first.remedy)
    return fit


def _placed(flags: Mapping[str, FlagValue], reader: FlagReader, model: Model, machine: Rig) -> Placed | None:
    """Return where the model will lie; None where that is not predicted."""
    if split_mode_trap(model, reader):
        return None
    try:
        return lay_out(model, flags, machine, reader.where)
    except IneffectiveError:
        return None


def _room(reader: FlagReader, model: Model, placed: Placed | None) -> Room:
    if placed is None:
        return Room(context_shape(reader, model), model.geometry.context_length)
    changed, layout = placed.model, placed.layout
    memory = memory_by_device(layout, placed.rig, compute_margin(changed, layout, reader))
    longest = longest_context(changed, layout, memory, reader)
    return Room(layout.context, changed.geometry.context_length, memory, tuple(longest.items()))
