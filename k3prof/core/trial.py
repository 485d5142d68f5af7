"""What is asked of a server and what came of it: workloads, trials, requests."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from k3prof.core.device import Device
from k3prof.core.spans import SplitMode

FlagValue = bool | int | float | str | tuple[int | float | str, ...]

_WORKLOAD = re.compile(r"(?P<kind>pp|tg)(?P<tokens>\d+)(?:@d(?P<depth>\d+))?(?:\s*x(?P<streams>\d+))?")
_DEPTHS, _STREAMS = r"[0-9]+k?(?:\s*,\s*[0-9]+k?)*", r"[0-9]+(?:\s*,\s*[0-9]+)*"
_LADDER = re.compile(rf"(?P<what>(?:pp|tg)[0-9]+)(?:@d(?P<depths>{_DEPTHS}))?(?:\s*x(?P<streams>{_STREAMS}))?")
_K = 1024


@dataclass(frozen=True)
class Workload:
    """What is asked of the server, named as llama-bench names it.

    Attributes:
        kind: `pp` processes a prompt of `tokens`; `tg` generates `tokens`.
        tokens: Tokens processed or generated per stream.
        depth: Tokens already in the context before that.
        streams: Requests in flight at once.
    """

    kind: Literal["pp", "tg"]
    tokens: int
    depth: int = 0
    streams: int = 1

    @classmethod
    def parse(cls, text: str) -> Workload:
        """Read `pp512`, `tg128`, `tg128@d4096`, `tg128 x4`.

        Raises:
            ValueError: The text is none of these, or counts nothing.
        """
        match = _WORKLOAD.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is no workload: write pp512, tg128, tg128@d4096 or 'tg128 x4'")
        kind: Literal["pp", "tg"] = "pp" if match["kind"] == "pp" else "tg"
        tokens, depth, streams = int(match["tokens"]), int(match["depth"] or 0), int(match["streams"] or 1)
        if kind == "tg" and tokens < 2:
            raise ValueError(f"{text!r}: a rate needs at least two generated tokens")
        if tokens < 1 or streams < 1:
            raise ValueError(f"{text!r} asks for nothing: tokens and streams start at 1")
        return cls(kind, tokens, depth, streams)

    @classmethod
    def parse_all(cls, text: str) -> tuple[Workload, ...]:
        """Read a workload, or all levels of a ladder: `tg128 x1,2,4`, `tg128@d0,4k,16k`, a grid of both.

        `k` stands for 1,024 tokens. Levels come as they are written; in a grid, all streams of a depth together.

        Raises:
            ValueError: The text is neither, counts nothing, or names a level twice.
        """
        if _WORKLOAD.fullmatch(text.strip()):
            return (cls.parse(text),)
        match = _LADDER.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is no workload: write pp512, tg128@d4096, 'tg128 x1,2,4' or 'tg128@d0,4k,16k'")
        depths = [_tokens(part) for part in (match["depths"] or "0").split(",")]
        streams = [int(part) for part in (match["streams"] or "1").split(",")]
        try:
            levels = tuple(cls.parse(f"{match['what']}@d{depth} x{count}") for depth in depths for count in streams)
        except ValueError as error:
            raise ValueError(f"{text!r}: {error}") from None
        for position, level in enumerate(levels):
            if level in levels[:position]:
                raise ValueError(f"{text!r}: {level.name} stands here twice")
        return levels

    @property
    def name(self) -> str:
        """The name that `parse` reads."""
        depth = f"@d{self.depth}" if self.depth else ""
        streams = f" x{self.streams}" if self.streams > 1 else ""
        return f"{self.kind}{self.tokens}{depth}{streams}"

    @property
    def context_tokens(self) -> int:
        """Context that one stream needs, in tokens: the prompt (at least one token), what follows, one spare."""
        return max(self.depth, 1) + self.tokens + 1


def _tokens(text: str) -> int:
    text = text.strip()
    return int(text.removesuffix("k")) * (_K if text.endswith("k") else 1)


@dataclass(frozen=True)
class TrialSpec:
    """One server start of one placement, with its workloads: all that determines the outcome.

    Attributes:
        placement: The placement's name.
        model: Fingerprint of the model's files.
        model_path: Where the first of them lies; not part of the identity.
        build: Identity of the llama.cpp build.
        devices: What the layers may live on, as the user would ask for it again: `rpc:3`, GPU UUIDs.
        flags: llama-server's long names to values, effective: settings and placement merged.
        env: Environment variables that the placement sets.
        workloads: What is asked of it.
        repeat: How often each workload is measured after the warm-up.
        splits: How closely the split tracer watches the measured repetitions.
    """

    placement: str
    model: str
    model_path: str
    build: str
    devices: tuple[str, ...]
    flags: Mapping[str, FlagValue]
    env: Mapping[str, str]
    workloads: tuple[Workload, ...]
    repeat: int
    splits: SplitMode = SplitMode.OFF

    @property
    def configuration(self) -> str:
        """Hash of everything but the workloads: equal for runs whose figures may be put together."""
        return _digest(
            {
                "model": self.model,
                "build": self.build,
                "devices": self.devices,
                "flags": dict(self.flags),
                "env": dict(self.env),
                **({"splits": self.splits} if self.splits is not SplitMode.OFF else {}),
            }
        )


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Command:
    """What was started for a trial.

    Attributes:
        argv: The program and its arguments.
        env: The environment variables that were set for it beyond the inherited ones.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]


