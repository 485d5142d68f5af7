from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.spans import SplitMode
from k3prof.core.trial import TrialSpec, Workload

SPEC = TrialSpec(
    placement="even",
    model="m",
    model_path="/models/m.gguf",
    build="b",
    devices=("stand-in", "stand-in"),
    flags={"ctx-size": 4096, "tensor-split": (1, 1)},
    env={"GGML_X": "1"},
    workloads=(Workload("tg", 128),),
    repeat=3,
)


@given(
    st.sampled_from(["pp", "tg"]),
    st.integers(2, 10**7),
    st.integers(0, 10**7),
    st.integers(1, 999),
)
def test_a_workloads_name_reads_back_as_the_workload(kind: str, tokens: int, depth: int, streams: int) -> None:
    workload = Workload(kind, tokens, depth, streams)  # type: ignore[arg-type]
    assert Workload.parse(workload.name) == workload


@given(st.text(max_size=30))
def test_any_text_is_a_workload_or_refused_with_the_ways_to_write_one(text: str) -> None:
    try:
        assert Workload.parse(text).tokens >= 1
    except ValueError as error:
        assert repr(text) in str(error)


@pytest.mark.parametrize("text", ["tg1", "pp0", "tg128 x0", "tg", "pp512@4096", "TG128", "tg128@d", "tg-5"])
def test_what_asks_for_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text.split(maxsplit=1)[0][:2]):
        Workload.parse(text)


def test_names_are_llama_benchs() -> None:
    assert Workload.parse("tg128@d32768 x4") == Workload("tg", 128, 32768, 4)
    assert Workload("pp", 512).name == "pp512"


@pytest.mark.parametrize(
    "changed",
    [
        replace(SPEC, model="other"),
        replace(SPEC, splits=SplitMode.EXACT),
        replace(SPEC, build="other"),
        replace(SPEC, devices=("stand-in",)),
        replace(SPEC, flags={**SPEC.flags, "ctx-size": 2048}),
        replace(SPEC, env={}),
    ],
)
def test_whatever_changes_what_runs_changes_the_configuration(changed: TrialSpec) -> None:
    assert changed.configuration != SPEC.configuration


@pytest.mark.parametrize(
    "changed",
    [
        replace(SPEC, placement="renamed"),
        replace(SPEC, model_path="/elsewhere/m.gguf"),
        replace(SPEC, flags=dict(reversed(SPEC.flags.items()))),
        replace(SPEC, repeat=5),
        replace(SPEC, workloads=(Workload("pp", 512),)),
    ],
)
def test_names_paths_and_what_is_measured_leave_the_configuration_alone(changed: TrialSpec) -> None:
    assert changed.configuration == SPEC.configuration
