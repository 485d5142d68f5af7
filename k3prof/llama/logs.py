"""What a llama-server log proves about the server that wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from k3prof.core.evidence.loaded import LoadedServer, ModelFacts
from k3prof.core.trial import Caveat
from k3prof.llama.fallbacks import find_fallbacks
from k3prof.llama.log_context import read_context, read_graph, read_keys, whole_number
from k3prof.llama.log_lines import LogLine, read_lines
from k3prof.llama.log_memory import read_fit, read_memory
from k3prof.llama.log_placement import (
    read_buffers,
    read_devices,
    read_layer_devices,
    read_layers,
    read_offload,
    read_overridden_tensors,
)
from k3prof.llama.log_requests import read_requests
from k3prof.llama.log_sections import META_OWNERS, find_sections

_PLACEMENT_VERBOSITY = 4
_DOUBTS = {
    "several-servers": (
        "the log holds several servers of a router; the first that loads a model was read",
        "give the lines of one server: those with its port in brackets",
    ),
    "several-starts": ("the log holds several starts of a server; the last was read", "give the log of one start"),
    "second-model": (
        "a second model or context was loaded (a draft?); its memory is not in this account",
        "see the memory table, which holds all of it",
    ),
}
_QUIET = Caveat(
    "quiet-log",
    "the log's verbosity is below 4: it says nothing about placement, buffers and splits",
    "start the server with -lv 4",
)


def read_log(text: str) -> LoadedServer:
    """Read a log of llama-server, of any version or fork, whole or cut, in text or JSON lines.

    Any text is accepted. What the log does not show stays None. Where it holds the loads that `--fit` replays to
    measure, or several servers, one is read: the real load of the last server's main model.
    """
    lines = _whole_lines(text)
    sections = find_sections([line for line in lines if not line.follows])
    server, load, context = sections.server, sections.load, sections.context
    since_start = [line for line in lines if server and line.number >= server[0].number]
    devices = read_devices(server, load)
    offloaded, layers_total = read_offload(load)
    model = _model(server, load)
    verbosity = _verbosity(server)
    return LoadedServer(
        build=_build(server),
        verbosity=verbosity,
        model=model,
        devices=devices,
        load_mode=_load_mode(load),
        layers_offloaded=offloaded,
        layers_total=layers_total,
        layer_devices=read_layer_devices(load, model.layers),
        overridden_tensors=read_overridden_tensors(load),
        buffers=read_buffers(context, devices),
        context=read_context(context, server),
        graph=read_graph(context),
        fit=read_fit(server),
        memory=read_memory([line for line in server if load and line.number >= load[0].number]),
        requests=read_requests(since_start),
        caveats=(*_doubts(sections.doubts, verbosity), *find_fallbacks(since_start)),
        threads=_threads(server),
        sampler_chain=_sampler_chain(since_start),
    )


def _whole_lines(text: str) -> list[LogLine]:
    """Leave out a last line without an end: it may be cut in the middle of a number."""
    lines = read_lines(text)
    if lines and not text.endswith("\n"):
        return [line for line in lines if line.number != lines[-1].number]
    return lines


def _doubts(codes: Iterable[str], verbosity: int | None) -> list[Caveat]:
    doubts = [Caveat(code, *_DOUBTS[code]) for code in codes]
    return [*doubts, _QUIET] if verbosity is not None and verbosity < _PLACEMENT_VERBOSITY else doubts


_BUILD = re.compile(r"(?:build(?:: | = | )|build info \|.*?\bbuild=)(\d{1,9})(?: \(| commit=\"?)([0-9a-f]{5,40})")
_VERBOSITY = re.compile(r"verbosity = (\d{1,4}) ")
_THREADS = re.compile(r"system_info: n_threads = (\d{1,5})(?: \(n_threads_batch = (\d{1,5})\))?")
_SAMPLER_CHAIN = re.compile(r"sampler chain: +(\S.*?) *$")
_LOAD_MODE = re.compile(r"loading model tensors, this can take a while\.\.\. \((?:load_mode = ([\w+]+)|mmap = (\w+))")


def _build(server: Sequence[LogLine]) -> str | None:
    found = next((match for line in server if (match := _BUILD.search(line.text))), None)
    return f"build {found[1]} ({found[2]})" if found else None


def _verbosity(server: Sequence[LogLine]) -> int | None:
    found = _first(_VERBOSITY, server)
    return int(found[1]) if found else None


def _threads(server: Sequence[LogLine]) -> tuple[int, int] | None:
    found = next((match for line in server if (match := _THREADS.search(line.text))), None)
    return (int(found[1]), int(found[2] or found[1])) if found else None


def _sampler_chain(lines: Sequence[LogLine]) -> str | None:
    found = next((match for line in lines if (match := _SAMPLER_CHAIN.search(line.text))), None)
    return found[1] if found else None


def _load_mode(load: Sequence[LogLine]) -> str | None:
    found = _first(_LOAD_MODE, load)
    if found is None:
        return None
    return str(found[1]) if found[1] else {"true": "mmap", "false": "none"}.get(found[2])


_DUMPED = re.compile(r"- kv +\d+: +general\.architecture str += (\S+)$")
_PATH = re.compile(r"loaded meta data with .* tensors from (.+) \(version ")
_ANNOUNCED = re.compile(r"loading model '(.+)'$")
_OVERRIDE = re.compile(r"Using metadata override \( *\w+\) '([^']+)' = (\S.*)$")


def _model(server: Sequence[LogLine], load: Sequence[LogLine]) -> ModelFacts:
    keys = read_keys(load, META_OWNERS)
    path = _first(_PATH, load) or _first(_ANNOUNCED, server)
    return ModelFacts(
        path=path[1] if path else None,
        architecture=keys.get("arch") or ((dumped := _first(_DUMPED, load)) and dumped[1]) or None,
        file_type=keys.get("file type", keys.get("model ftype")),
        layers=read_layers(load),
        context_trained=whole_number(keys.get("n_ctx_train")),
        experts=whole_number(keys.get("n_expert")),
        experts_used=whole_number(keys.get("n_expert_used")),
        overrides={match[1]: match[2] for line in load if (match := _OVERRIDE.match(line.message))},
    )


def _first(pattern: re.Pattern[str], lines: Iterable[LogLine]) -> re.Match[str] | None:
    return next((match for line in lines if (match := pattern.match(line.message))), None)
