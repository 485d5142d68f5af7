from __future__ import annotations

import dataclasses

import pytest

from k3prof.core.refutation.effective import Effective
from k3prof.core.refutation.guard import Difference, asked_differences, asked_obstacle, guard
from k3prof.core.trial import FlagValue, TrialSpec, Workload

TG, TG4 = Workload("tg", 64), Workload("tg", 64, streams=4)
SPEC = TrialSpec("even", "model", "/m.gguf", "build", ("rpc:3",), {"ctx-size": 4096}, {}, (TG,), 3)
SETTINGS = {
    "context": "4096",
    "batch": "2048",
    "K cache": "f16",
    "V cache": "f16",
    "experts used": "16",
    "threads": "1",
    "threads for prompts": "1",
}
LAYOUT = {"model on RPC0": "97.00 MiB", "splits of a token": "8"}
BEFORE = Effective(SETTINGS, LAYOUT, {"CUDA0 SM clock": 1740.0}, "kimi-k3")


def asked(flags: dict[str, FlagValue] | None = None, **changes: object) -> tuple[Difference, ...]:
    candidate = dataclasses.replace(SPEC, flags={**SPEC.flags, **(flags or {})}, **changes)  # type: ignore[arg-type]
    return asked_differences(SPEC, candidate, TG, TG)


def ran(
    settings: dict[str, str] | None = None, layout: dict[str, str] | None = None, sm_mhz: float = 1740
) -> Effective:
    return Effective(
        {**SETTINGS, **(settings or {})}, {**LAYOUT, **(layout or {})}, {"CUDA0 SM clock": sm_mhz}, "kimi-k3"
    )


def test_what_is_asked_differently_is_named_as_the_user_writes_it() -> None:
    found = asked({"n-cpu-moe": 4}, env={"GGML_X": "1"}, build="other", model="m2", devices=("rpc:2",))
    assert [one.name for one in found] == ["n-cpu-moe", "env.GGML_X", "build", "model", "devices"]
    assert found[0].text == "n-cpu-moe (- → 4)"
    (streams,) = asked_differences(SPEC, SPEC, TG, TG4)
    assert (streams.name, streams.baseline, streams.candidate) == ("workload", "tg64", "tg64 x4")


@pytest.mark.parametrize(
    ("one", "other"), [(4, "4"), (1.0, 1), ((1, 1, 2), "1,1,2"), ((1.0, 2.0), (1, 2)), (True, "true")]
)
def test_a_value_that_is_only_written_otherwise_does_not_differ(one: FlagValue, other: FlagValue) -> None:
    before = dataclasses.replace(SPEC, flags={"x": one})
    after = dataclasses.replace(SPEC, flags={"x": other})
    assert asked_differences(before, after, TG, TG) == ()


def test_two_flags_at_once_are_refused_and_both_are_named() -> None:
    found = asked_obstacle(asked({"n-cpu-moe": 4, "tensor-split": (2, 1)}), None)
    assert found.startswith("confounded by ")
    assert "n-cpu-moe (- → 4)" in found
    assert "tensor-split (- → 2,1)" in found


def test_whatever_differs_beside_the_declared_variable_confounds() -> None:
    differences = asked({"n-cpu-moe": 4}, env={"GGML_X": "1"})
    assert "env.GGML_X (- → 1)" in asked_obstacle(differences, "n-cpu-moe")
    assert "n-cpu-moe (- → 4)" in asked_obstacle(differences, "env.GGML_X")
    assert asked_obstacle(asked({"n-cpu-moe": 4}), "n-cpu-moe") == ""


def test_a_declared_variable_that_nobody_changed_did_not_take() -> None:
    assert "the same tensor-split" in asked_obstacle(asked({"n-cpu-moe": 4}), "tensor-split")
    assert "both arms ask for the same" in asked_obstacle((), None)


def test_one_change_with_its_consequences_is_sound() -> None:
    after = ran(layout={"model on RPC0": "75.00 MiB", "splits of a token": "14", "pipelining": "off"})
    assert guard(asked({"n-cpu-moe": 4}), None, [BEFORE, BEFORE], [after, after]) == ""


@pytest.mark.parametrize(
    ("flags", "settings"),
    [
        ({"override-kv": "kimi-k3.expert_used_count=int:8"}, {"experts used": "8", "metadata kimi-k3.x": "8"}),
        ({"ctx-size": 8192}, {"context": "8192"}),
        ({"ctx-size": 1024}, {"context": "1024", "batch": "1024"}),
        ({"cache-type-k": "q8_0", "cache-type-v": "q8_0"}, {"K cache": "q8_0", "V cache": "q8_0"}),
        ({"threads": 2}, {"threads": "2", "threads for prompts": "2"}),
    ],
)
def test_a_setting_that_the_variable_means_may_differ(flags: dict[str, FlagValue], settings: dict[str, str]) -> None:
    assert guard(asked(flags), None, [BEFORE], [ran(settings)]) == ""


def test_a_setting_that_moved_by_itself_confounds() -> None:
    found = guard(asked({"fit": "on"}), None, [BEFORE], [ran({"context": "2048"})])
    assert found == "confounded by context (4096 → 2048), although only fit was to differ"