class RequestStatus(StrEnum):
    """How one request ended."""

    OK = "ok"
    REFUSED = "refused"
    CUT = "cut"
    IMPLAUSIBLE = "implausible"


@dataclass(frozen=True)
class ServerTimings:
    """The server's own account of one request, as given; None where it says nothing.

    `prompt_ms` includes sampling the first token; `predicted_ms` starts after it in builds since 2026.
    """

    prompt_n: int | None = None
    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None
    cache_n: int | None = None
    draft_n: int | None = None
    draft_n_accepted: int | None = None


@dataclass(frozen=True, eq=False)
class RequestRecord:
    """One request, timed by the client on the monotonic clock.

    Attributes:
        workload: The workload it belongs to.
        role: Only `measure` requests are counted; beside a traced repetition, `untraced` is one without the tracer.
        repetition: Which repetition of the workload, from 0.
        stream: Which of the concurrent streams, from 0.
        sent_ns: When the request was sent.
        arrivals_ns: When each event with tokens arrived, shape (events,), int64.
        tokens: Tokens in each of those events, shape (events,), int64.
        ended_ns: When the stream ended.
        timings: The server's account.
        status: How it ended.
        reason: Why it is not `ok`; empty otherwise.
    """

    workload: Workload
    role: Literal["warmup", "measure", "untraced"]
    repetition: int
    stream: int
    sent_ns: int
    arrivals_ns: NDArray[np.int64]
    tokens: NDArray[np.int64]
    ended_ns: int
    timings: ServerTimings
    status: RequestStatus = RequestStatus.OK
    reason: str = ""


class TrialStatus(StrEnum):
    """How a trial stands. Only `ok` trials are compared."""

    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    """The server did not start, or died: a result, not to be tried again unasked."""
    VOID = "void"
    """It ran, but not what was asked."""
    INTERRUPTED = "interrupted"


class Failure(StrEnum):
    """What ended a failed trial, read from the server's log and exit."""

    OUT_OF_MEMORY = "out of memory"
    REFUSED_FLAG = "flag refused"
    BAD_MODEL = "model refused"
    ASSERTION = "assertion failed"
    PORT_TAKEN = "port taken"
    STALLED = "stalled"
    KILLED = "killed"
    CRASHED = "crashed"
    DEVICE_LOST = "device lost"
    REQUEST = "request failed"


@dataclass(frozen=True)
class Outcome:
    """How a trial ended.

    Attributes:
        status: Its standing.
        failure: What went wrong; None when nothing did.
        message: One sentence for a person; empty when all went well.
        evidence: The line of the server's log that proves it; empty when no line does.
    """

    status: TrialStatus
    failure: Failure | None = None
    message: str = ""
    evidence: str = ""


@dataclass(frozen=True)
class Caveat:
    """A reason to doubt a figure.

    Attributes:
        code: A stable short name: `no-plateau`.
        message: What was seen, with the figure or the log line.
        remedy: What to do about it.
    """

    code: str
    message: str
    remedy: str = ""


@dataclass(frozen=True, eq=False)
class TrialRecord:
    """A trial as the trace holds it.

    Attributes:
        id: Its number in the trace.
        spec: What was asked.
        devices: What its layers could live on.
        started_ns: Monotonic time of the start.
        ready_ns: When the server answered that it had loaded the model; None when it never did.
        ended_ns: Monotonic time of the end; None while it runs or when it was killed.
        outcome: How it ended.
        requests: All its requests, in order of sending.
        caveats: Reasons to doubt its figures.
    """

    id: int
    spec: TrialSpec
    devices: tuple[Device, ...]
    started_ns: int
    ready_ns: int | None
    ended_ns: int | None
    outcome: Outcome
    requests: tuple[RequestRecord, ...] = field(default=())
    caveats: tuple[Caveat, ...] = field(default=())
