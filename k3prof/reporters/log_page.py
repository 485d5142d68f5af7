"""What a log tells, as lines of text, from which the terminal's and the Markdown page are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from k3prof.core.evidence.explanation import Explanation
from k3prof.core.evidence.loaded import BufferKind, LoadedServer
from k3prof.reporters.formats import UNKNOWN, count
from k3prof.reporters.log_tables import Table, tables


@dataclass(frozen=True)
class Fact:
    """One line: what it is about, and what the log says of it."""

    name: str
    text: str


@dataclass(frozen=True)
class LogPage:
    """All that is shown of a log.

    Attributes:
        title: Its name; written by others.
        facts: What it says, a line each.
        tables: Memory, requests.
        unknown: What it does not say.
    """

    title: str
    facts: tuple[Fact, ...]
    tables: tuple[Table, ...]
    unknown: tuple[str, ...]


def page(explanation: Explanation) -> LogPage:
    """Return what is shown of a log."""
    facts = [Fact(name, text) for name, text in _facts(explanation.done)]
    return LogPage(
        title=explanation.source,
        facts=tuple(fact for fact in facts if fact.text),
        tables=tuple(tables(explanation)),
        unknown=(*(fact.name for fact in facts if not fact.text), *_missing_memory(explanation.done)),
    )


def _facts(done: LoadedServer) -> Iterator[tuple[str, str]]:
    """Yield every fact; an empty text where the log does not say."""
    context = done.context
    yield "server", _join(done.build, "" if done.verbosity is None else f"log verbosity {done.verbosity}")
    yield "model", _model(done)
    yield "devices", _devices(done)
    yield "layers", _layers(done)
    yield "load mode", done.load_mode or ""
    yield "fit", _fit(done)
    yield "context", _context(done)
    yield "slots", _slots(done)
    yield "batch", _batch(done)
    yield "cache", _cache(done)
    yield "flash attention", _on_off(context.flash_attention)
    yield "pipeline parallelism", _join(_on_off(context.pipeline_parallel), _copies(context.pipeline_copies))
    yield "graph", _graph(done)


def _join(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def _on_off(value: bool | None) -> str:
    return "" if value is None else "on" if value else "off"


def _copies(value: int | None) -> str:
    return f"{value} copies of the inputs" if value is not None and value > 1 else ""


def _model(done: LoadedServer) -> str:
    model = done.model
    used, experts = model.experts_used, model.experts
    return _join(
        model.path,
        model.architecture,
        model.file_type,
        None if model.layers is None else count(model.layers, "layer"),
        f"{_number(used)} of {experts:,} experts used" if experts else None,
        None if model.context_trained is None else f"trained for {model.context_trained:,} tokens",
        *(f"{key} overridden to {value}" for key, value in model.overrides.items()),
    )


def _devices(done: LoadedServer) -> str:
    if done.devices is None:
        return ""
    return _join(*(f"{device.name} ({device.description})" for device in done.devices)) or "none: the host alone"


def _layers(done: LoadedServer) -> str:
    if done.layer_devices is not None:
        last = len(done.layer_devices) - 1
        runs = groupby(enumerate(done.layer_devices), key=lambda item: item[1])
        return "; ".join(f"{device}: {_span([index for index, _ in run], last)}" for device, run in runs)
    if done.layers_offloaded is None:
        return ""
    alone = " though there is no device" if done.devices == () else ""
    return f"{done.layers_offloaded} of {_number(done.layers_total)} counted as offloaded{alone}"


def _span(indices: Sequence[int], output: int) -> str:
    layers = [index for index in indices if index != output]
    span = f"{layers[0]}–{layers[-1]}" if len(layers) > 1 else "".join(map(str, layers))
    return " and ".join(filter(None, [span, "the output" if output in indices else ""]))


def _fit(done: LoadedServer) -> str:
    if done.fit is None or done.fit.status is None:
        return ""
    reduced = done.fit.context_to is not None
    change = f"context {_number(done.fit.context_from)} to {_number(done.fit.context_to)} tokens" if reduced else None
    return _join(str(done.fit.status) + (f": {done.fit.reason}" if done.fit.reason else ""), change)


def _context(done: LoadedServer) -> str:
    context = done.context
    if context.tokens is None:
        return ""
    tokens = f"{context.tokens:,} tokens"
    if context.sequences is None:
        return tokens
    if context.sequences == 1:
        return f"{tokens} for one sequence"
    if context.unified:
        return f"{tokens}, shared by {context.sequences:,} sequences"
    return f"{tokens}, {_number(context.tokens_per_sequence)} for each of {context.sequences:,} sequences"


def _slots(done: LoadedServer) -> str:
    slots, tokens = done.context.slots, done.context.tokens_per_slot
    return "" if slots is None else count(slots, "slot") + (f" of {tokens:,} tokens" if tokens is not None else "")


def _batch(done: LoadedServer) -> str:
    batch, ubatch = done.context.batch, done.context.ubatch
    if batch is None:
        return ""
    return f"{batch:,} tokens" + ("" if ubatch is None else f", computed {ubatch:,} at a time")


def _cache(done: LoadedServer) -> str:
    context = done.context
    types = None if context.cache_type_k is None else f"K {context.cache_type_k}, V {context.cache_type_v}"
    return _join(types, None if context.kv_layers is None else f"in {count(context.kv_layers, 'layer')}")


def _graph(done: LoadedServer) -> str:
    graph = done.graph
    prompt, decode = (graph.nodes_pp, graph.splits_pp), (graph.nodes_tg, graph.splits_tg)
    if graph.splits_pp is None and graph.nodes_pp is None:
        return ""
    if prompt == decode:
        return _size_of_graph(*prompt)
    return f"prompts {_size_of_graph(*prompt)}, decoding {_size_of_graph(*decode)}"


def _size_of_graph(nodes: int | None, splits: int | None) -> str:
    return f"{_number(nodes)} nodes in " + ("unknown splits" if splits is None else count(splits, "split"))


def _missing_memory(done: LoadedServer) -> Iterator[str]:
    yield from (f"{kind} buffers" for kind in BufferKind if kind not in done.buffers and kind is not BufferKind.STATE)
    if not done.requests:
        yield "speeds"
