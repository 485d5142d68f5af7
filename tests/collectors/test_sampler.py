from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from k3prof.collectors.nvml import list_gpus
from k3prof.collectors.sampler import GPUS, MACHINE, Sampler, SamplerPlan, start_sampler
from k3prof.core.timeline import Counter, Series, busy_share
from tests.doubles.busy import ASLEEP, DUTY_CYCLE, ENDED_THREAD, next_account, running

PATIENCE_S = 30.0


def joined(samples: list[Series], device: str, counter: Counter) -> Series:
    parts = [series for series in samples if (series.device, series.counter) == (device, counter)]
    assert parts, f"no samples of {device} {counter}"
    time_ns, value = (np.concatenate([getattr(part, name) for part in parts]) for name in ("time_ns", "value"))
    return Series(device, counter, parts[0].period_ns, time_ns, value)


def poll_until(sampler: Sampler, samples: list[Series], condition: Callable[[list[Series]], bool]) -> None:
    """Add what the sampler has seen to `samples` until it is enough."""
    give_up_s = time.monotonic() + PATIENCE_S
    while not condition(samples):
        assert time.monotonic() < give_up_s, "the sampler never saw it"
        time.sleep(0.05)
        samples += sampler.poll()


def seen(device: str, counter: Counter, after_ns: int = 0) -> Callable[[list[Series]], bool]:
    def condition(samples: list[Series]) -> bool:
        return any(
            (series.device, series.counter) == (device, counter) and series.time_ns[-1] > after_ns for series in samples
        )

    return condition


def errors(samples: list[Series], device: str) -> float:
    return joined(samples, device, Counter.READ_ERRORS).value[-1]


def deadlines_ns(late: Series) -> NDArray[np.int64]:
    return late.time_ns - late.value.astype(np.int64)


