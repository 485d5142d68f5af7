from __future__ import annotations

import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from k3prof.core.probes.probe import Answer
from k3prof.core.probes.questions import PROBES
from k3prof.llama.chat import Examiner
from tests.doubles.completion_server import completion_server, send

BY_ID = {probe.id: probe for probe in PROBES}
FACT, CALL, RECORD = BY_ID["capital-france"], BY_ID["weather-call"], BY_ID["json-by-grammar"]


def ask(reply: object, probe=FACT, *, has_template: bool = True, status: int = 200):
    """Return the answer and the bodies that the server got; texts are sent as they are."""
    bodies = []

    def answer(handler, body):
        bodies.append(body)
        text = reply if isinstance(reply, str) else json.dumps(reply)
        send(handler, text, "application/json", status)

    with completion_server(answer) as url:
        return Examiner(url, 5.0, has_template=has_template).ask(probe), bodies


def chat(finish="stop", **message):
    return {"choices": [{"message": message, "finish_reason": finish}]}


def test_a_model_with_a_template_is_asked_the_bare_question_greedily():
    answer, (body,) = ask(chat(content="Paris"))
    assert answer == Answer("Paris")
    assert body["messages"] == [{"role": "user", "content": FACT.question}]
    assert (body["temperature"], body["cache_prompt"]) == (0, False)


def test_a_model_without_one_continues_examples():
    reply = {"content": " Paris", "completion_probabilities": [{"logprob": math.log(0.5)}, {"logprob": None}]}
    answer, (body,) = ask(reply, has_template=False)
    assert answer.text == " Paris"
    assert answer.likelihoods == pytest.approx((0.5,))
    assert body["prompt"].endswith(f"{FACT.question}\nAnswer:")
    assert "\n\n" in body["stop"]


def test_a_tool_call_becomes_json_and_the_tool_is_offered():
    call = {"function": {"name": "get_weather", "arguments": '{"city": "Lisbon"}'}}
    answer, (body,) = ask(chat(content=None, tool_calls=[call]), CALL)
    assert CALL.check(answer.text)
    assert body["tools"][0]["function"]["name"] == "get_weather"


def test_a_schema_is_enforced_either_way():
    _, (body,) = ask(chat(content="{}"), RECORD)
    assert body["response_format"]["json_schema"]["schema"] == RECORD.schema
    _, (body,) = ask({"content": "{}"}, RECORD, has_template=False)
    assert body["json_schema"] == RECORD.schema


def test_a_model_that_is_still_thinking_is_given_more_room_once():
    answer, bodies = ask(chat("length", content="", reasoning_content="Hm"))
    assert answer.text is None
    assert "thinking" in answer.reason
    assert [body["max_tokens"] for body in bodies] == [FACT.tokens, FACT.tokens + 1024]


def test_an_empty_reply_is_an_empty_answer():
    answer, _ = ask(chat(content=""))
    assert answer == Answer("")


@pytest.mark.parametrize("has_template", [True, False])
@pytest.mark.parametrize(
    ("reply", "status", "said"),
    [
        ("<html>524</html>", 524, "HTTP 524: <html>524</html>"),
        ('{"error": {"message": "tools need --jinja"}}', 500, "tools need --jinja"),
        ("<html>hello</html>", 200, "JSONDecodeError"),
        ("[1]", 200, "TypeError"),
        ("{}", 200, "KeyError"),
        ('{"choices": [], "content": 3}', 200, "Error"),
    ],
)
def test_what_goes_wrong_is_the_reason_that_there_is_no_answer(reply, status, said, has_template):
    answer, _ = ask(reply, has_template=has_template, status=status)
    assert answer.text is None
    assert said in answer.reason


def test_a_server_that_is_not_there_gives_no_answer():
    assert Examiner("http://127.0.0.1:9", 1.0, has_template=True).ask(FACT).text is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "tool_calls", "function", "logprobs", "name"]), inner
        )
    ),
    max_leaves=12,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(JSON, st.booleans())
def test_no_reply_whatever_it_holds_raises(reply, has_template):
    answer, _ = ask(json.dumps(reply), has_template=has_template)
    assert (answer.text is None) == bool(answer.reason)
