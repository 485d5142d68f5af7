from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.trial import ServerTimings
from k3prof.errors import ConfigError
from k3prof.llama.reply import read_reply

TIMINGS = {
    "cache_n": 0,
    "prompt_n": 512,
    "prompt_ms": 722.5,
    "prompt_per_second": 708.6,
    "predicted_n": 35,
    "predicted_ms": 661.064,
    "predicted_per_second": 52.9,
}


def test_a_chat_completion_says_when_and_how_long():
    text = json.dumps({"choices": [], "created": 1_790_000_000, "object": "chat.completion", "timings": TIMINGS})
    reply = read_reply(text, "reply.json")
    assert reply.created_s == 1_790_000_000
    assert reply.timings == ServerTimings(512, 722.5, 35, 661.064, 0)


def test_a_completion_has_no_date_and_timings_may_stand_alone():
    for given_reply in ({"content": "x", "stop": True, "timings": TIMINGS}, TIMINGS):
        reply = read_reply(json.dumps(given_reply), "reply.json")
        assert (reply.created_s, reply.timings.predicted_n) == (None, 35)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "data: {}",
        "[]",
        "3",
        "{}",
        "[" * 100_000,
        '{"timings": 3}',
        '{"timings": {"predicted_ms": "5"}}',
        '{"timings": {"predicted_ms": NaN}}',
        '{"timings": {"predicted_ms": -1}}',
        '{"timings": {"predicted_ms": 1e300}}',
    ],
)
def test_what_is_no_reply_is_refused_by_name_and_says_what_is_wanted(text):
    with pytest.raises(ConfigError, match=r"^odd\.json") as caught:
        read_reply(text, "odd.json")
    assert "timings" in caught.value.hint


def test_an_error_of_the_server_is_shown():
    with pytest.raises(ConfigError, match="context is too small"):
        read_reply('{"error": {"message": "context is too small"}}', "reply.json")


def test_odd_figures_are_unknown_and_odd_dates_none():
    odd = {"timings": {**TIMINGS, "prompt_n": True, "cache_n": "7", "draft_n": 10**400}, "created": 10**30}
    reply = read_reply(json.dumps(odd), "reply.json")
    assert (reply.timings.prompt_n, reply.timings.cache_n, reply.timings.draft_n) == (None, None, None)
    assert reply.created_s is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["timings", "created", "predicted_ms", "prompt_n", "error"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


@given(JSON)
def test_no_json_ends_in_a_traceback(value):
    try:
        reply = read_reply(json.dumps(value), "reply.json")
    except ConfigError:
        return
    assert reply.timings.predicted_ms is not None
