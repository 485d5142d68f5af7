from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.llama.log_lines import LogLine, quote, read_lines

LOGS = Path(__file__).parent / "logs"
NATIVE = "0.00.089.184 I load_tensors:          CPU model buffer size =     0.13 MiB"


def one(text: str) -> LogLine:
    (line,) = read_lines(text)
    return line


@pytest.mark.parametrize(
    ("text", "level", "owner", "message"),
    [
        (NATIVE, "I", "load_tensors", "CPU model buffer size =     0.13 MiB"),
        ("317.54.601.806 I srv  llama_server: model loaded", "I", "llama_server", "model loaded"),
        ("I srv    load_model: initializing, n_slots = 1", "I", "load_model", "initializing, n_slots = 1"),
        ("W llama_context: graph reuse disabled", "W", "llama_context", "graph reuse disabled"),
        (
            "llm_load_tensors:      CUDA0 buffer size =  3946.35 MiB",
            "",
            "llm_load_tensors",
            "CUDA0 buffer size =  3946.35 MiB",
        ),
        (
            "main: server is listening on http://127.0.0.1:8080",
            "",
            "main",
            "server is listening on http://127.0.0.1:8080",
        ),
        (
            'INFO [                    init] initializing slots | tid="140" timestamp=1725256043 n_slots=4',
            "I",
            "init",
            "initializing slots | n_slots=4",
        ),
        (
            '{"tid":"1","timestamp":1708000000,"level":"INFO","function":"init","line":9,"msg":"slots","n_slots":1}',
            "I",
            "init",
            "slots | n_slots=1",
        ),
        ('{"type":"log","time":7,"level":"warn","msg":"llama_context: hot\\n"}', "W", "llama_context", "hot"),
        ("0.00.002.326 I srv    operator(): operator(): cleaning up", "I", "operator()", "cleaning up"),
        ("............load_tensors: done", "", "load_tensors", "done"),
        ("sched_reserve: graph: nodes = 1, splits = 2", "", "sched_reserve", "graph: nodes = 1, splits = 2"),
    ],
)
def test_the_prefix_of_every_version_is_stripped(text: str, level: str, owner: str, message: str) -> None:
    line = one(text)
    assert (line.level, line.owner, line.message) == (level, owner, message)


def test_a_line_of_a_slot_says_which_slot_and_task_it_concerns() -> None:
    line = one("0.01.170.363 I slot print_timing: id  3 | task 12 | prompt eval time =     218.55 ms /    41 tokens")
    assert (line.owner, line.slot, line.task) == ("print_timing", 3, 12)
    assert line.message.startswith("prompt eval time")


def test_a_prefix_in_the_middle_of_a_message_is_stripped() -> None:
    text = "0.00.022.688 I validate_override: Using metadata override (  int) 'a.b' = 0.00.022.696 I 2"
    assert one(text).message == "Using metadata override (  int) 'a.b' = 2"


def test_json_records_that_are_pieces_of_one_line_are_joined() -> None:
    pieces = ["validate_override: Using metadata override (  int) 'a.b' = ", "2\n"]
    text = "\n".join(json.dumps({"type": "log", "time": 1, "level": "info", "msg": piece}) for piece in pieces)
    assert one(text).message == "Using metadata override (  int) 'a.b' =  2".replace("  2", " 2")
    assert read_lines(text.splitlines()[0]) == []


def test_a_json_record_that_is_no_message_is_kept_as_data() -> None:
    line = one('{"type":"fit_memory_breakdown","data":{"unit":"MiB","rows":[]}}')
    assert line.owner == "fit_memory_breakdown"
    assert line.data is not None


WRAPPINGS = [
    "Apr 17 23:09:42 athena llama-server[2840147]: {}",
    "Jan  6 17:50:35.123456 ip-172-31-3-6 llama[1418]: {}",
    "2026-07-28T12:00:00+0200 host k3[7]: {}",
    "2026-07-28T12:00:00.123456789Z {}",
    "2026-07-28T12:00:00.123456789Z stderr F {}",
    "[2026-07-28 12:00:00] {}",
    "2026-07-28 12:00:00,123 {}",
    "llama-server-1  | {}",
    "[1700000000] {}",
    "[   12.345678] {}",
    "12:00:00 {}",
    "[pod/k3-0/server] {}",
    "server.log:123:{}",
    "/var/log/k3/server.log-{}",
    "[stderr] {}",
    "12:34PM DBG GRPC(k3-127.0.0.1:40711): stderr {}",
    "12:34 k3 <out> {}",
    "llama-server-1  | 2026-07-28T12:00:00.1Z {}",
]


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("name", ["layer-split-lv4.log", "no-prefix-lv4.log"])
def test_what_others_put_before_each_line_is_stripped(wrapping: str, name: str) -> None:
    text = "\n".join(line for line in (LOGS / name).read_text().split("\n") if ": " in line and "kv " not in line)
    plain = [(line.number, line.text, line.owner, line.message) for line in read_lines(text)]
    wrapped = read_lines("\n".join(wrapping.format(line) for line in text.split("\n")))
    assert [(line.number, line.text, line.owner, line.message) for line in wrapped] == plain


def test_objects_around_each_line_are_opened() -> None:
    plain = one(NATIVE)
    assert one(json.dumps({"log": NATIVE + "\n", "stream": "stderr", "time": "2026-07-28T12:00:00Z"})) == plain
    assert one(json.dumps({"MESSAGE": NATIVE, "_PID": "7"})) == plain
    assert one(json.dumps({"level": "info", "msg": NATIVE})) == plain


def test_a_routers_mark_is_kept_apart_from_the_line() -> None:
    line = one(f"[40711] {NATIVE}")
    assert line.child == "40711"
    assert line.owner == "load_tensors"


def test_colours_and_control_characters_are_removed() -> None:
    line = one("\x1b[34m0.00.089.184\x1b[0m \x1b[32mI \x1b[0mload_tensors: a\x07b\u202ec\x1b]0;title\x07")
    assert line.text == "load_tensors: abc"


def test_text_without_a_prefix_in_a_log_with_prefixes_only_follows() -> None:
    lines = read_lines(f"{NATIVE}\nload_tensors:        CUDA0 model buffer size =     9.99 MiB\n")
    assert [line.follows for line in lines] == [False, True]


def test_a_quoted_line_is_bounded_and_names_no_build_folder() -> None:
    assert quote("/home/x/llama.cpp/src/llama-model.cpp:12: GGML_ASSERT(x) failed") == (
        "llama-model.cpp:12: GGML_ASSERT(x) failed"
    )
    assert quote("a" * 1000) == "a" * 299 + "…"
    assert quote("a\x00b\n c") == "ab c"


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    for line in read_lines(text):
        assert line.message in line.text or line.data is not None
        assert line.text == line.text.strip()
        assert 1 <= line.number <= text.count("\n") + 1


@given(st.binary())
def test_any_bytes_are_read(data: bytes) -> None:
    read_lines(data.decode(errors="replace"))


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner), max_leaves=8)
)
def test_any_json_is_read(value: object) -> None:
    read_lines(json.dumps(value))
    read_lines("[" * 100_000)
