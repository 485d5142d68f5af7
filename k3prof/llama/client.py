"""The load generator: requests to a llama-server, streamed, with the raw arrival time of every token."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Literal

import httpx
import numpy as np
from httpx_sse import SSEError, aconnect_sse

from k3prof.core.trial import RequestRecord, RequestStatus, ServerTimings, Workload
from k3prof.llama.prompts import PromptSource

_SEED = 42
_SHORT_TIMEOUT_S = 60.0


Role = Literal["warmup", "measure", "untraced"]


class Client:
    """Asks one server for repetitions of workloads.

    Args:
        url: The server's base URL.
        patience_s: Seconds without any token or progress report after which a request counts as cut.
        on_tokens: Called with the number of tokens of each event, as it arrives.
    """

    def __init__(self, url: str, patience_s: float, on_tokens: Callable[[int], None] = lambda _: None) -> None:
        self._url = url
        self._patience_s = patience_s
        self._on_tokens = on_tokens
        self._prompts = PromptSource(self._tokenize)
        self._prompts_used = 0
        # Made once, since reading the certificates takes longer than a token.
        self._tls = httpx.create_ssl_context(trust_env=False)

    def run(self, workload: Workload, role: Role, repetition: int) -> list[RequestRecord]:
        """Run one repetition: one request per stream, all sent at once, prompts never seen before.

        Returns:
            One record per stream, in order of streams. What went wrong is in their status, never an exception.
        """
        asked = [_unanswered(workload, role, repetition, stream) for stream in range(workload.streams)]
        prompt_tokens = workload.depth + (workload.tokens if workload.kind == "pp" else 1)
        try:
            prompts = [self._next_prompt(prompt_tokens) for _ in asked]
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            reason = f"the server's tokenizer failed: {error}"
            return [replace(one, status=RequestStatus.REFUSED, reason=reason) for one in asked]
        return asyncio.run(self._run(asked, prompts))

    async def _run(self, asked: Sequence[RequestRecord], prompts: Sequence[Sequence[int]]) -> list[RequestRecord]:
        async with AsyncExitStack() as stack:
            # A pool for each stream: one pool goes through all its connections for each request, and so sent the last
            # of 32 requests 100 ms after the first; with these it is 14 ms.
            connections = [await stack.enter_async_context(self._connection()) for _ in asked]
            # Opened beforehand, so that no request's time holds a handshake.
            await asyncio.gather(*map(self._open, connections))
            return await asyncio.gather(*map(self._request, connections, asked, prompts))

    def _connection(self) -> httpx.AsyncClient:
        timeout = httpx.Timeout(None, connect=_SHORT_TIMEOUT_S)
        return httpx.AsyncClient(base_url=self._url, trust_env=False, timeout=timeout, verify=self._tls)

    async def _request(self, http: httpx.AsyncClient, asked: RequestRecord, prompt: Sequence[int]) -> RequestRecord:
        body = {
            "prompt": list(prompt),
            "n_predict": asked.workload.tokens if asked.workload.kind == "tg" else 1,
            "temperature": 0,
            "seed": _SEED,
            "ignore_eos": True,
            "cache_prompt": False,
            "stream": True,
            "return_progress": True,
        }
        arrivals_ns: list[int] = []
        tokens: list[int] = []
        predicted = 0
        final: Mapping[str, Any] = {}
        status, reason = RequestStatus.OK, ""
        sent_ns = time.monotonic_ns()
        try:
            async with (
                asyncio.timeout(self._patience_s) as patience,
                aconnect_sse(http, "POST", "/completion", json=body) as events,
            ):
                if events.response.status_code != httpx.codes.OK:
                    await events.response.aread()
                    status, reason = RequestStatus.REFUSED, _error_message(events.response)
                else:
                    async for event in events.aiter_sse():
                        now_ns = time.monotonic_ns()
                        patience.reschedule(asyncio.get_running_loop().time() + self._patience_s)
                        chunk = _read_event(event.data)
                        # Counted by the server: an event holds several tokens where one ended inside a character.
                        if (new := int(chunk.get("tokens_predicted", 0)) - predicted) > 0:
                            predicted += new
                            arrivals_ns.append(now_ns)
                            tokens.append(new)
                            self._on_tokens(new)
                        if chunk.get("stop"):
                            final = chunk
        except TimeoutError:
            status, reason = RequestStatus.CUT, f"no token and no progress for {self._patience_s:.0f} s"
        except (httpx.HTTPError, SSEError, ValueError) as error:
            status, reason = RequestStatus.CUT, f"{type(error).__name__}: {error}"
        ended_ns = time.monotonic_ns()
        if status is RequestStatus.OK and not final:
            status, reason = RequestStatus.CUT, "the stream ended without its final event"
        return replace(
            asked,
            sent_ns=sent_ns,
            arrivals_ns=np.array(arrivals_ns, np.int64),
            tokens=np.array(tokens, np.int64),
            ended_ns=ended_ns,
            timings=_timings(final.get("timings")),
            status=status,
            reason=reason,
        )

    async def _open(self, http: httpx.AsyncClient) -> None:
        try:
            await http.get("/health", timeout=_SHORT_TIMEOUT_S)
        except httpx.HTTPError:
            return

    def _next_prompt(self, tokens: int) -> list[int]:
        self._prompts_used += 1
        return self._prompts.prompt(tokens, self._prompts_used)

    def _tokenize(self, text: str) -> list[int]:
        response = httpx.post(
            f"{self._url}/tokenize",
            json={"content": text},
            trust_env=False,
            timeout=_SHORT_TIMEOUT_S,
            verify=self._tls,
        )
        response.raise_for_status()
        return [int(token) for token in response.json()["tokens"]]


def _unanswered(workload: Workload, role: Role, repetition: int, stream: int) -> RequestRecord:
    nothing = np.empty(0, np.int64)
    now_ns = time.monotonic_ns()
    return RequestRecord(workload, role, repetition, stream, now_ns, nothing, nothing, now_ns, ServerTimings())


def _read_event(text: str) -> dict[str, Any]:
    chunk = json.loads(text)
    if not isinstance(chunk, dict):
        raise ValueError(f"an event that is no object: {text[:80]}")  # noqa: TRY004 - bad data, not a bad call
    if "error" in chunk:
        raise ValueError(f"the server reports: {json.dumps(chunk['error'])[:200]}")
    return chunk


def _timings(given: object) -> ServerTimings:
    if not isinstance(given, dict):
        return ServerTimings()

    def number(key: str) -> float | None:
        value = given.get(key)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def count(key: str) -> int | None:
        value = number(key)
        return None if value is None else int(value)

    return ServerTimings(
        prompt_n=count("prompt_n"),
        prompt_ms=number("prompt_ms"),
        predicted_n=count("predicted_n"),
        predicted_ms=number("predicted_ms"),
        cache_n=count("cache_n"),
        draft_n=count("draft_n"),
        draft_n_accepted=count("draft_n_accepted"),
    )


def _error_message(response: httpx.Response) -> str:
    try:
        message = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = response.text[:200]
    return f"HTTP {response.status_code}: {message}"
