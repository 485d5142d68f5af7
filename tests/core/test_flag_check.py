from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.experiment import Experiment, Placement, Settings, effective_flags
from k3prof.core.flag_check import canonical, check_flags
from k3prof.core.flags import Flag, FlagVocabulary
from k3prof.core.trial import Workload

# Some of what a build of 2026 lists.
VOCABULARY = FlagVocabulary(
    [
        Flag("ctx-size"),
        Flag("parallel"),
        Flag("kv-unified", takes_value=False, negative="no-kv-unified"),
        Flag("tensor-split"),
        Flag("device"),
        Flag("n-cpu-moe"),
        Flag("cpu-moe", takes_value=False),
        Flag("n-gpu-layers", aliases=("gpu-layers",)),
        Flag("kv-offload", takes_value=False, negative="no-kv-offload", negative_aliases=("no-kvo",)),
        Flag("no-host", takes_value=False),
        Flag("fit", choices=("on", "off")),
        Flag("cache-type-k", choices=("f16", "q8_0", "q4_0")),
        Flag("cpu-strict", choices=("0", "1")),
        Flag("spec-type", choices=("none", "draft-mtp", "ngram-mod")),
        Flag("draft-max", aliases=("draft",), removed="use --spec-draft-n-max"),
        Flag("port"),
        Flag("log-verbosity", aliases=("verbosity",)),
        Flag("slots", takes_value=False, negative="no-slots"),
        Flag("hf-repo-draft", aliases=("spec-draft-hf",)),
        Flag("slot-save-path"),
    ]
)


def experiment(shared=None, workloads=("tg128",), matrix=(), **flags_of_placements) -> Experiment:
    settings = Settings(
        model="demo:k3",
        devices="rpc:3",
        build="default",
        workloads=tuple(map(Workload.parse, workloads)),
        repeat=3,
        price_per_hour=None,
        flags=shared or {},
        file="x/sweep.toml",
    )
    placements = tuple(
        Placement(name, "", flags, {}, f"x/{name}.toml", matrix) for name, flags in flags_of_placements.items()
    )
    return Experiment("x", settings, placements)


def complaints(asked: Experiment, n_devices: int | None = 3) -> list[str]:
    return [f"{problem.message} | {problem.hint}" for problem in check_flags(asked, {"default": VOCABULARY}, n_devices)]


# Names


def test_an_unknown_flag_is_named_with_its_file_key_and_the_nearest_known_one():
    assert complaints(experiment(a={"n-cpu-moee": 4})) == [
        "x/a.toml: flags.n-cpu-moee: unknown flag | did you mean n-cpu-moe?"
    ]
    assert complaints(experiment({"--ctx-size": 4})) == [
        "x/sweep.toml: flags.--ctx-size: unknown flag | did you mean ctx-size?"
    ]
    (complaint,) = complaints(experiment(a={"zzz": 4}))
    assert "write the long names" in complaint


def test_a_flag_of_the_matrix_is_reported_under_matrix_and_once_for_all_its_combinations():
    asked = experiment(a={"n-cpu-moee": 4}, matrix=("n-cpu-moee",))
    twice = Experiment("x", asked.settings, asked.placements * 2)
    assert complaints(twice) == ["x/a.toml: matrix.n-cpu-moee: unknown flag | did you mean n-cpu-moe?"]


def test_a_fault_of_the_shared_flags_is_reported_once_for_all_placements():
    assert len(complaints(experiment({"nonsense": 1}, a={}, b={}))) == 1


@pytest.mark.parametrize("name", ["n-cpu-moe", "n_cpu_moe"])
def test_underscores_and_dashes_are_one(name):
    asked = experiment(a={name: 4})
    assert complaints(asked) == []
    assert canonical(asked, VOCABULARY).placements[0].flags == {"n-cpu-moe": 4}


def test_a_removed_flag_is_refused_with_what_to_use_instead():
    assert complaints(experiment(a={"draft": 4})) == [
        "x/a.toml: flags.draft: this build has removed the flag | use --spec-draft-n-max"
    ]


