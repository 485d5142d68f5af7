"""A model's anatomy as headed tables of text, from which the terminal's and the Markdown page are drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from k3prof.core.layout.hardware import Bandwidth
from k3prof.core.weights.anatomy import Anatomy, RoleShare, tokens_per_s
from k3prof.core.weights.roles import AttentionKind, Role
from k3prof.reporters.formats import UNKNOWN, count

_MIB, _GIB = 2**20, 2**30
_DECIMAL_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_TYPES_SHOWN = 3
_CONTEXTS = (32_768, 131_072, 1_048_576)


@dataclass(frozen=True)
class Section:
    """One headed table.

    Attributes:
        heading: What it shows.
        columns: Heads; the first column is text, the others are figures.
        rows: Cells.
        total: Whether the last row sums the others.
        note: What a reader should take from it; empty for nothing.
    """

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: bool = False
    note: str = ""


@dataclass(frozen=True)
class Page:
    """All that is shown of a model.

    Attributes:
        title: Its name; written by others.
        facts: One line each.
        sections: The tables.
    """

    title: str
    facts: tuple[str, ...]
    sections: tuple[Section, ...]


def page(anatomy: Anatomy) -> Page:
    """Return what is shown of a model."""
    model = anatomy.model
    return Page(
        title=f"{model.name or PurePath(model.shards[0].path).name} ({model.architecture})",
        facts=tuple(_facts(anatomy)),
        sections=(_bytes(anatomy), *_memory(anatomy), _ceilings(anatomy)) if model.tensors else (),
    )


def size(n_bytes: float | None) -> str:
    """Return bytes in decimal units with three or four digits: `6.93 GB`, `27.6 kB`."""
    if n_bytes is None:
        return UNKNOWN
    for scale, unit in _DECIMAL_UNITS:
        if n_bytes >= 0.9995 * scale:
            return f"{_digits(n_bytes / scale)} {unit}"
    return f"{n_bytes:.0f} B"


def binary_size(n_bytes: int) -> str:
    """Return bytes as llama.cpp's log and GPU memory are counted: `27.0 GiB`, `443.1 MiB`."""
    return f"{n_bytes / _GIB:.1f} GiB" if n_bytes >= _GIB else f"{n_bytes / _MIB:.1f} MiB"


def parameters(n: float) -> str:
    """Return a number of parameters: `2779.5 B`, `494 M`."""
    return f"{n / 1e9:,.1f} B" if n >= 1e9 else f"{n / 1e6:,.1f} M"


def _digits(value: float) -> str:
    return f"{value:.2f}" if value < 99.995 else f"{value:.1f}"


def _share(part: float, whole: float | None) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def _facts(anatomy: Anatomy) -> Iterator[str]:
    model, geometry = anatomy.model, anatomy.model.geometry
    files = count(len(model.shards), "file")
    yield f"{files}, {size(sum(shard.size_bytes for shard in model.shards))}; {count(len(model.tensors), 'tensor')}"
    if not model.tensors:
        yield "no weights: a vocabulary only"
        return
    experts = f" ({anatomy.experts_used} of {geometry.experts} experts)" if geometry.experts else ""
    active = parameters(anatomy.active_parameters)
    yield f"{parameters(model.parameters)} parameters, {active} active per token{experts}"
    kinds = Counter(layer.attention for layer in geometry.layers if not layer.mtp)
    mixes = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common() if kind is not AttentionKind.NONE)
    drafts = len(geometry.layers) - geometry.trunk_layers
    mtp = f", and {drafts} MTP" if drafts else ""
    moe = sum(layer.experts_used > 0 for layer in geometry.layers)
    dense = f"; {moe} with experts" if moe else ""
    yield f"{count(geometry.trunk_layers, 'layer')}{': ' if mixes else ''}{mixes}{mtp}{dense}"
    width, context = geometry.embedding_length, geometry.context_length
    yield f"width {_number(width)}; trained for {_number(context)} tokens of context"


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def _bytes(anatomy: Anatomy) -> Section:
    forward = anatomy.forward
    whole = anatomy.total_bytes
    rows = [_role_row(share, whole) for share in anatomy.shares]
    rows += [
        ("KV read+written", "", "", "", size(anatomy.kv_bytes), _share(anatomy.kv_bytes or 0, whole)),
        ("state read+written", "", "", "", size(anatomy.state_bytes), _share(anatomy.state_bytes or 0, whole)),
        ("total", size(anatomy.model.n_bytes), "", _bits(anatomy), size(whole), ""),
    ]
    tokens = "one token" if forward.tokens == 1 else f"{forward.tokens} tokens of {forward.sequences} sequences"
    return Section(
        heading=f"What {tokens} at depth {forward.depth:,} reads",
        columns=("", "stored", "formats", "bits", "read", "of all"),
        rows=tuple(rows),
        total=True,
        note=_routed_note(anatomy),
    )


