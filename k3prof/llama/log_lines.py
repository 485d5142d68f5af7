"""The lines of a llama-server log, freed of everything that was put around them.

llama.cpp's own prefixes changed over the years (none, `INFO [ main]`, JSON objects, `0.00.058.777 I srv  init:`), and
logs reach us through journald, docker, routers, grep and terminals. Here all of that is undone; what a line
means is read in `logs`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

MAX_TEXT = 4096
"""Longer lines are cut here: they hold prompts, and a bound keeps every pattern fast."""


@dataclass(frozen=True)
class LogLine:
    """One message of a log.

    Attributes:
        number: Line of the given text on which it starts, from 1.
        text: The message as llama.cpp wrote it, without prefix, wrapping, escape sequences or control characters.
        owner: The function that speaks, as far as the line tells: `load_tensors`; new builds cut it to 12 letters.
        message: `text` after the owner, slot and task.
        slot: The server's slot that it concerns, where the line has one.
        task: The request that it concerns, where the line has one.
        level: `I`, `W`, `E`, `D`; empty where the line does not say.
        child: The port by which a router marks the lines of one of its servers; empty without a router.
        follows: Whether it stands without prefix in a log whose lines have one: the rest of a message of several
            lines, text of a person or a model, or something that bypassed the logger. Such a line proves little.
        data: The object of a `--log-jsonl` record that is not a message; None for messages.
    """

    number: int
    text: str
    owner: str = ""
    message: str = ""
    slot: int | None = None
    task: int | None = None
    level: str = ""
    child: str = ""
    follows: bool = False
    data: dict[str, object] | None = None


_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

_NATIVE = re.compile(
    r"(?:\d{1,7}\.\d\d\.\d{3}\.\d{3} ([IWED]) |([IWED]) (?=(?:srv|slot|cmn|que|res|spec) |[a-z_]\w+: ))"
)
_NATIVE_INSIDE = re.compile(r"(?<=\S )\d{1,7}\.\d\d\.\d{3}\.\d{3} [IWED] |(?<=\.)\d{1,7}\.\d\d\.\d{3}\.\d{3} [IWED] ")
_IK_CLOCK = re.compile(r'tid="[^"]*" timestamp=\d+ ?')
_IK = re.compile(r"(INFO|WARN|ERR|ERROR|VERB|DEBUG) \[ *([\w:~()]+)\] ")

_OWNER = re.compile(r"(?:(?:srv|slot|cmn|que|res|spec) +)?([A-Za-z_~][\w~:]{0,63}(?:\(\))?):(?: +|$)")
_INNER_OWNER = re.compile(r"([a-z]\w*_\w+|init|operator\(\)): +")
_SLOT = re.compile(r"id +(-?\d{1,9}) \| task (-?\d{1,9}) \|")

_KNOWN_OWNERS = (
    "llm_load_tensors|load_tensors|llama_model_loader|llama_model_load|llama_new_context_with_model|llama_context"
    "|llama_init_from_model|llama_kv_cache\\w*|llama_memory_recurrent|sched_reserve|print_info|llm_load_print_meta"
    "|ggml_cuda_init|ggml_\\w+|common_\\w+|llama_\\w+|load_model|update_slots|print_timings?|srv|slot|main"
)
_RESYNC = re.compile(
    r"(?:\d{1,7}\.\d\d\.\d{3}\.\d{3} [IWED] |(?:INFO|WARN|ERR|ERROR|VERB) \[ *[\w:~()]+\] "
    rf"|(?:{_KNOWN_OWNERS})[\w ]*: )"
)

_DATE = r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)? ?(?:Z|[+-]\d\d:?\d\d)?\]?"
_UNIT = r"[^\s\[\]:|]+ [^\s\[\]:|]+\[\d+\]: ?"
_WRAPPERS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_DATE}(?: (?:stdout|stderr) [FP])?(?: {_UNIT})? ?",
        rf"[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? (?:{_UNIT})?",
        r"\d\d:\d\d:\d\d(?:[.,]\d+)? ",
        r"\[ *\d{1,10}\.\d{3,9}\] ",
        r"\[\d{9,19}\] ",
        r"\[pod/[^\]\s]+\] ",
        r"[\w.\-]+ +\| ?",
        r"[\w.~+/\-]+\.(?:log|txt|out|err)(?:\.\d+)?[:\-](?:\d+[:\-])?",
        r"\d{1,9}[:\-](?=\d{1,7}\.\d\d\.\d{3}\.\d{3} [IWED] |[a-z_]+: |[A-Z][a-z]{2} [ \d]\d |\d{4}-|\[|\{)",
        r"(?:\[?(?:INFO|WARN|WARNING|ERROR|DEBUG|stderr|stdout)\]?:? +)(?!\[ *[\w:~()]+\] )",
    )
)
_MAX_SHAPES, _LEAST_LINES = 4, 3
_CHILD = re.compile(r"\[ *(\d{1,5})\] ")
_MAX_LAYERS = 6
_TEXT_KEYS = ("log", "MESSAGE", "message", "msg", "line")
_RECORD_KEYS = ("function", "line", "level", "tid", "timestamp", *_TEXT_KEYS)
_LEVELS = {"info": "I", "warn": "W", "warning": "W", "error": "E", "err": "E", "debug": "D", "verb": "D"}


@dataclass(frozen=True)
class _Raw:
    """A line with its wrapping removed, before its owner is read.

    `native`: it begins with something that only llama.cpp writes. `prefixed`: in the way in which every message of
    that log begins; older servers gave prefixes to their own messages only, not to those of the library.
    """

    number: int
    text: str
    native: bool = False
    prefixed: bool = False
    level: str = ""
    owner: str = ""
    child: str = ""
    unfinished: bool = False
    data: dict[str, object] | None = None


def read_lines(text: str) -> list[LogLine]:
    """Read a log of any llama-server version, in text or JSON lines, however it was wrapped.

    Any text is accepted; a line that is no log line comes back as it is. Empty lines are left out.
    """
    raw = [_unwrap(number, line) for number, line in enumerate(_split(text), 1) if line.strip()]
    if not any(line.native for line in raw):
        raw = _resync(raw)
    return [
        _finish(line, follows) for line, follows in _mark_followers(_join_unfinished(raw)) if line.text or line.data
    ]


def quote(line: str, limit: int = 300) -> str:
    """Return a line fit to be shown: one line, no control characters, build folders dropped, at most `limit` long."""
    clean = " ".join(_CONTROL.sub("", _ESCAPES.sub("", line.replace("\n", " "))).split())
    clean = re.sub(r"(?<![\w.])/(?:[^\s:'\"/]+/)+(?=[^\s:'\"/]+:\d+: )", "", clean)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def _split(text: str) -> list[str]:
    lines = _ESCAPES.sub("", text).split("\n") if "\x1b" in text else text.split("\n")
    return [line.removesuffix("\r") for line in lines]


def _clean(text: str) -> str:
    return _CONTROL.sub("", text[:MAX_TEXT].replace("\t", " ")).strip()


def _unwrap(number: int, line: str, child: str = "", depth: int = 0) -> _Raw:
    """Peel one layer after another off a line until llama.cpp's own text is left."""
    text = line.strip() if line.lstrip().startswith("{") else _clean(line)
    for _ in range(_MAX_LAYERS):
        if native := _NATIVE.match(text):
            return _Raw(number, text[native.end() :], True, True, native[1] or native[2], child=child)
        if ik := _IK.match(text):
            text = _IK_CLOCK.sub("", text[ik.end() :])
            return _Raw(number, text, True, level=_LEVELS[ik[1].lower()], owner=ik[2], child=child)
        if text.startswith("{") and depth < 3 and (record := _json_object(text)) is not None:
            return _from_record(number, record, child, depth)
        if found := _CHILD.match(text):
            child = found[1]
        else:
            found = next((match for wrapper in _WRAPPERS if (match := wrapper.match(text))), None)
        if found is None or not found[0]:
            break
        text = text[found.end() :].strip()
    return _Raw(number, _clean(text), child=child)