@pytest.mark.parametrize(
    ("flag", "remedy"),
    [
        ("port", "leave it out"),
        ("model", 'set model = "..." in sweep.toml'),
        ("alias", 'set model = "..." in sweep.toml'),
        ("rpc", 'set devices = "rpc:3"'),
        ("verbosity", "leave it out"),
        ("log_file", "leave it out"),
        ("ssl-key-file", "leave it out"),
        ("spec-draft-hf", "download the model first"),
        ("mmproj-url", "download the model first"),
        ("no-slots", "leave it out"),
        ("sleep-idle-seconds", "leave it out"),
        ("version", "leave it out"),
    ],
)
def test_a_flag_that_k3prof_sets_itself_is_refused_with_the_remedy(flag, remedy):
    (complaint,) = complaints(experiment(a={flag: True}))
    assert complaint.startswith(f"x/a.toml: flags.{flag}: not yours to set: ")
    assert remedy in complaint


def test_a_flag_whose_name_only_resembles_a_reserved_one_is_not_refused():
    assert complaints(experiment(a={"slot-save-path": "/tmp"})) == []


@pytest.mark.parametrize(
    "flags",
    [
        {"gpu-layers": 1, "n-gpu-layers": 2},
        {"n_cpu_moe": 1, "n-cpu-moe": 2},
        {"kv-offload": True, "no-kv-offload": True},
    ],
)
def test_two_names_of_one_flag_in_one_file_are_refused(flags):
    first, second = flags
    assert complaints(experiment(a=flags)) == [
        f"x/a.toml: flags.{second}: the same flag as {first} | keep one of them: they are two names of one flag"
    ]


def test_a_placement_overrides_a_shared_flag_under_whatever_name():
    asked = canonical(
        experiment({"gpu-layers": 5, "kv-offload": True}, a={"n_gpu_layers": 9, "no-kvo": True}), VOCABULARY
    )
    assert effective_flags(asked.settings, asked.placements[0]) == {"n-gpu-layers": 9, "kv-offload": False}


# Values


@pytest.mark.parametrize(
    "flags",
    [
        {"cpu-moe": True},
        {"kv-offload": False},
        {"no-kv-offload": False},
        {"no-host": True},
        {"fit": "on"},
        {"cpu-strict": 1},
        {"spec-type": "ngram-mod,draft-mtp"},
        {"spec-type": ("ngram-mod", "draft-mtp")},
        {"device": "RPC0,RPC1"},
    ],
)
def test_a_value_where_one_belongs_and_a_bare_switch_where_none_does_are_accepted(flags):
    assert complaints(experiment(a=flags)) == []


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"cpu-moe": 4}, "a switch takes no value | write cpu-moe = true, or leave it out"),
        ({"no-kv-offload": "x"}, "a switch takes no value | write kv-offload = false, or leave it out"),
        ({"cpu-moe": False}, "this switch cannot be turned off | leave it out to keep it off"),
        ({"n-cpu-moe": True}, "a value is missing | write n-cpu-moe = ..."),
        ({"fit": True}, "a value is missing | write one of on, off"),
        ({"fit": "of"}, "this build takes no 'of' here | did you mean off? write one of on, off"),
        ({"cache-type-k": "fp8"}, "this build takes no 'fp8' here | write one of f16, q8_0, q4_0"),
        ({"cpu-strict": 2}, "this build takes no '2' here | write one of 0, 1"),
        ({"spec-type": ("ngram-mod", "eagle")}, "this build takes no 'eagle' here"),
    ],
)
def test_a_value_that_the_build_would_refuse_is_refused_first(flags, complaint):
    (only,) = complaints(experiment(a=flags))
    assert complaint in only


@given(
    st.dictionaries(
        st.sampled_from(
            [name for flag in VOCABULARY.flags for name in (flag.name, *flag.aliases, flag.negative or "x")]
        ),
        st.booleans()
        | st.integers()
        | st.floats()
        | st.text()
        | st.lists(st.integers() | st.text(), min_size=1).map(tuple),
    ),
    st.none() | st.integers(0, 16),
)
def test_any_values_give_readable_problems_and_sound_ones_survive_canonical_names(flags, n_devices):
    asked = experiment(a=flags)
    problems = check_flags(asked, {"default": VOCABULARY}, n_devices)
    assert all(problem.message.isprintable() and problem.hint for problem in problems)
    renamed = canonical(asked, VOCABULARY)
    assert canonical(renamed, VOCABULARY) == renamed
    if not problems:
        assert check_flags(renamed, {"default": VOCABULARY}, n_devices) == []
        assert len(renamed.placements[0].flags) == len(flags)


