from __future__ import annotations

import numpy as np
import pytest

from k3prof.core.spans import UNKNOWN, SpanKind
from k3prof.reporters.split_words import in_words, layers
from tests.doubles.traced_trials import repeated, token_spans


def words_of(spans, kind):
    words, place = in_words(spans.of_kind(kind))
    return [words[i] for i in place]


@pytest.mark.parametrize(("first", "last", "said"), [(0, 8, "0–8"), (8, 8, "8"), (UNKNOWN, UNKNOWN, "")])
def test_layers_are_a_range(first, last, said):
    assert layers(first, last) == said


def test_a_span_says_what_it_is():
    token = token_spans()
    assert words_of(token, SpanKind.COMPUTE)[1] == "layers 0–8, 1,602 nodes: norm-0 … node_1602"
    assert words_of(token, SpanKind.COMPUTE)[3] == "layer 8, 18 nodes: norm-0 … node_1602"
    assert words_of(token, SpanKind.COMPUTE)[0] == "no layer, 1 node: norm-0 … node_1602"
    assert words_of(token, SpanKind.COPY)[0] == "copy CPU → RPC0, 2,048 bytes: node_1602"
    assert words_of(token, SpanKind.WAIT) == ["the host waits for RPC2"]
    assert words_of(token, SpanKind.SUBMIT) == ["the host hands over layers 0–8, 1,602 nodes: unnamed"]


def test_a_split_that_was_only_asked_for_says_so():
    open_ended = words_of(token_spans(finished=False), SpanKind.COMPUTE)
    assert open_ended[1].endswith("; ends when the call returned")
    assert "call returned" not in open_ended[0]


def test_each_different_span_is_described_once():
    token = token_spans()
    once, _ = in_words(token)
    words, place = in_words(repeated(token, np.arange(1000) * 30_000_000))
    assert words == once
    assert place.size == 1000 * len(token)


def test_names_of_tensors_are_made_safe_to_show():
    (said,) = words_of(token_spans("a\x1b[31m\u202eb\n" + "c" * 500), SpanKind.COPY)[:1]
    assert said.startswith("copy CPU → RPC0, 2,048 bytes: ab cc")
    assert len(said) < 120