def _json_object(text: str) -> dict[str, object] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _from_record(number: int, record: dict[str, object], child: str, depth: int) -> _Raw:
    level = _LEVELS.get(str(record.get("level", "")).lower(), "")
    if "type" in record and record["type"] != "log" and isinstance(record.get("data"), dict):
        return _Raw(number, "", True, True, level, str(record["type"])[:64], child, data=dict(record))
    body = next((value for key in _TEXT_KEYS if isinstance(value := record.get(key), str)), "")
    if record.get("type") == "log":
        return _Raw(number, _clean(body), True, True, level, child=child, unfinished=not body.endswith("\n"))
    if isinstance(owner := record.get("function"), str):
        rest = " ".join(f"{key}={value}" for key, value in record.items() if key not in _RECORD_KEYS)
        text = _clean(f"{body} | {rest}" if rest else body)
        return _Raw(number, text, True, level=level, owner=owner[:64], child=child)
    return _unwrap(number, body, child, depth + 1)


def _resync(lines: list[_Raw]) -> list[_Raw]:
    """Cut an unknown wrapping off: it is learnt from the lines in which something only llama.cpp writes follows it."""
    shapes = Counter(_shape(line.text[:cut]) for line in lines if (cut := _start_of_native(line.text)))
    learnt = [re.compile(shape) for shape, count in shapes.most_common(_MAX_SHAPES) if count >= _LEAST_LINES]

    def cut_off(line: _Raw) -> _Raw:
        cut = _start_of_native(line.text)
        if not cut and not _OWNER.match(line.text):
            cut = next((match.end() for shape in learnt if (match := shape.match(line.text))), 0)
        return replace(_unwrap(line.number, line.text[cut:]), child=line.child) if cut else line

    return [cut_off(line) for line in lines]


