from __future__ import annotations

from pathlib import Path

import pytest

from k3prof.core.build import Build
from k3prof.core.flags import Flag, FlagVocabulary
from k3prof.core.trial import FlagValue, Workload
from k3prof.llama.command import deciding_env, measurement_flags, server_argv, server_env
from k3prof.llama.flag_help import read_vocabulary


@pytest.fixture(scope="module")
def vocabulary(build: Build) -> FlagVocabulary:
    return read_vocabulary(Path(build.bin_dir))


def argv(vocabulary: FlagVocabulary, flags: dict[str, FlagValue], endpoints: tuple[str, ...] = ()) -> list[str]:
    return server_argv(
        Path("/b/llama-server"), vocabulary, flags, model=Path("/m.gguf"), endpoints=endpoints, port=1, alias="a"
    )


def test_stand_ins_come_before_everything_that_may_name_them(vocabulary: FlagVocabulary) -> None:
    command = argv(vocabulary, {"device": ("RPC1", "RPC0")}, ("127.0.0.1:1", "127.0.0.1:2"))
    assert command[:3] == ["/b/llama-server", "--rpc", "127.0.0.1:1,127.0.0.1:2"]
    assert command[-2:] == ["--device", "RPC1,RPC0"]


def test_a_switch_is_bare_its_negative_is_the_builds_own_and_a_list_is_joined(vocabulary: FlagVocabulary) -> None:
    command = argv(vocabulary, {"cpu-moe": True, "repack": False, "tensor-split": (3, 1.5), "n-cpu-moe": 4})
    assert "--cpu-moe" in command
    flag = vocabulary.find("repack")
    assert flag is not None
    assert f"--{flag.negative}" in command
    assert command[command.index("--tensor-split") + 1] == "3,1.5"
    assert command[command.index("--n-cpu-moe") + 1] == "4"


def test_the_log_is_asked_for_where_buffers_show(vocabulary: FlagVocabulary) -> None:
    command = argv(vocabulary, {})
    assert command[command.index("--log-verbosity") + 1] == "4"
    assert "--no-ui" in command


def test_an_old_build_gets_only_flags_that_it_knows() -> None:
    old = FlagVocabulary([Flag("threads"), Flag("parallel"), Flag("ctx-size")])
    assert measurement_flags(old, [Workload("tg", 8, streams=4)], has_stand_ins=True) == {"parallel": 4, "threads": 1}
    command = argv(old, {})
    assert "--log-verbosity" not in command
    assert "--no-ui" not in command


def test_measuring_asks_for_a_slot_per_stream_and_nothing_kept_between_requests(vocabulary: FlagVocabulary) -> None:
    flags = measurement_flags(vocabulary, [Workload("tg", 8), Workload("tg", 8, streams=6)], has_stand_ins=False)
    checkpoints = vocabulary.find("ctx-checkpoints")
    assert checkpoints is not None
    assert flags == {
        "fit": "off",
        "parallel": 6,
        "cache-ram": 0,
        "cache-idle-slots": False,
        checkpoints.name: 0,
    }


def test_nothing_in_the_users_environment_can_set_flags_behind_our_back() -> None:
    inherited = {"LLAMA_ARG_N_CPU_MOE": "9", "LLAMA_API_KEY": "x", "PATH": "/bin", "XDG_CONFIG_HOME": "/home/u"}
    env = server_env(inherited, {"CUDA_VISIBLE_DEVICES": "-1"}, {"GGML_X": "1"}, Path("/empty"))
    assert env == {"PATH": "/bin", "XDG_CONFIG_HOME": "/empty", "CUDA_VISIBLE_DEVICES": "-1", "GGML_X": "1"}


def test_inherited_variables_that_llama_cpp_heeds_belong_to_the_trial() -> None:
    inherited = {"GGML_CUDA_P2P": "1", "OMP_NUM_THREADS": "2", "HOME": "/h", "LLAMA_ARG_X": "1"}
    assert deciding_env(inherited, {"OMP_NUM_THREADS": "4"}) == {"GGML_CUDA_P2P": "1", "OMP_NUM_THREADS": "4"}


def test_the_plan_of_the_devices_has_the_last_word_on_which_gpus_the_server_sees() -> None:
    shell = {"CUDA_VISIBLE_DEVICES": "1,0", "CUDA_DEVICE_ORDER": "FASTEST_FIRST", "CUDA_LAUNCH_BLOCKING": "1"}
    plan = {"CUDA_VISIBLE_DEVICES": "GPU-bbbb,GPU-aaaa", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    trial = deciding_env(shell, {})
    assert trial == {"CUDA_LAUNCH_BLOCKING": "1"}
    env = server_env(shell, plan, {**trial, "CUDA_VISIBLE_DEVICES": "0"}, Path("/empty"))
    assert {name: env[name] for name in plan} == plan