def test_a_change_without_any_trace_did_not_take() -> None:
    found = guard(asked(env={"GGML_CUDA_P2P": "1"}), None, [BEFORE], [BEFORE])
    assert found == "the change did not take: nothing in the server's log shows env.GGML_CUDA_P2P (- → 1)"


def test_an_override_with_another_architecture_s_prefix_is_told_so() -> None:
    found = guard(asked({"override-kv": "llama.expert_used_count=int:8"}), None, [BEFORE], [BEFORE])
    assert "the change did not take" in found
    assert "begin with kimi-k3, not with llama" in found


@pytest.mark.parametrize("changed", [{"build": "other"}, {"model": "m2"}])
def test_another_build_or_model_needs_no_line_in_the_log(changed: dict[str, str]) -> None:
    assert guard(asked(**changed), None, [BEFORE], [BEFORE]) == ""


def test_clocks_that_differ_between_the_arms_confound() -> None:
    differences = asked({"tensor-split": (2, 1)})
    layout = {"model on RPC0": "150.00 MiB"}
    assert guard(differences, None, [BEFORE], [ran(layout=layout, sm_mhz=1725)]) == ""
    found = guard(differences, None, [BEFORE], [ran(layout=layout, sm_mhz=1410)])
    assert "CUDA0 SM clock (1740 MHz → 1410 MHz)" in found


def test_legs_of_one_arm_that_did_not_run_alike_confound() -> None:
    found = guard(asked({"n-cpu-moe": 4}), None, [BEFORE, ran({"context": "2048"})], [ran(layout={"x": "1"})])
    assert "the baseline did not run alike" in found
    assert "context (4096 → 2048)" in found


def test_what_no_log_tells_is_no_obstacle() -> None:
    assert guard(asked({"n-cpu-moe": 4}), None, [], [BEFORE]) == ""


@pytest.mark.parametrize("varies", [None, "cache-type-k", "cache-type-v"])
def test_both_caches_of_one_type_are_one_change_since_a_latent_has_no_other(varies: str | None) -> None:
    assert asked_obstacle(asked({"cache-type-k": "q8_0", "cache-type-v": "q8_0"}), varies) == ""


def test_caches_of_different_types_are_two_changes() -> None:
    found = asked_obstacle(asked({"cache-type-k": "q8_0", "cache-type-v": "q4_0"}), None)
    assert "cache-type-k (- → q8_0) and cache-type-v (- → q4_0)" in found


def test_a_setting_that_only_one_of_the_logs_shows_is_unknown_and_confounds_nothing() -> None:
    after = ran({"slots": "4"}, {"model on RPC0": "75.00 MiB"})
    assert guard(asked({"n-cpu-moe": 4}), None, [BEFORE], [after]) == ""


def test_metadata_that_only_one_arm_overrides_is_a_difference() -> None:
    found = guard(asked({"n-cpu-moe": 4}), None, [BEFORE], [ran({"metadata kimi-k3.expert_used_count": "8"})])
    assert "confounded by metadata kimi-k3.expert_used_count (- → 8)" in found


def test_a_log_that_does_not_show_the_layout_does_not_prove_that_nothing_changed() -> None:
    silent = Effective({"slots": "1"}, {})
    assert guard(asked({"n-cpu-moe": 4}), None, [BEFORE], [silent]) == ""


def test_each_wrong_prefix_of_several_overrides_is_named_whichever_arm_has_them() -> None:
    flags: dict[str, FlagValue] = {"override-kv": ("kimi-k3.a=int:1", "llama.b=int:1", "qwen3.c=int:1")}
    differences = asked(flags)
    swapped = [Difference(one.name, one.candidate, one.baseline) for one in differences]
    for those in (differences, swapped):
        assert "begin with kimi-k3, not with llama or qwen3" in guard(those, None, [BEFORE], [BEFORE])


def test_a_build_that_names_itself_otherwise_is_the_change_itself() -> None:
    old, new = ran({"build": "build 1 (0c1e570)"}), ran({"build": "build 2 (9f3ab21)"})
    assert guard(asked(build="other"), None, [old], [new]) == ""
    assert "confounded by build" in guard(asked({"threads": 2}), None, [old], [new])


def test_a_build_with_another_default_is_confounded_by_it() -> None:
    found = guard(asked(build="other"), None, [BEFORE], [ran({"batch": "4096"})])
    assert found == "confounded by batch (2048 → 4096), although only build was to differ"


def test_rounds_on_another_machine_are_sound_as_long_as_both_arms_ran_there() -> None:
    layout = {"model on RPC0": "75.00 MiB"}
    baseline = [ran({"kernel": "6.1"}), ran({"kernel": "6.9"})]
    candidate = [ran({"kernel": "6.1"}, layout), ran({"kernel": "6.9"}, layout)]
    assert guard(asked({"n-cpu-moe": 4}), None, baseline, candidate) == ""
    found = guard(asked({"n-cpu-moe": 4}), None, baseline, candidate[::-1])
    assert found == "confounded by kernel (6.1 → 6.9), although only n-cpu-moe was to differ"
