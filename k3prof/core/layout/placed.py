"""A placement laid out: its model as overridden, its flags, its rig, and where everything will lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from k3prof.core.layout.flag_reader import FlagReader
from k3prof.core.layout.placement import Layout, place
from k3prof.core.layout.rig import Rig
from k3prof.core.trial import FlagValue
from k3prof.core.weights.metadata_override import overridden
from k3prof.core.weights.model import Model


@dataclass(frozen=True)
class Placed:
    """What a prediction rests on.

    Attributes:
        model: The model with `--override-kv` applied.
        reader: The flags.
        rig: The machine.
        layout: Where llama-server will put the model.
    """

    model: Model
    reader: FlagReader
    rig: Rig
    layout: Layout


def lay_out(model: Model, flags: Mapping[str, FlagValue], rig: Rig, where: Callable[[str], str]) -> Placed:
    """Lay a model out as some flags say.

    Args:
        model: What the header says.
        flags: llama-server's canonical long names to values, in the order in which it gets them.
        rig: The machine.
        where: Says where a flag stands, for messages.

    Raises:
        ConfigError: A flag names what is not there, matches nothing, or does not go with the model.
    """
    reader = FlagReader(flags, where)
    changed = overridden(model, reader)
    return Placed(changed, reader, rig, place(changed, flags, rig, where))
