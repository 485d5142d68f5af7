"""Real processes whose processor time is known, because they account for it themselves."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

_PRELUDE = """
import threading, time

def account():
    print(time.monotonic_ns(), time.process_time_ns(), flush=True)

def spend(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(2000))
"""

DUTY_CYCLE = """
while True:
    began = time.monotonic()
    account()
    spend(0.03)
    time.sleep(max(began + 0.1 - time.monotonic(), 0.02))
"""
"""Works 30 ms of processor time in every 100 ms, where the machine lets it; accounts at the start of each."""

ENDED_THREAD = """
thread = threading.Thread(target=spend, args=(0.3,))
thread.start()
thread.join()
account()
time.sleep(1000)
"""
"""Works 300 ms in a thread that ends, accounts once, and sleeps."""

ASLEEP = """
account()
time.sleep(1000)
"""


@contextlib.contextmanager
def running(script: str) -> Iterator[subprocess.Popen[str]]:
    """Run a script of the above, kill it at the end; each line of its output is `monotonic_ns process_time_ns`."""
    with subprocess.Popen([sys.executable, "-c", _PRELUDE + script], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def next_account(process: subprocess.Popen[str]) -> tuple[int, int]:
    """Return the next monotonic time and processor time, in ns, that the process tells."""
    assert process.stdout is not None
    time_ns, spent_ns = process.stdout.readline().split()
    return int(time_ns), int(spent_ns)