def _start_of_native(text: str) -> int:
    """Return where in a line llama.cpp's own text begins; 0 when it begins the line or cannot be told."""
    found = _RESYNC.search(text)
    if found is None or found.start() == 0 or text[found.start() - 1] not in " ]|:>)":
        return 0
    return found.start()


def _shape(text: str) -> str:
    return re.sub(r"\d+", r"\\d+", re.escape(text))


def _join_unfinished(lines: Iterable[_Raw]) -> Iterator[_Raw]:
    """Put JSON records back together that were written as pieces of one line; leave an unfinished end out."""
    pending: _Raw | None = None
    for line in lines:
        if pending is None:
            current = line
        elif line.data is not None:
            yield pending
            current = line
        else:
            text = f"{pending.text} {line.text}"[:MAX_TEXT]
            current = replace(pending, text=text, unfinished=line.unfinished)
        pending = current if current.unfinished else None
        if pending is None:
            yield current


def _mark_followers(lines: Iterable[_Raw]) -> Iterator[tuple[_Raw, bool]]:
    prefixes = False
    for line in lines:
        prefixes = prefixes or line.prefixed
        yield line, prefixes and not line.prefixed


def _finish(line: _Raw, follows: bool) -> LogLine:
    text = _NATIVE_INSIDE.sub("", line.text).lstrip(".").strip()
    owner, message = line.owner, text
    if found := _OWNER.match(message):
        owner, message = found[1], message[found.end() :]
    while found := _INNER_OWNER.match(message):
        owner, message = found[1], message[found.end() :]
    slot = _SLOT.match(message)
    if slot is not None:
        message = message[slot.end() :].lstrip()
    return LogLine(
        number=line.number,
        text=text,
        owner=owner,
        message=message,
        slot=int(slot[1]) if slot else None,
        task=int(slot[2]) if slot else None,
        level=line.level,
        child=line.child,
        follows=follows,
        data=line.data,
    )
