"""How the log says that the context was set up: sizes, caches, attention, graph, slots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from k3prof.core.evidence.loaded import ContextFacts, GraphFacts
from k3prof.llama.log_lines import LogLine
from k3prof.llama.log_sections import CONTEXT_OWNERS, Step, shown_whole

_KEY = re.compile(r"([A-Za-z]\w*(?: \w+){0,3}) *= +(\S.*)$")
_NUMBER = re.compile(r"\d{1,12}")

_KV_OWNER = re.compile(r"llama_kv_cache\w*|init|llama_context|llama_new_context_with_model|llama_init_from_model")
_KV_SIZE = re.compile(r"(?:KV self )?size += +[\d.]+ MiB")
_KV_CELLS = re.compile(r"\( *(\d{1,12}) cells, +(\d{1,5}) layers")
_KV_TYPES = re.compile(r"\bK \((\w+)\): .*\bV \((\w+)\): ")

_FLASH_DECIDED = re.compile(r"Flash Attention (?:was auto, set to )?(enabled|not supported|disabled)")
_FLASH_FORCED = re.compile(r"(enabling|disabling) flash_attn since|flash_attn is not compatible")
_PIPELINE = re.compile(r"pipeline parallelism enabled(?: \(n_copies=(\d{1,3})\))?")
_NO_PIPELINE = re.compile(r"retrying without pipeline parallelism")
_COPIES = re.compile(r"reserve took .* sched copies = (\d{1,3})$")

_GRAPH = re.compile(r"graph(?: \(.*\))?: nodes = (\d{1,9})(?: / (\d{1,9}))?, splits = (\d{1,9})(?: / (\d{1,9}))?,")
_GRAPH_OLD = re.compile(
    r"graph (nodes|splits) *(?:\(measure\))?[=:] *(\d{1,9})(?: \(with bs=\d+\), (\d{1,9}) \(with bs=1\))?$"
)

_SLOTS = re.compile(r"initializing(?: slots)?(?:,| \|) .*?n_slots ?= ?(\d{1,6})")
_SLOT_CONTEXT = re.compile(r"n_ctx(?:_slot)? ?= ?(\d{1,12})\b")

_YES_NO = {"1": True, "true": True, "enabled": True, "on": True}
_YES_NO |= {"0": False, "false": False, "disabled": False, "off": False}


def read_keys(lines: Iterable[LogLine], owners: frozenset[str]) -> dict[str, str]:
    """Return what functions say in the form `key = value`; the last saying of a key counts."""
    pairs = (_KEY.match(line.message) for line in lines if line.owner in owners)
    return {pair[1]: pair[2].strip() for pair in pairs if pair is not None}


def whole_number(text: str | None) -> int | None:
    """Return the number that a text is, or None when it is anything else."""
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None


def read_context(lines: Sequence[LogLine], server: Sequence[LogLine]) -> ContextFacts:
    """Read how one context was made (`lines`), and the slots that the server put into it."""
    keys = read_keys(lines, CONTEXT_OWNERS)
    caches = [line.message for line in lines if _KV_OWNER.fullmatch(line.owner) and _KV_SIZE.match(line.message)]
    types = next((match for message in caches if (match := _KV_TYPES.search(message))), None)
    cells = [match for message in caches if (match := _KV_CELLS.search(message))]
    if not shown_whole(lines, Step.KV_BUFFERS):
        cells = []
    copies = _copies(lines)
    slots, slot_tokens = _slots(server)
    return ContextFacts(
        tokens=whole_number(keys.get("n_ctx")),
        tokens_per_sequence=whole_number(keys.get("n_ctx_seq", keys.get("n_ctx_per_seq"))),
        sequences=whole_number(keys.get("n_seq_max")),
        unified=_YES_NO.get(keys.get("kv_unified", "")),
        batch=whole_number(keys.get("n_batch")),
        ubatch=whole_number(keys.get("n_ubatch")),
        flash_attention=_flash_attention(lines, keys.get("flash_attn", "")),
        cache_type_k=types[1] if types else None,
        cache_type_v=types[2] if types else None,
        kv_layers=sum(int(match[2]) for match in cells) if cells else None,
        kv_cells=int(cells[0][1]) if cells else None,
        rollback_states=whole_number(keys.get("n_rs_seq")),
        pipeline_copies=copies,
        pipeline_parallel=copies > 1 if copies is not None else _pipeline(lines),
        slots=slots,
        tokens_per_slot=slot_tokens,
    )


def _flash_attention(lines: Iterable[LogLine], asked: str) -> bool | None:
    used = _YES_NO.get(asked)
    for line in lines:
        if decided := _FLASH_DECIDED.match(line.message):
            used = decided[1] == "enabled"
        elif line.owner in CONTEXT_OWNERS and (forced := _FLASH_FORCED.match(line.message)):
            used = forced[1] == "enabling"
    return used


def _copies(lines: Iterable[LogLine]) -> int | None:
    copies = None
    for line in lines:
        if line.owner in CONTEXT_OWNERS and (announced := _PIPELINE.match(line.message)) and announced[1]:
            copies = int(announced[1])
        elif line.owner == "sched_reserve" and (reserved := _COPIES.match(line.message)):
            copies = int(reserved[1])
        elif _NO_PIPELINE.search(line.message):
            copies = None
    return copies


def _pipeline(lines: Iterable[LogLine]) -> bool | None:
    enabled = None
    for line in lines:
        if line.owner in CONTEXT_OWNERS and _PIPELINE.match(line.message):
            enabled = True
        elif _NO_PIPELINE.search(line.message):
            enabled = False
    return enabled


def _slots(server: Iterable[LogLine]) -> tuple[int | None, int | None]:
    slots = tokens = None
    for line in server:
        if match := _SLOTS.match(line.message):
            slots = int(match[1])
            tokens = tokens_each(line.message)
        elif line.message.startswith("new slot") and tokens is None:
            tokens = tokens_each(line.message)
    return slots, tokens


def tokens_each(message: str) -> int | None:
    """Return the context of one slot, as a line about slots gives it."""
    match = _SLOT_CONTEXT.search(message)
    return int(match[1]) if match else None


def read_graph(lines: Iterable[LogLine]) -> GraphFacts:
    """Read the size of the last graph that was reserved; one figure stands for prompts and decoding alike."""
    counts: dict[str, tuple[int, int]] = {}
    for line in lines:
        if new := _GRAPH.match(line.message):
            counts["nodes"] = int(new[1]), int(new[2] or new[1])
            counts["splits"] = int(new[3]), int(new[4] or new[3])
        elif old := _GRAPH_OLD.match(line.message):
            counts[old[1]] = int(old[2]), int(old[3] or old[2])
    nodes, splits = counts.get("nodes", (None, None)), counts.get("splits", (None, None))
    return GraphFacts(nodes[0], nodes[1], splits[0], splits[1])
