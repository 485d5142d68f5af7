"""Which lines of a log tell about the model that serves.

One log may hold several servers (a router's, or one after another), the load replayed by `--fit` for each of its
measurements, a draft model beside the main one, and may begin or end anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from k3prof.llama.log_lines import LogLine

CONTEXT_OWNERS = frozenset({"llama_context", "llama_new_context_with_model", "llama_init_from_model"})
LOADER_OWNERS = frozenset({"load_tensors", "llm_load_tensors"})
META_OWNERS = frozenset({"print_info", "llm_load_print_meta"})

_SERVER_START = re.compile(
    r"(?:srv +)?llama_server: initializing|(?:main: )?build(?:: \d| = \d| info\b)|system_info: |system info\b"
    r"|cmn +common_param: common_params_print_info: build "
)
_MODEL_SEEN = re.compile(r"loading model\b|loaded meta data with")
FIT_OWNER = re.compile(r"(?:common|llama)_(?:params_fit(?:_impl)?|fit_params)")
_LOAD_START = re.compile(r"loaded meta data with \d+ key-value pairs")
_NO_ALLOC = re.compile(r"no_alloc += (\d)$")
_UP = re.compile(r"all slots are idle|listening on|^model loaded")
_EMPTY = re.compile(r".* buffer size += +0\.00 MiB$")
_CONTEXT_START = re.compile(r"constructing llama_context")
_RESERVING = re.compile(r"reserving \.\.\.")


class Step(IntEnum):
    """How far a load has come; a line of a later step proves that an earlier one was logged to its end."""

    METADATA = 0
    TENSORS = 1
    MODEL_BUFFERS = 2
    CONTEXT = 3
    OUTPUT_BUFFERS = 4
    KV_BUFFERS = 5
    STATE_BUFFERS = 6
    COMPUTE_BUFFERS = 7
    GRAPH = 8
    SERVING = 9


_BUFFER_STEPS = tuple(
    (re.compile(rf"\S+ +{kind} buffer size += "), step)
    for kind, step in (
        ("KV", Step.KV_BUFFERS),
        ("RS", Step.STATE_BUFFERS),
        ("compute", Step.COMPUTE_BUFFERS),
        ("output", Step.OUTPUT_BUFFERS),
    )
)
_GRAPH = re.compile(r"graph(?: \(.*\))?: nodes =|graph (?:nodes|splits)\b|reserve took")
_SERVING = re.compile(
    r"warming up the model|model loaded|initializing(?: slots)?,? .*n_slots|new slot|all slots are idle"
    r"|prompt eval time =|HTTP server (?:is )?listening|server is listening on"
)
_FILLED_STEPS = (Step.MODEL_BUFFERS, Step.KV_BUFFERS)
_MODEL_BUFFER = re.compile(r"\S+(?: model)? buffer size += ")


def step_of(line: LogLine) -> Step | None:
    """Return the step of a load to which a line belongs, or None for one that tells nothing about it."""
    owner, message = line.owner, line.message
    if owner in LOADER_OWNERS:
        return Step.MODEL_BUFFERS if _MODEL_BUFFER.match(message) else Step.TENSORS
    if owner in META_OWNERS or owner == "llama_model_loader":
        return Step.METADATA
    for pattern, step in _BUFFER_STEPS:
        if pattern.match(message):
            return step
    if owner in CONTEXT_OWNERS or owner == "sched_reserve":
        return Step.GRAPH if _GRAPH.match(message) else Step.CONTEXT
    return Step.SERVING if _SERVING.search(message) else None


@dataclass(frozen=True)
class Sections:
    """The lines about the model that serves.

    Attributes:
        server: All lines of one server: of several, the last that started.
        load: Those from the start of the real load of the main model until the server is up; empty when the log shows
            none.
        context: Those of its context: as `load`, without a second context (of a draft) and what follows.
        doubts: What else is in the log and was left out: codes for `logs` to explain.
    """

    server: tuple[LogLine, ...]
    load: tuple[LogLine, ...]
    context: tuple[LogLine, ...]
    doubts: tuple[str, ...]


def find_sections(lines: Sequence[LogLine]) -> Sections:
    """Find the last server of a log, in it the real load of its main model, and that model's first context."""
    lines, several = _one_child(lines)
    starts = _servers(lines)
    load, another_load = _real_load(starts[-1])
    load = _until_up(load)
    context, another_context = _first_context(load)
    doubts = {
        "several-servers": several,
        "several-starts": len(starts) > 1,
        "second-model": another_load or another_context,
    }
    return Sections(tuple(starts[-1]), tuple(load), tuple(context), tuple(code for code, yes in doubts.items() if yes))


