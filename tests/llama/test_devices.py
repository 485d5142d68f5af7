from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from k3prof.core.build import Build
from k3prof.core.device import HOST, Device, DeviceKind
from k3prof.errors import ConfigError, MachineError
from k3prof.llama.devices import free_port, list_devices, listens, plan_devices, running_devices
from tests.llama.test_child import eventually, is_running

GPUS = [
    Device("CUDA0", DeviceKind.CUDA, "NVIDIA A40", 46068 * 2**20, "GPU-aaaa", "00000000:41:00.0"),
    Device("CUDA1", DeviceKind.CUDA, "NVIDIA A40", 46068 * 2**20, "GPU-bbbb", "00000000:C1:00.0"),
]


def build_that_lists(folder: Path, lines: list[str]) -> Build:
    """A build whose server lists these devices, if it is given both GPUs in the order of their PCI addresses."""
    server = folder / "llama-server"
    listing = "\n".join(["Available devices:", *lines])
    server.write_text(
        f'#!/bin/sh\n[ "$CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES" = "PCI_BUS_ID GPU-aaaa,GPU-bbbb" ] || exit 3\n'
        f"cat <<'END'\n{listing}\nEND\n"
    )
    server.chmod(server.stat().st_mode | stat.S_IXUSR)
    return Build("fake", str(folder), "", "", "", (), "", "0" * 64, True)


def cuda(index: int, mib: int = 46068) -> str:
    return f"  CUDA{index}: NVIDIA A40 ({mib} MiB, {mib - 500} MiB free)"


def test_auto_takes_the_gpus_that_the_driver_and_the_build_both_have(tmp_path: Path) -> None:
    plan = plan_devices("auto", build_that_lists(tmp_path, [cuda(0), cuda(1)]), GPUS)
    assert plan.devices == (*GPUS, HOST)
    assert plan.identity == ("GPU-aaaa", "GPU-bbbb")
    assert plan.env == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "GPU-aaaa,GPU-bbbb"}
    assert plan.notice == ""


def test_gpus_that_the_build_cannot_use_are_never_silently_left_idle(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="2 NVIDIA GPUs are here, but build 'fake' cannot use CUDA") as caught:
        plan_devices("auto", build_that_lists(tmp_path, []), GPUS)
    assert "k3prof build --cuda" in caught.value.hint


def test_a_gpu_that_only_the_driver_sees_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="the driver lists 2 GPUs, build 'fake' lists 1"):
        plan_devices("auto", build_that_lists(tmp_path, [cuda(0)]), GPUS)


def test_virtual_devices_carry_no_identity_that_a_counter_could_be_read_by(tmp_path: Path) -> None:
    plan = plan_devices("auto", build_that_lists(tmp_path, [cuda(n, 23034) for n in range(4)]), GPUS)
    assert [device.name for device in plan.devices] == ["CUDA0", "CUDA1", "CUDA2", "CUDA3", "CPU"]
    assert all(device.uuid is None for device in plan.devices)
    assert plan.devices[0].memory_bytes == 23034 * 2**20
    assert "unknown" in plan.notice


def test_without_gpus_auto_says_that_it_takes_stand_ins(build: Build) -> None:
    plan = plan_devices("auto", build, [])
    assert [device.name for device in plan.devices] == ["RPC0", "RPC1", "RPC2", "CPU"]
    assert "3 stand-in devices" in plan.notice
    assert plan.identity == plan_devices("rpc:3", build, []).identity


@pytest.mark.parametrize("text", ["rpc:1", "rpc:16", "rpc:0", "rpc:", "gpu", "", "rpc:3x", "AUTO"])
def test_devices_that_are_none_are_refused(build: Build, text: str) -> None:
    with pytest.raises(ConfigError, match="devices: "):
        plan_devices(text, build, [])


def test_the_host_alone_is_the_only_device_of_cpu(build: Build) -> None:
    assert plan_devices("cpu", build, GPUS).devices == (HOST,)


def test_a_build_without_cuda_lists_no_gpu(build: Build) -> None:
    assert list_devices(build, {}) == []


@pytest.mark.server
def test_stand_ins_listen_one_thread_each_pinned_and_are_gone_afterwards(build: Build, tmp_path: Path) -> None:
    with running_devices(plan_devices("rpc:4", build, []), build, tmp_path) as devices:
        assert list(devices.pids) == ["RPC0", "RPC1", "RPC2", "RPC3"]
        assert len(set(devices.endpoints)) == 4
        for pid, endpoint in zip(devices.pids.values(), devices.endpoints, strict=True):
            host, port = endpoint.split(":")
            (listening,) = (one for one in psutil.Process(pid).net_connections("tcp") if one.status == "LISTEN")
            assert listening.laddr == (host, int(port)) == ("127.0.0.1", int(port))
            assert len(os.sched_getaffinity(pid)) == 1
    assert eventually(lambda: not any(is_running(pid) for pid in devices.pids.values()))


@pytest.mark.server
def test_a_stand_in_that_dies_at_once_is_one_clear_error_and_leaves_no_other(build: Build, tmp_path: Path) -> None:
    server = tmp_path / "ggml-rpc-server"
    server.write_text("#!/bin/sh\necho 'illegal weather' >&2\nexit 4\n")
    server.chmod(0o755)
    broken = replace(build, bin_dir=str(tmp_path))
    with (
        pytest.raises(MachineError, match="did not start: illegal weather"),
        running_devices(plan_devices("rpc:2", build, []), broken, tmp_path),
    ):
        pytest.fail("must not be reached")


def test_a_free_port_is_one_that_nobody_listens_on() -> None:
    assert not listens(os.getpid(), free_port())