def unexplained_gaps(late: Series) -> int:
    """Return how many deadlines have no sample although no sample before them was so late as to pass them over."""
    passed = np.diff(deadlines_ns(late)) // late.period_ns - 1
    return int(np.count_nonzero(passed != late.value[:-1] // late.period_ns))


def test_busy_shares_are_those_that_the_processes_account_for_themselves():
    with running(DUTY_CYCLE) as first, running(DUTY_CYCLE) as second:
        plan = SamplerPlan((("RPC0", first.pid), ("RPC1", second.pid)))
        with start_sampler(plan) as sampler:
            samples: list[Series] = []
            poll_until(sampler, samples, seen("RPC1", Counter.CPU_TIME_NS))
            begun_ns = time.monotonic_ns()
            accounts: list[list[tuple[int, int]]] = [[], []]
            for child, account in zip((first, second), accounts, strict=True):
                while not account or account[-1][0] < begun_ns + 2_000_000_000:
                    account.append(next_account(child))
            poll_until(sampler, samples, seen("RPC1", Counter.CPU_TIME_NS, max(a[-1][0] for a in accounts)))
            samples += sampler.stop()
            assert sampler.failures == ()
    for device, account in zip(("RPC0", "RPC1"), accounts, strict=True):
        (begin_ns, begin_spent_ns), *_, (end_ns, end_spent_ns) = [one for one in account if one[0] >= begun_ns]
        expected = (end_spent_ns - begin_spent_ns) / (end_ns - begin_ns)
        series = joined(samples, device, Counter.CPU_TIME_NS)
        assert busy_share(series, begin_ns, end_ns) == pytest.approx(expected, abs=0.01)
        assert 0.05 < expected <= 0.4
        assert errors(samples, device) == 0


def test_deadlines_do_not_drift_and_every_sample_tells_its_lateness():
    with running(ASLEEP) as child, start_sampler(SamplerPlan((("CPU", child.pid),))) as sampler:
        samples: list[Series] = []
        poll_until(sampler, samples, seen("CPU", Counter.CPU_TIME_NS))
        poll_until(sampler, samples, seen("CPU", Counter.CPU_TIME_NS, time.monotonic_ns() + 1_000_000_000))
        samples += sampler.stop()
    late = joined(samples, MACHINE, Counter.LATENESS_NS)
    assert len(set((deadlines_ns(late) % late.period_ns).tolist())) == 1
    assert unexplained_gaps(late) == 0
    assert late.time_ns.tolist() == joined(samples, "CPU", Counter.CPU_TIME_NS).time_ns.tolist()


def test_memory_faults_and_the_host_are_sampled_beside_processor_time():
    with running(ASLEEP) as child, start_sampler(SamplerPlan((("CPU", child.pid),))) as sampler:
        samples: list[Series] = []
        for device, counter in [
            ("CPU", Counter.MEMORY_BYTES),
            ("CPU", Counter.MAJOR_FAULTS),
            ("host", Counter.HOST_CPU_FRAC),
            ("host", Counter.HOST_AVAILABLE_BYTES),
        ]:
            poll_until(sampler, samples, seen(device, counter))
    assert joined(samples, "CPU", Counter.MEMORY_BYTES).value[0] > 1 << 20
    assert 0 <= joined(samples, "host", Counter.HOST_CPU_FRAC).value[0] <= 1


def test_a_process_that_dies_becomes_unknown_and_the_others_go_on():
    with running(ASLEEP) as dying, running(ENDED_THREAD) as living:
        plan = SamplerPlan((("RPC0", dying.pid), ("RPC1", living.pid)), memory_interval_ns=100_000_000)
        with start_sampler(plan) as sampler:
            samples: list[Series] = []
            poll_until(sampler, samples, seen("RPC0", Counter.CPU_TIME_NS))
            # Unreaped: it keeps its pid, and its processor clock stands still.
            dying.kill()
            poll_until(sampler, samples, lambda so_far: errors(so_far, "RPC0") > 0)
            unknown_ns = time.monotonic_ns()
            poll_until(sampler, samples, seen("RPC1", Counter.CPU_TIME_NS, unknown_ns + 500_000_000))
            samples += sampler.stop()
            assert sampler.failures == ()
    assert joined(samples, "RPC0", Counter.CPU_TIME_NS).time_ns[-1] < unknown_ns
    assert errors(samples, "RPC1") == 0


def test_a_pid_that_does_not_exist_is_unknown_from_the_start():
    with running(ASLEEP) as child:
        child.kill()
        child.wait()
        with start_sampler(SamplerPlan((("RPC0", child.pid),))) as sampler:
            samples: list[Series] = []
            poll_until(sampler, samples, lambda so_far: so_far != [] and errors(so_far, "RPC0") > 0)
            samples += sampler.stop()
    assert not any(series.device == "RPC0" and series.counter is Counter.CPU_TIME_NS for series in samples)


def test_nothing_is_lost_while_nobody_polls():
    devices = tuple((f"RPC{number}", os.getpid()) for number in range(60))
    with start_sampler(SamplerPlan(devices)) as sampler:
        samples: list[Series] = []
        poll_until(sampler, samples, seen("RPC59", Counter.CPU_TIME_NS))
        # Far more than the connection holds (60 counters of 16 bytes, 250 times a second).
        time.sleep(2.5)
        samples += sampler.stop()
        assert sampler.failures == ()
    late = joined(samples, MACHINE, Counter.LATENESS_NS)
    assert unexplained_gaps(late) == 0
    assert late.time_ns[-1] - late.time_ns[0] > 2_000_000_000
    for device, _ in devices:
        assert joined(samples, device, Counter.CPU_TIME_NS).time_ns.tolist() == late.time_ns.tolist()


def test_stopping_twice_is_stopping_once_and_leaves_no_process():
    sampler = start_sampler(SamplerPlan((("CPU", os.getpid()),)))
    samples: list[Series] = []
    poll_until(sampler, samples, seen("CPU", Counter.CPU_TIME_NS))
    stopped_ns = time.monotonic_ns()
    rest = sampler.stop()
    assert joined(samples + rest, "CPU", Counter.CPU_TIME_NS).time_ns[-1] > stopped_ns - 500_000_000
    assert sampler.stop() == []
    assert sampler.poll() == []
    assert sampler.failures == ()
    assert not any(is_running(pid) for pid in sampler.pids)


def test_a_sampler_that_crashes_is_reported_and_what_it_had_seen_is_kept():
    sampler = start_sampler(SamplerPlan((("CPU", os.getpid()),)))
    samples: list[Series] = []
    poll_until(sampler, samples, seen("CPU", Counter.CPU_TIME_NS))
    os.kill(sampler.pids[0], signal.SIGSEGV)
    poll_until(sampler, samples, lambda _: sampler.failures != ())
    (failure,) = sampler.failures
    assert failure.startswith(f"{MACHINE}: ended early")
    assert str(-signal.SIGSEGV) in failure
    assert sampler.stop() == []
    assert len(sampler.failures) == 1


def test_a_sampler_takes_no_notice_of_the_terminals_interrupt():
    with start_sampler(SamplerPlan((("CPU", os.getpid()),))) as sampler:
        assert [os.getsid(pid) for pid in sampler.pids] == list(sampler.pids)


def test_gpus_that_cannot_be_watched_do_not_stop_the_rest():
    if list_gpus():
        pytest.skip("this machine has an NVIDIA driver, so its NVML can be started")
    plan = SamplerPlan((("CPU", os.getpid()),), gpus=(("CUDA0", "GPU-11111111"),))
    with start_sampler(plan) as sampler:
        samples: list[Series] = []
        poll_until(sampler, samples, lambda _: sampler.failures != ())
        poll_until(sampler, samples, seen("CPU", Counter.CPU_TIME_NS, time.monotonic_ns()))
        samples += sampler.stop()
        (failure,) = sampler.failures
    assert failure.startswith(f"{GPUS}: the NVIDIA driver could not start")


def test_a_crash_of_the_gpu_process_leaves_the_machine_process_at_work():
    if list_gpus():
        pytest.skip("this machine has an NVIDIA driver, so its NVML can be started")
    plan = SamplerPlan((("CPU", os.getpid()),), gpus=(("CUDA0", "GPU-11111111"),))
    with start_sampler(plan) as sampler:
        machine_pid, gpu_pid = sampler.pids
        with contextlib.suppress(ProcessLookupError):
            os.kill(gpu_pid, signal.SIGKILL)
        samples: list[Series] = []
        poll_until(sampler, samples, lambda _: sampler.failures != ())
        poll_until(sampler, samples, seen("CPU", Counter.CPU_TIME_NS, time.monotonic_ns()))
        assert is_running(machine_pid)


PARENT = """
import sys, time
from k3prof.collectors.sampler import SamplerPlan, start_sampler
import os
sampler = start_sampler(SamplerPlan((("CPU", os.getpid()),)))
while not sampler.poll():
    time.sleep(0.02)
print(*sampler.pids, flush=True)
{then}
"""


@pytest.mark.parametrize("then", ["time.sleep(1000)", "raise SystemExit(3)", "while True: sampler.poll()"])
def test_no_sampler_outlives_its_parent(then):
    with subprocess.Popen(
        [sys.executable, "-c", PARENT.format(then=then)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert pids
        parent.kill()
    give_up_s = time.monotonic() + PATIENCE_S
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < give_up_s, f"{pids} are still there"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
