"""Which levels of a ladder a server can take: foretold before it starts, so that the others run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from k3prof.core.layout.context_shape import MOST_SEQUENCES, ContextShape
from k3prof.core.layout.headroom import DeviceMemory
from k3prof.core.trial import Caveat, Workload

LEVEL_SKIPPED = "level-skipped"
_MIB = 2**20
_STEP_TOKENS = 256


@dataclass(frozen=True)
class Room:
    """What a server with some number of slots has for its requests, predicted.

    Attributes:
        shape: Its slots and their context.
        trained_tokens: The context that the model was trained for, beyond which no slot goes; None when not known.
        memory: Need and room of each device; empty when not known.
        longest_context: Up to what `--ctx-size` each device would fit; empty when not known.
    """

    shape: ContextShape
    trained_tokens: int | None
    memory: tuple[DeviceMemory, ...] = ()
    longest_context: tuple[tuple[str, int], ...] = ()

    @property
    def overfull(self) -> DeviceMemory | None:
        """The first device that lacks memory; None when none does, or that is not known."""
        return next((need for need in self.memory if need.fits is False), None)


@dataclass(frozen=True)
class LevelFit:
    """Which workloads a server can be asked for.

    Attributes:
        kept: Those, in the order in which they were given.
        skipped: The others by name, each with the reason and what would help.
    """

    kept: tuple[Workload, ...]
    skipped: tuple[Caveat, ...]


def fitting_levels(
    workloads: Sequence[Workload], levels: Collection[Workload], room: Callable[[int], Room]
) -> LevelFit:
    """Leave out the levels that find no slot, too little context in it, or too little memory.

    llama-server divides its context among its slots, of which there are as many as the widest workload has streams. So
    levels are taken in from the least demanding to the most, each if everything taken before still fits beside it.

    Args:
        workloads: What is asked for.
        levels: Those of them that may be left out. The others are taken to fit.
        room: Tells what a server has for so many streams at once.
    """
    kept = [one for one in workloads if one not in levels]
    reasons: dict[Workload, Caveat] = {}
    for level in sorted((one for one in workloads if one in levels), key=_demand):
        if level.streams > MOST_SEQUENCES:
            lack = f"needs {_slots(level.streams)}, llama-server has at most {MOST_SEQUENCES}"
            reasons[level] = Caveat(LEVEL_SKIPPED, f"{level.name}: {lack}", "use fewer streams")
            continue
        found = room(max(one.streams for one in (*kept, level)))
        # A placement that lacks memory with a single slot is measured to fail; that is no matter of its ladder.
        least = room(max((one.streams for one in kept), default=1))
        lack = _slot_lack(level, kept, found) or ("" if least.overfull else _memory_lack(level, found))
        if lack:
            reasons[level] = Caveat(LEVEL_SKIPPED, f"{level.name}: {lack}", _remedy(level, kept, found))
        else:
            kept.append(level)
    return LevelFit(
        tuple(one for one in workloads if one in kept),
        tuple(reasons[one] for one in workloads if one in reasons),
    )


def _demand(workload: Workload) -> tuple[int, int]:
    return workload.streams * workload.context_tokens, workload.streams


def _slot_lack(level: Workload, kept: Sequence[Workload], room: Room) -> str:
    shape = room.shape
    if level.streams > shape.sequences:
        return f"needs {_slots(level.streams)}, the server has {shape.sequences}"
    if level.context_tokens > shape.slot_tokens:
        among = f" with {shape.sequences} of them" if shape.sequences > 1 and not shape.unified else ""
        return f"needs {level.context_tokens} tokens of context, a slot has {shape.slot_tokens}{among}"
    if shape.unified and level.streams * level.context_tokens > shape.cells:
        needed = level.streams * level.context_tokens
        return f"needs {needed} tokens of context, all slots together have {shape.cells}"
    crowded = next((one for one in kept if one.context_tokens > shape.slot_tokens), None)
    if crowded is not None:
        return (
            f"with {_slots(shape.sequences)} each has {shape.slot_tokens} tokens of context, "
            f"of which {crowded.name} needs {crowded.context_tokens}"
        )
    return ""


def _memory_lack(level: Workload, room: Room) -> str:
    lacking = room.overfull
    if lacking is None or lacking.usable_bytes is None:
        return ""
    needed = "more than that" if lacking.needed_bytes is None else f"{lacking.needed_bytes / _MIB:,.0f} MiB"
    has = f"{lacking.usable_bytes / _MIB:,.0f} MiB"
    return f"with {_slots(level.streams)} {lacking.device} would need {needed} of its {has} (predicted)"


def _remedy(level: Workload, kept: Sequence[Workload], room: Room) -> str:
    shape = room.shape
    if level.streams > shape.sequences:
        return f"set parallel to at least {level.streams}, or leave it out"
    if room.trained_tokens is not None and level.context_tokens > room.trained_tokens:
        return f"nothing: the model was trained for {room.trained_tokens} tokens, and llama-server gives a slot no more"
    if not _slot_lack(level, kept, room):
        return "use fewer streams, a smaller context, or move weights elsewhere"
    per_slot = _rounded_up(max(one.context_tokens for one in (*kept, level)))
    total = _rounded_up(level.streams * level.context_tokens) if shape.unified else per_slot * shape.sequences
    short = [f"{device} for {tokens}" for device, tokens in room.longest_context if tokens < total]
    limit = f"; but by the prediction there is room on {', '.join(short)} at most" if short else ""
    return f"set ctx-size to at least {total}{limit}"


def _rounded_up(tokens: int) -> int:
    return -(-tokens // _STEP_TOKENS) * _STEP_TOKENS


def _slots(count: int) -> str:
    return f"{count} slot{'s' * (count != 1)}"
