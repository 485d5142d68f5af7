from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pynvml
import pytest

from k3prof.collectors.host_facts import host_facts
from k3prof.core.machine.diagnosis import Diagnosis, Finding, Level
from k3prof.core.machine.host_bandwidth import BandwidthReading, HostBandwidth
from k3prof.errors import ConfigError
from k3prof.llama.build import PROGRAMS, use_build
from k3prof.llama.cache import cache_dir
from k3prof.reporters.findings import as_json
from k3prof.store.bandwidth import write_bandwidth
from k3prof.workflows.bandwidth import bandwidth_path
from k3prof.workflows.doctor import diagnose
from tests.doubles.nvml import FakeGpu, FakeNvml, installed


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """A cache and a working folder of our own, and no driver whatever this machine has."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with installed(FakeNvml([])):
        yield


def about(diagnosis: Diagnosis, subject: str) -> list[Finding]:
    return [finding for finding in diagnosis.findings if finding.subject == subject]


def test_with_a_real_build_a_sweep_can_run_on_stand_ins(build):
    found = diagnose(build.bin_dir)
    assert found.can_sweep
    (told,) = about(found, "build")
    assert (told.level, build.version in told.message) == (Level.OK, True)
    assert "3 stand-in devices" in about(found, "devices")[0].message
    assert about(found, "splits")[0].level is Level.OK
    assert found.gpus == []
    levels = [finding.level for finding in found.findings]
    assert levels == sorted(levels, key=list(Level).index)
    assert all(finding.remedy for finding in found.findings if finding.level is not Level.OK)


def test_without_a_build_a_sweep_cannot_run_and_the_remedy_is_to_make_one():
    found = diagnose()
    assert not found.can_sweep
    (problem,) = found.of(Level.PROBLEM)
    assert problem.subject == "build"
    assert "k3prof build" in problem.remedy
    assert not about(found, "splits")


def test_without_a_build_and_a_compiler_the_compiler_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    assert [finding.subject for finding in diagnose().of(Level.PROBLEM)] == ["compiler", "build"]


def test_gpus_that_the_build_cannot_use_stand_in_the_way(build):
    if "-DGGML_CUDA=ON" in build.cmake_flags:
        pytest.skip("this build can use CUDA")
    gpus = [FakeGpu(f"GPU-{index}", bus=index + 1) for index in range(2)]
    with installed(FakeNvml(gpus)):
        found = diagnose(build.bin_dir)
    assert "2 × NVIDIA A40 with 48.3 GB" in about(found, "GPUs")[0].message
    (problem,) = about(found, "devices")
    assert problem.level is Level.PROBLEM
    assert "cannot use CUDA" in problem.message
    assert "k3prof build --cuda" in problem.remedy


_CUDA_SERVER = """#!/bin/sh
case "$1" in
--version) echo "version: 0.5.0-dev (build 1, commit 0c1e570)" ;;
--list-devices) for i in 0 1 2 3 4; do echo "  CUDA$i: NVIDIA A40 (45403 MiB, 45000 MiB free)"; done ;;
esac
"""


def test_gpus_that_the_build_drives_are_what_auto_means(tmp_path):
    """A build that says it sees five GPUs: nothing else is asked of it before a sweep starts."""
    for program in PROGRAMS:
        (tmp_path / program).write_text(_CUDA_SERVER)
        (tmp_path / program).chmod(0o755)
    with installed(FakeNvml([FakeGpu(f"GPU-{index}", bus=index + 1) for index in range(5)])):
        found = diagnose(str(tmp_path))
    assert found.can_sweep
    assert about(found, "devices")[0].message == "auto is CUDA0, CUDA1, CUDA2, CUDA3, CUDA4, CPU"
    assert "busy share over 167 ms" in about(found, "counters")[0].message
    assert [gpu.name for gpu in found.gpus] == ["CUDA0", "CUDA1", "CUDA2", "CUDA3", "CUDA4"]
    (splits,) = about(found, "splits")
    assert (splits.level, "static" in splits.message) == (Level.NOTE, True)


def test_the_ways_between_gpus_are_told_and_nothing_of_them_without_gpus(build):
    def pairs_on_a_switch(one: FakeGpu, other: FakeGpu) -> int:
        return pynvml.NVML_TOPOLOGY_SINGLE if one.bus // 2 == other.bus // 2 else pynvml.NVML_TOPOLOGY_NODE

    gpus = [FakeGpu(f"GPU-{index}", bus=index) for index in range(5)]
    with installed(FakeNvml(gpus, topology=pairs_on_a_switch, peer_accesses=(0, 1))):
        found = diagnose(build.bin_dir)
    assert [finding.message for finding in about(found, "GPU paths")] == [
        "CUDA0–CUDA1, CUDA2–CUDA3: over one PCIe switch (PIX); peer access: reads, writes",
        "the other 8 pairs: within one NUMA node (NODE); peer access: reads, writes",
    ]
    assert len(json.loads(as_json(found))["gpu_paths"]) == 10
    assert about(diagnose(build.bin_dir), "GPU paths") == []


def test_a_visibility_that_names_no_gpu_for_certain_stands_in_the_way(build):
    with installed(FakeNvml([FakeGpu("GPU-1", bus=1), FakeGpu("GPU-2", bus=2)])):
        found = diagnose(build.bin_dir, env={"CUDA_VISIBLE_DEVICES": "1,0", "HOME": "/"})
    (problem,) = found.of(Level.PROBLEM)
    assert problem.subject == "GPUs"
    assert "CUDA_VISIBLE_DEVICES" in problem.message


def test_other_builds_are_told_and_one_that_is_gone_is_a_note(build, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(build.bin_dir, copy, symlinks=True)
    use_build(copy, "copied")
    use_build(Path(build.bin_dir), "kept")
    shutil.rmtree(copy)
    levels = {finding.message.partition(":")[0]: finding.level for finding in about(diagnose("kept"), "build")}
    assert levels == {"kept": Level.OK, "copied": Level.NOTE}


def test_a_register_that_cannot_be_read_is_a_note(build):
    broken = cache_dir() / "builds" / "broken.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    found = diagnose(build.bin_dir)
    assert found.can_sweep
    assert [str(broken) in finding.message for finding in about(found, "build")] == [True, False]


def test_a_model_is_held_against_the_memory_that_is_free(build, tmp_path):
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("token_embd.weight", np.ones((64, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (finding,) = about(diagnose(build.bin_dir, model=str(path)), "model")
    assert finding.level is Level.OK
    assert "of memory free" in finding.message


def test_a_model_that_is_not_there_is_the_users_mistake(tmp_path):
    with pytest.raises(ConfigError, match=r"missing\.gguf"):
        diagnose(model=str(tmp_path / "missing.gguf"))


def test_flags_in_the_environment_are_told(build):
    found = diagnose(build.bin_dir, env={**os.environ, "LLAMA_ARG_CTX_SIZE": "99"})
    assert "LLAMA_ARG_CTX_SIZE" in about(found, "hidden flags")[0].message


def test_a_folder_in_which_no_trace_can_be_written_stands_in_the_way(build, tmp_path):
    if os.geteuid() == 0:
        # Root may write anywhere; a file in the place of the folder stops it as well.
        Path("traces").touch()
    else:
        (tmp_path / "work").chmod(0o500)
    found = diagnose(build.bin_dir)
    (problem,) = found.of(Level.PROBLEM)
    assert problem.subject == "disk"


def test_another_server_that_runs_already_is_told_with_its_pid():
    with subprocess.Popen(["llama-server", "1000"], executable="/bin/sleep") as process:
        found = diagnose()
        process.kill()
    assert any(str(process.pid) in finding.remedy for finding in about(found, "servers"))


def test_a_bandwidth_that_was_measured_here_is_known_and_one_from_another_machine_is_not():
    facts = host_facts()
    here = HostBandwidth(facts.cpu_model, facts.cores_usable, 1 << 30, 0, (BandwidthReading(1, (17.0,)),))
    assert about(diagnose(), "bandwidth")[0].level is Level.NOTE
    write_bandwidth(bandwidth_path(), here)
    found = diagnose()
    assert found.bandwidth == here
    assert about(found, "bandwidth")[0].level is Level.OK
    write_bandwidth(bandwidth_path(), replace(here, cpu_model="another"))
    assert diagnose().bandwidth is None


def test_a_kept_bandwidth_that_cannot_be_read_is_a_note():
    write_bandwidth(bandwidth_path(), HostBandwidth(None, None, 0, 0, ()))
    (finding,) = about(diagnose(), "bandwidth")
    assert finding.level is Level.NOTE
    assert str(bandwidth_path()) in finding.message