# Devices


@pytest.mark.parametrize("split", [(1, 1, 1), "1,1,1", "1/1/1", (4, 2), 1, (0.5, 0, "3")])
def test_a_tensor_split_with_at_most_one_share_per_device_is_accepted(split):
    assert complaints(experiment(a={"tensor-split": split}), n_devices=3) == []


@pytest.mark.parametrize("split", [(1, 1, 1, 1), "1,1,1,1", "1/1/1/1"])
def test_a_tensor_split_with_more_shares_than_devices_is_refused(split):
    assert complaints(experiment(a={"tensor-split": split}), n_devices=3) == [
        "x/a.toml: flags.tensor-split: 4 shares for 3 devices | "
        "give at most one share per device, for instance tensor-split = [1, 1, 1]"
    ]
    assert complaints(experiment(a={"tensor-split": split}), n_devices=None) == []


def test_a_tensor_split_counts_the_devices_that_the_placement_names():
    (complaint,) = complaints(experiment({"device": "RPC0,RPC2"}, a={"tensor-split": (1, 1, 1)}), n_devices=3)
    assert "3 shares for 2 devices" in complaint
    (complaint,) = complaints(experiment(a={"tensor-split": (1, 1), "device": "CUDA3"}), n_devices=None)
    assert "2 shares for 1 device |" in complaint


def test_a_tensor_split_without_devices_is_refused():
    (complaint,) = complaints(experiment(a={"tensor-split": (1,)}), n_devices=0)
    assert "there is no device to split over" in complaint


@pytest.mark.parametrize("split", [(1, "x"), (1, -1), "1,,", "nan"])
def test_a_share_that_is_no_number_from_0_up_is_refused(split):
    (complaint,) = complaints(experiment(a={"tensor-split": split}))
    assert "is no share of a model" in complaint


# Slots and context. By hand: tg128@d4096 needs 4096 tokens before, 128 written and one spare, 4225; pp512 one token
# more than it, and one spare.


@pytest.mark.parametrize(
    ("flags", "workloads", "least"),
    [
        ({}, ["tg128@d4096"], 4225),
        ({}, ["tg128", "pp512"], 514),
        ({}, ["tg128@d1000 x4", "pp512"], 4 * 1129),
        ({"parallel": 8}, ["tg128@d1000 x4"], 8 * 1129),
        ({"parallel": 8, "kv-unified": True}, ["tg128@d1000 x4"], 4 * 1129),
        ({"kv_unified": True}, ["tg128 x4", "pp4096"], 4098),
        ({"parallel": -1}, ["tg128 x4"], 4 * 130),
    ],
)
def test_a_context_too_small_for_the_largest_workload_is_refused_with_the_least_that_does(flags, workloads, least):
    assert complaints(experiment({"ctx-size": least}, workloads, a=flags)) == []
    (complaint,) = complaints(experiment({"ctx-size": least - 1}, workloads, a=flags))
    assert complaint.startswith(f"x/sweep.toml: flags.ctx-size: {least - 1} tokens")
    assert complaint.endswith(f"set ctx-size to at least {least}")


def test_a_context_that_the_model_or_a_word_decides_is_not_judged():
    for value in (0, "auto", 1.5):
        assert complaints(experiment(a={"ctx-size": value}, workloads=["tg128@d100000"])) == []


def test_more_streams_than_slots_are_refused():
    (complaint,) = complaints(experiment({"parallel": 2}, ["tg128 x4"], a={}))
    assert complaint == (
        "x/sweep.toml: flags.parallel: 2 slots for a workload of 4 streams | "
        "set parallel to at least 4, or leave it out"
    )
    assert complaints(experiment({"parallel": 4}, ["tg128 x4"], a={})) == []


def test_faults_of_all_files_are_reported_together():
    asked = experiment({"nonsense": 1}, a={"port": 1}, b={"fit": 3, "tensor-split": (1,) * 9}, c={"cpu-moe": True})
    assert [complaint.split(":")[0] for complaint in complaints(asked)] == [
        "x/sweep.toml",
        "x/a.toml",
        "x/b.toml",
        "x/b.toml",
    ]