def _role_row(share: RoleShare, whole: float | None) -> tuple[str, ...]:
    bits = share.bits_per_weight
    read = "not read" if share.read_bytes is None else size(share.read_bytes)
    of_all = _share(share.read_bytes or 0, whole)
    return (
        str(share.role),
        size(share.n_bytes),
        _formats(share),
        "" if bits is None else f"{bits:.2f}",
        read,
        of_all,
    )


def _formats(share: RoleShare) -> str:
    """Name the formats that matter: `Q8_0`, `Q1_0 95 %, IQ1_S 5 %`; a trace of others is `Q8_0 + F32`."""
    whole = share.n_bytes
    main = [(name, n) for name, n in share.type_bytes if n >= 0.005 * whole][:_TYPES_SHOWN]
    named = ", ".join(name if len(main) == 1 else f"{name} {100 * n / whole:.0f} %" for name, n in main)
    others = [name for name, _ in share.type_bytes[len(main) :]]
    return " + ".join(filter(None, [named, *(others if len(others) < 2 else [f"{len(others)} more"])]))


def _bits(anatomy: Anatomy) -> str:
    n = anatomy.model.parameters
    return f"{8 * anatomy.model.n_bytes / n:.2f}" if n else ""


def _routed_note(anatomy: Anatomy) -> str:
    routed = _routed(anatomy)
    if not routed:
        return ""
    rest = anatomy.weight_bytes - routed
    said = (
        f"Routed experts are {size(routed)} of {size(anatomy.weight_bytes)} of weights: "
        f"{size(rest)} are read for every token, whichever experts it chooses."
    )
    if anatomy.forward.tokens > 1:
        said = (
            f"Routed experts are {size(routed)} of {size(anatomy.weight_bytes)} of weights, an upper bound: "
            "the tokens are taken to choose independently and all experts alike."
        )
    return said


def _memory(anatomy: Anatomy) -> Iterator[Section]:
    model, forward = anatomy.model, anatomy.forward
    per_token = model.kv_bytes_per_token(forward.cache_type_k, forward.cache_type_v)
    state = model.state_bytes_per_sequence
    if per_token is None or state is None:
        note = f"How much {model.architecture} caches is not known to k3prof, so it is left out of every figure."
        yield Section("What one sequence keeps", ("", "bytes"), (("KV cache and state", UNKNOWN),), note=note)
        return
    trained = model.geometry.context_length
    contexts = sorted({*(c for c in _CONTEXTS if not trained or c <= trained), *filter(None, [trained])})
    types = dict.fromkeys((forward.cache_type_k, forward.cache_type_v))
    rows = [(f"KV cache ({', '.join(types)}), per token", f"{per_token:,} B")]
    if per_token:
        rows += [(f"at {n:,} tokens", binary_size(n * per_token)) for n in contexts]
    if state:
        rows.append(("recurrent state (f32), any length", f"{size(state)} ({binary_size(state)})"))
    yield Section("What one sequence keeps", ("", "bytes"), tuple(rows))


def _ceilings(anatomy: Anatomy) -> Section:
    variants = anatomy.variants
    origin = ", ".join(sorted({device.origin for device in anatomy.bandwidths}))
    return Section(
        heading=f"Ceilings in tokens per second ({origin} bandwidth), by format of the trunk",
        columns=("", *(variant.type_name or "in this file" for variant in variants)),
        rows=(
            ("trunk: all but routed experts", *(size(variant.trunk_bytes) for variant in variants)),
            ("all that is read and written", *(size(variant.read_bytes) for variant in variants)),
            *(_ceiling_row(anatomy, device) for device in anatomy.bandwidths),
        ),
        note=" ".join(_ceiling_notes(anatomy)),
    )


def _ceiling_row(anatomy: Anatomy, device: Bandwidth) -> tuple[str, ...]:
    name = device.name if device.origin == "given" else f"{device.name}, {device.gb_per_s:,.0f} GB/s"
    return (name, *(_rate(v.tokens_per_s(device, anatomy.forward.tokens)) for v in anatomy.variants))


def _ceiling_notes(anatomy: Anatomy) -> Iterator[str]:
    routed, tokens = _routed(anatomy), anatomy.forward.tokens
    if routed and anatomy.bandwidths:
        device = anatomy.bandwidths[0]
        alone = _rate(tokens_per_s(routed, device, tokens))
        yield f"Routed experts alone would promise {alone} on {device.name}: that is no ceiling."
    yield "All weights in such devices' memory; they take turns, so more of them do not speed up one stream."
    if anatomy.total_bytes is None:
        yield "Caches are not counted: the true ceilings are lower."


def _routed(anatomy: Anatomy) -> float:
    return sum(share.read_bytes or 0 for share in anatomy.shares if share.role is Role.ROUTED_EXPERTS)


def _rate(ceiling: float | None) -> str:
    return UNKNOWN if ceiling is None else f"{ceiling:,.1f}"
