"""Asks a llama-server questions one at a time: by its model's own chat template, or as a text to be continued."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx

from k3prof.core.probes.probe import Answer, Probe

_GREEDY = {"temperature": 0, "seed": 42, "cache_prompt": False, "stream": False}
_THINKING_TOKENS = 1024
"""Room for thoughts, given only to a model that spent its room for the answer on them."""
_STILL_THINKING = "it was still thinking when its room ended"
_CONNECT_S = 60.0
_SHOWN_CHARACTERS = 200

Reader = Callable[[Any], Answer]


class Examiner:
    """Asks one server for greedy answers.

    Args:
        url: The server's base URL.
        patience_s: Seconds to wait for a whole answer.
        has_template: Whether there is a chat template; else the examples of a probe's style are continued.
    """

    def __init__(self, url: str, patience_s: float, *, has_template: bool) -> None:
        self._url = url
        self._has_template = has_template
        self._timeout = httpx.Timeout(patience_s, connect=_CONNECT_S)
        self._tls = httpx.create_ssl_context(trust_env=False)

    def ask(self, probe: Probe) -> Answer:
        """Ask one question. What goes wrong is the answer's reason, never an exception."""
        if not self._has_template:
            return self._send("/completion", _completion(probe), _continuation)
        first = self._send("/v1/chat/completions", _chat(probe, probe.tokens), _reply)
        if first.reason != _STILL_THINKING:
            return first
        return self._send("/v1/chat/completions", _chat(probe, probe.tokens + _THINKING_TOKENS), _reply)

    def _send(self, path: str, body: Mapping[str, Any], read: Reader) -> Answer:
        try:
            response = httpx.post(
                f"{self._url}{path}", json=body, trust_env=False, timeout=self._timeout, verify=self._tls
            )
            if response.status_code != httpx.codes.OK:
                return Answer(None, f"HTTP {response.status_code}: {response.text[:_SHOWN_CHARACTERS]}")
            return read(json.loads(response.content.decode(errors="replace")))
        except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            return Answer(None, f"{type(error).__name__}: {error}"[:_SHOWN_CHARACTERS])


def _completion(probe: Probe) -> dict[str, Any]:
    body: dict[str, Any] = {
        "prompt": probe.style.prompt(probe.question),
        "n_predict": probe.tokens,
        "stop": list(probe.style.stops),
        **_GREEDY,
    }
    if probe.schema is not None:
        return body | {"json_schema": probe.schema}
    return body | {"n_probs": 1}


def _chat(probe: Probe, tokens: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": probe.question}],
        "max_tokens": tokens,
        "chat_template_kwargs": {"enable_thinking": False},
        **_GREEDY,
    }
    if probe.tool is not None:
        function = {"name": probe.tool.name, "description": probe.tool.about, "parameters": probe.tool.parameters}
        return body | {"tools": [{"type": "function", "function": function}]}
    if probe.schema is not None:
        schema = {"name": "answer", "schema": probe.schema, "strict": True}
        return body | {"response_format": {"type": "json_schema", "json_schema": schema}}
    return body | {"logprobs": True, "top_logprobs": 1}


def _continuation(given: Any) -> Answer:  # noqa: ANN401 - JSON
    text = given["content"]
    if not isinstance(text, str):
        raise TypeError("the reply's content is no text")
    return Answer(text, likelihoods=tuple(_likelihoods(given.get("completion_probabilities"))))


def _reply(given: Any) -> Answer:  # noqa: ANN401 - JSON
    choice = given["choices"][0]
    message = choice["message"]
    if calls := message.get("tool_calls"):
        function = calls[0]["function"]
        call = {"name": function["name"], "arguments": function["arguments"]}
        return Answer(json.dumps(call, ensure_ascii=False))
    text = message.get("content") or ""
    if not isinstance(text, str):
        raise TypeError("the reply's content is no text")
    if not text and message.get("reasoning_content") and choice.get("finish_reason") == "length":
        return Answer(None, _STILL_THINKING)
    logprobs = choice.get("logprobs")
    return Answer(text, likelihoods=tuple(_likelihoods(logprobs.get("content") if logprobs else None)))


def _likelihoods(tokens: object) -> Iterator[float]:
    """Yield the probability of each token; nothing where the server gives none."""
    for token in tokens if isinstance(tokens, list) else []:
        logprob = token.get("logprob") if isinstance(token, dict) else None
        if isinstance(logprob, int | float) and not math.isnan(logprob):
            yield math.exp(min(logprob, 0.0))
