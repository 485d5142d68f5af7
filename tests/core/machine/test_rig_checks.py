from __future__ import annotations

from dataclasses import replace

import pytest

from k3prof.core.build import Build
from k3prof.core.device import HOST, Device, DeviceKind
from k3prof.core.machine.diagnosis import Level
from k3prof.core.machine.host_bandwidth import BandwidthReading, HostBandwidth
from k3prof.core.machine.rig_checks import (
    BuildState,
    HiddenSettings,
    Obstacles,
    Space,
    chosen_build,
    counters,
    devices,
    gpus,
    hidden_settings,
    host_bandwidth,
    op_profile,
    other_build,
    space,
    split_tracer,
    toolchain,
)
from k3prof.errors import MachineError

BUILD = Build(
    "default", "/b/bin", "0.5.0-dev (build 1, commit 0c1e570)", "0c1e570", "GNU", (), "sdist", "ab" * 32, True
)
NO_COMPILER = MachineError("no C compiler here", "install one")
A40S = [Device(f"CUDA{i}", DeviceKind.CUDA, "NVIDIA A40", 46068 << 20, f"GPU-{i}") for i in range(5)]


def test_a_whole_build_is_told_with_its_version():
    finding = chosen_build(BuildState(BUILD), {"ggml-rpc-server"})
    assert finding.level is Level.OK
    assert finding.message == f"default: llama.cpp {BUILD.version}, unchanged, shared libraries"


@pytest.mark.parametrize(
    ("needed", "level"), [({"ggml-rpc-server"}, Level.PROBLEM), (set(), Level.NOTE)], ids=["stand-ins", "GPUs"]
)
def test_a_missing_program_is_a_problem_only_when_the_devices_need_it(needed, level):
    finding = chosen_build(BuildState(BUILD, ("ggml-rpc-server", "llama-bench")), needed)
    assert finding.level is level
    assert "lacks ggml-rpc-server, llama-bench" in finding.message
    assert finding.remedy


@pytest.mark.parametrize(
    ("state", "level", "said"),
    [
        (BuildState(BUILD), Level.OK, "unchanged"),
        (BuildState(BUILD, unchanged=False), Level.NOTE, "changed or are gone"),
        (BuildState(BUILD, ("llama-bench",)), Level.NOTE, "lacks llama-bench"),
    ],
)
def test_other_builds_never_stand_in_the_way(state, level, said):
    finding = other_build(state)
    assert finding.level is level
    assert said in finding.message


@pytest.mark.parametrize(
    ("obstacles", "has_build", "wants_cuda", "level"),
    [
        (Obstacles(), True, False, Level.OK),
        (Obstacles(compiling=NO_COMPILER), True, False, Level.NOTE),
        (Obstacles(compiling=NO_COMPILER), False, False, Level.PROBLEM),
        (Obstacles(compiling_cuda=NO_COMPILER), True, False, Level.OK),
        (Obstacles(compiling_cuda=NO_COMPILER), True, True, Level.NOTE),
        (Obstacles(compiling_cuda=NO_COMPILER), False, True, Level.PROBLEM),
    ],
)
def test_a_missing_compiler_is_a_problem_only_without_a_build_that_drives_the_devices(
    obstacles, has_build, wants_cuda, level
):
    (finding,) = toolchain(obstacles, has_build=has_build, wants_cuda=wants_cuda)
    assert finding.level is level
    assert bool(finding.remedy) is (level is not Level.OK)


def test_gpus_are_told_by_kind_with_their_memory_and_driver():
    finding = gpus([*A40S, replace(A40S[0], description="NVIDIA L4", memory_bytes=None)], "550.54.15")
    assert finding is not None
    assert finding.message == "5 × NVIDIA A40 with 48.3 GB, 1 × NVIDIA L4 with unknown memory; driver 550.54.15"
    assert gpus([], None) is None


def test_devices_are_what_auto_means_here():
    assert devices([*A40S[:2], HOST], "").message == "auto is CUDA0, CUDA1, CPU"
    assert devices([HOST], "3 stand-ins instead").message == "3 stand-ins instead"


@pytest.mark.parametrize(
    ("build", "obstacles", "level", "said"),
    [
        (BUILD, Obstacles(), Level.OK, "can be traced"),
        (replace(BUILD, shared_libraries=False), Obstacles(), Level.NOTE, "static"),
        (BUILD, Obstacles(compiling=NO_COMPILER), Level.NOTE, "no C compiler here"),
    ],
)
def test_tracing_splits_needs_shared_libraries_and_a_compiler(build, obstacles, level, said):
    finding = split_tracer(build, obstacles)
    assert finding.level is level
    assert said in finding.message
    assert bool(finding.remedy) is (level is not Level.OK)


def test_what_cannot_be_measured_is_a_note_and_no_problem():
    obstacles = Obstacles(loading_library=MachineError("no llama_cpp", "install it"), tick=MachineError("no tick", "x"))
    assert op_profile(obstacles).level is Level.NOTE
    assert counters(None, obstacles).level is Level.NOTE
    assert op_profile(Obstacles()).level is counters(None, Obstacles()).level is Level.OK


def test_the_counters_of_gpus_tell_what_they_average_over():
    assert "busy share over 167 ms" in counters(166_666_667, Obstacles()).message


def test_flags_that_nobody_sees_are_told():
    findings = list(
        hidden_settings(HiddenSettings("/etc/llama.cpp/config.ini", "/h/config.ini", ("LLAMA_ARG_THREADS",)))
    )
    assert [finding.level for finding in findings] == [Level.WARNING, Level.NOTE, Level.NOTE]
    assert "/etc/llama.cpp/config.ini" in findings[0].remedy
    assert "LLAMA_ARG_THREADS" in findings[2].message
    assert all(finding.remedy for finding in findings)
    assert list(hidden_settings(HiddenSettings())) == []


@pytest.mark.parametrize(
    ("free_bytes", "writable", "vital", "level"),
    [
        (50 << 30, True, True, None),
        (10 << 20, True, True, Level.WARNING),
        (50 << 30, False, True, Level.PROBLEM),
        (50 << 30, False, False, Level.NOTE),
    ],
)
def test_space_matters_when_it_is_short_or_closed(free_bytes, writable, vital, level):
    finding = space(Space("/x/traces", "traces", free_bytes, writable, vital, "go elsewhere"))
    assert (finding and finding.level) is level
    if finding is not None:
        assert "/x/traces" in finding.message
        assert "go elsewhere" in finding.remedy


def test_an_unmeasured_or_unsteady_bandwidth_asks_for_a_measurement():
    steady = HostBandwidth("cpu", 2, 1 << 30, 0, (BandwidthReading(1, (17.0, 16.9)), BandwidthReading(2, (33.5, 33.0))))
    shaky = replace(steady, readings=(BandwidthReading(1, (10.0, 17.0)),))
    assert host_bandwidth(steady).level is Level.OK
    assert host_bandwidth(steady).message == "host memory: 33.5 GB/s (measured), 2 threads reach it"
    assert host_bandwidth(shaky).level is Level.NOTE
    assert "differ by 41%" in host_bandwidth(shaky).message
    assert "--bandwidth" in host_bandwidth(shaky).remedy
    assert "--bandwidth" in host_bandwidth(None).remedy
