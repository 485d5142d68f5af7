from __future__ import annotations

from pathlib import Path

import pytest

from k3prof.core.device import Device, DeviceKind
from k3prof.errors import ConfigErrors, MachineError
from k3prof.store.config import Overrides
from k3prof.workflows import used_builds
from k3prof.workflows.rig import PreparedSweep, prepare
from tests.doubles.scripted_build import script_build

SWEEP = 'model = "demo:k3-tiny"\ndevices = "rpc:2"\nbuild = "./plain"\nworkloads = ["tg8"]\n'
GPUS = [
    Device("CUDA0", DeviceKind.CUDA, "NVIDIA A40", 46068 * 2**20, "GPU-aaaa", "00000000:41:00.0"),
    Device("CUDA1", DeviceKind.CUDA, "NVIDIA A40", 46068 * 2**20, "GPU-bbbb", "00000000:C1:00.0"),
]


def cuda(index: int) -> str:
    return f"CUDA{index}: NVIDIA A40 (46068 MiB, 45000 MiB free)"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of two GPUs."""
    monkeypatch.setattr(used_builds, "list_gpus", lambda: GPUS)


def write(sweep: str = SWEEP, **placements: str) -> Path:
    folder = Path("mine")
    folder.mkdir(exist_ok=True)
    (folder / "sweep.toml").write_text(sweep)
    for name, text in placements.items():
        (folder / f"{name}.toml").write_text(text)
    return folder


def ready(folder: Path, build: str | None = None) -> PreparedSweep:
    return prepare(folder, Overrides(build=build), {})


def problems(folder: Path) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        ready(folder)
    return [f"{problem.message} | {problem.hint}" for problem in caught.value.problems]


def programs(prepared: PreparedSweep) -> dict[str, str]:
    """The folder of the server that each placement would start."""
    return {
        spec.placement: Path(prepared.rigs[spec.placement].argv(spec, (), "PORT", "ALIAS")[0]).parent.name
        for spec in prepared.specs
    }


def test_placements_may_differ_in_nothing_but_the_build() -> None:
    script_build(Path("plain"))
    script_build(Path("fused"), ["fuse"])
    prepared = ready(write(a='build = "./fused"', b="", c='build = "./fused"\n[flags]\nctx-size = 64'))
    assert programs(prepared) == {"a": "fused", "b": "plain", "c": "fused"}
    assert [spec.placement for spec in prepared.specs] == ["a", "b", "c"]
    assert [build.name for build in prepared.builds] == ["./fused", "./plain"]
    fused, plain, _ = prepared.specs
    assert fused.build != plain.build
    assert fused.configuration != plain.configuration
    assert (fused.flags, fused.env, fused.devices, fused.model) == (plain.flags, plain.env, plain.devices, plain.model)
    assert prepared.predicted["a"]
    assert prepared.predicted["a"] == prepared.predicted["b"]
    assert prepared.notices == ()


def test_the_command_line_replaces_the_shared_build_and_leaves_a_placements_own() -> None:
    for name in ("plain", "fused", "other"):
        script_build(Path(name), [name])
    folder = write(a='build = "./fused"', b="")
    assert programs(ready(folder, build="./other")) == {"a": "fused", "b": "other"}


def test_a_build_that_no_placement_runs_on_need_not_be_there() -> None:
    script_build(Path("fused"))
    assert programs(ready(write(a='build = "./fused"'))) == {"a": "fused"}


def test_each_placements_flags_are_those_of_its_own_build() -> None:
    script_build(Path("plain"))
    script_build(Path("fused"), ["fuse"])
    folder = write(a='build = "./fused"\n[flags]\nfuse = 2', b="[flags]\nfuse = 2")
    assert problems(folder) == [
        "mine/b.toml: flags.fuse: unknown flag | write the long names that this build's `llama-server --help` lists, "
        "without the leading dashes"
    ]


def test_each_placements_flags_go_by_the_names_of_its_own_build() -> None:
    script_build(Path("plain"), ["context, --n-ctx"])
    script_build(Path("fused"), ["n-ctx, --context"])
    prepared = ready(write(SWEEP + "[flags]\nn-ctx = 64\n", a='build = "./fused"', b=""))
    assert [dict(spec.flags) for spec in prepared.specs] == [{"context": 64}, {"n-ctx": 64}]


def test_a_shared_flag_that_only_one_build_lacks_is_told_with_its_name() -> None:
    script_build(Path("plain"))
    script_build(Path("fused"), ["fuse"])
    assert problems(write(SWEEP + "[flags]\nfuse = 2\nfuze = 1\n", a='build = "./fused"', b="")) == [
        "mine/sweep.toml: flags.fuze: unknown flag | did you mean fuse?",
        "mine/sweep.toml: flags.fuse: unknown flag (build './plain') | move it to the placements whose builds "
        "understand it",
    ]


def test_a_build_that_is_not_there_is_told_with_the_file_that_names_it() -> None:
    script_build(Path("plain"))
    folder = write(a='build = "fused"', b="", c='build = "./nowhere"')
    told = problems(folder)
    assert [one.split(" | ")[0] for one in told] == [
        "mine/a.toml: build: no build is called 'fused'",
        "mine/c.toml: build: nowhere: no such file or folder",
    ]


def test_two_builds_of_the_same_code_are_told_before_anybody_waits_for_the_difference() -> None:
    script_build(Path("plain"))
    script_build(Path("copy"))
    (notice,) = ready(write(a='build = "./copy"', b="")).notices
    assert notice == "builds './copy' and './plain' are the same code: comparing them would show noise alone"


@pytest.mark.usefixtures("gpus")
def test_gpus_that_one_of_the_builds_cannot_use_are_refused_with_its_name() -> None:
    script_build(Path("plain"))
    script_build(Path("cuda"), devices=[cuda(0), cuda(1)])
    folder = write(SWEEP.replace("rpc:2", "auto"), a='build = "./cuda"', b="")
    with pytest.raises(MachineError, match=r"2 NVIDIA GPUs are here, but build '\./plain' cannot use CUDA"):
        ready(folder)


@pytest.mark.usefixtures("gpus")
def test_builds_that_see_other_devices_are_refused() -> None:
    script_build(Path("plain"), devices=[cuda(0), cuda(1)])
    script_build(Path("four"), devices=[cuda(index) for index in range(4)])
    folder = write(SWEEP.replace("rpc:2", "auto"), a='build = "./four"', b="")
    with pytest.raises(MachineError) as caught:
        ready(folder)
    assert caught.value.message == (
        "build './four' sees CUDA0, CUDA1, CUDA2, CUDA3, CPU, build './plain' sees CUDA0, CUDA1, CPU: their placements "
        "cannot be compared"
    )
    assert "--devices rpc:3" in caught.value.hint


@pytest.mark.usefixtures("gpus")
def test_builds_that_see_the_same_gpus_share_them() -> None:
    script_build(Path("plain"), devices=[cuda(0), cuda(1)])
    script_build(Path("fused"), ["fuse"], devices=[cuda(0), cuda(1)])
    prepared = ready(write(SWEEP.replace("rpc:2", "auto"), a='build = "./fused"', b=""))
    assert {spec.devices for spec in prepared.specs} == {("GPU-aaaa", "GPU-bbbb")}
