"""Become another program that gets a signal when our parent dies. Standard library only: run with -I -S.

Usage: exec_bound.py PARENT_PID SIGNAL CPUS PROGRAM [ARGUMENT ...], SIGNAL a number, CPUS comma-separated or empty.
"""

import ctypes
import os
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask to die with the parent, pin to the processors, and exec."""
    parent_pid, death_signal, cpus, *argv = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(death_signal))
    # A parent that died before the request was made will send no signal any more.
    if os.getppid() != int(parent_pid):
        sys.exit("the process that started this one has gone")
    if cpus:
        os.sched_setaffinity(0, [int(cpu) for cpu in cpus.split(",")])
    # In the C locale the interpreter adds to its environment; the program gets the one that was given.
    given = Path("/proc/self/environ").read_bytes().split(b"\0")
    os.execve(argv[0], argv, dict(entry.split(b"=", 1) for entry in given if b"=" in entry))  # noqa: S606


if __name__ == "__main__":
    main()
