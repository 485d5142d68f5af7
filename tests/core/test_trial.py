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


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("tg128 x1,2,4", ["tg128", "tg128 x2", "tg128 x4"]),
        ("tg128@d0,1k,4k,16k", ["tg128", "tg128@d1024", "tg128@d4096", "tg128@d16384"]),
        ("pp512@d0,4k", ["pp512", "pp512@d4096"]),
        ("tg8@d0,512 x1,2", ["tg8", "tg8 x2", "tg8@d512", "tg8@d512 x2"]),
        ("tg8@d2k", ["tg8@d2048"]),
        (" tg8@d0 , 1k x 1 , 2".replace("x ", "x"), ["tg8", "tg8 x2", "tg8@d1024", "tg8@d1024 x2"]),
        ("tg128@d4096 x4", ["tg128@d4096 x4"]),
    ],
)
def test_a_ladder_reads_as_its_levels(text: str, levels: list[str]) -> None:
    assert [one.name for one in Workload.parse_all(text)] == levels


LEVELS = st.lists(st.integers(1, 300), min_size=1, max_size=5, unique=True)


@given(st.sampled_from(["pp", "tg"]), st.integers(2, 10**6), LEVELS, LEVELS, st.booleans())
def test_a_grid_is_every_depth_with_every_number_of_streams(
    kind: str, tokens: int, depths: list[int], streams: list[int], in_k: bool
) -> None:
    unit, suffix = (1024, "k") if in_k else (1, "")
    text = f"{kind}{tokens}@d{','.join(f'{depth}{suffix}' for depth in depths)} x{','.join(map(str, streams))}"
    expected = [Workload(kind, tokens, depth * unit, count) for depth in depths for count in streams]  # type: ignore[arg-type]
    assert list(Workload.parse_all(text)) == expected


@given(st.text(max_size=30) | st.from_regex(r"(tg|pp)[0-9]{1,3}(@d[0-9k,]{1,8})?( x[0-9,]{1,8})?", fullmatch=True))
def test_any_text_is_a_ladder_of_different_levels_or_refused_by_what_it_is(text: str) -> None:
    try:
        levels = Workload.parse_all(text)
    except ValueError as error:
        assert repr(text) in str(error)
    else:
        assert len(set(levels)) == len(levels) >= 1
        assert all(Workload.parse(one.name) == one for one in levels)


def test_a_level_that_stands_twice_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="tg128@d1024 stands here twice"):
        Workload.parse_all("tg128@d1k,1024")


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