def compute_attempts(context: Sequence[LogLine]) -> list[list[LogLine]]:
    """Split a context's lines before each time its compute buffers were reserved anew."""
    return _split_before(context, lambda line: line.owner == "sched_reserve" and _RESERVING.match(line.message))


def shown_whole(lines: Sequence[LogLine], step: Step) -> bool:
    """Whether lines of a step are there, with something earlier before them and something later after them.

    Otherwise a log that was cut may have lost some, and a sum over them would be wrong.
    """
    steps = [step_of(line) for line in lines]
    if step not in steps:
        return False
    first, last = steps.index(step), len(steps) - 1 - steps[::-1].index(step)
    before = any(other is not None and other < step for other in steps[:first])
    return before and any(other is not None and other > step for other in steps[last + 1 :])


def _one_child(lines: Sequence[LogLine]) -> tuple[list[LogLine], bool]:
    """Choose one server of a router: the first that loads a model. Say whether there are others."""
    children = dict.fromkeys(line.child for line in lines if line.child)
    if not children:
        return list(lines), False
    loading = (line.child for line in lines if line.child and _MODEL_SEEN.search(line.message))
    chosen = next(loading, next(iter(children)))
    return [line for line in lines if line.child == chosen], len(children) > 1


def _servers(lines: Sequence[LogLine]) -> list[list[LogLine]]:
    """Split where a server starts after another one had begun to load a model."""
    parts: list[list[LogLine]] = [[]]
    loaded = False
    for line in lines:
        if loaded and not line.follows and _SERVER_START.match(line.text):
            parts.append([])
            loaded = False
        loaded = loaded or _MODEL_SEEN.match(line.message) is not None
        parts[-1].append(line)
    return parts


def _real_load(server: Sequence[LogLine]) -> tuple[list[LogLine], bool]:
    """Find the load that is not a measurement of `--fit`. Say whether another model was loaded after it."""
    head, *whole = _split_before(server, lambda line: _LOAD_START.match(line.message))
    measured = [index for index, load in enumerate(whole) if _allocates(load) is False]
    real = whole[measured[-1] + 1 :] if measured else whole
    if not measured and _may_be_rest_of_real_load(head):
        if not _is_rest_of_real_load(head, whole):
            return [], False
        real = [head, *real]
    return (real[0], len(real) > 1) if real else ([], False)


def _allocates(load: Sequence[LogLine]) -> bool | None:
    """Whether a load is real; False for a measurement of `--fit`, None where it does not say."""
    found = (_NO_ALLOC.match(line.message) for line in load if line.owner in META_OWNERS)
    return next((match[1] == "0" for match in found if match), None)


def _may_be_rest_of_real_load(head: Sequence[LogLine]) -> bool:
    """Whether lines before the first whole load are the rest of one whose beginning was cut off, and not a measurement.

    `--fit` reports after each of its measurements, and never after the real load.
    """
    loading = any(step is not None and Step.TENSORS <= step <= Step.GRAPH for step in map(step_of, head))
    return loading and _allocates(head) is not False and not any(FIT_OWNER.fullmatch(line.owner) for line in head)


def _is_rest_of_real_load(head: Sequence[LogLine], whole: Sequence[Sequence[LogLine]]) -> bool:
    """Whether such lines prove to be real: a measurement fills no buffer, and a server never serves after it."""
    if _allocates(head) or (whole and _allocates(whole[0])):
        return True
    filled = (line for line in head if step_of(line) in _FILLED_STEPS and not _EMPTY.match(line.message))
    return any(step_of(line) is Step.SERVING for line in head) or any(filled)


def _until_up(load: list[LogLine]) -> list[LogLine]:
    """Leave out what comes after the server is up: requests, a thousand times as long as the load."""
    up = next((index for index, line in enumerate(load) if _UP.search(line.message)), len(load))
    return load[: up + 1]


def _first_context(load: Sequence[LogLine]) -> tuple[list[LogLine], bool]:
    """Leave out what belongs to a second context (of a draft). Say whether there is one."""
    parts = _split_before(load, lambda line: line.owner in CONTEXT_OWNERS and _CONTEXT_START.match(line.message))
    own = 1 if any(map(_inside_context, parts[0])) else 2
    return [line for part in parts[:own] for line in part], len(parts) > own


def _inside_context(line: LogLine) -> bool:
    step = step_of(line)
    return line.owner == "llama_context" or (step is not None and Step.CONTEXT < step <= Step.GRAPH)


def _split_before(lines: Iterable[LogLine], begins: Callable[[LogLine], object]) -> list[list[LogLine]]:
    """Split lines before each that begins something; the first part holds what comes before the first of them."""
    parts: list[list[LogLine]] = [[]]
    for line in lines:
        if begins(line):
            parts.append([])
        parts[-1].append(line)
    return parts
