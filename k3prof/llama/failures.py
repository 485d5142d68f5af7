"""What ended a server that did not start or died: read from its log and its exit status."""

from __future__ import annotations

import re
import signal

from k3prof.core.trial import Failure, Outcome, TrialStatus
from k3prof.llama.failure_causes import AFTERMATH, CAUSES, RETRIED, SAVING_PROMPT, SURVIVED, Cause
from k3prof.llama.log_lines import LogLine, quote, read_lines

_VERBOSITY = re.compile(r"verbosity = (\d{1,4})")
_ATTEMPT_LINES = 8
_LAST_LINES = 40

_SIGNALS = {
    signal.SIGKILL: (
        Failure.KILLED,
        "killed by SIGKILL from outside: by a person, or by a kernel short of memory "
        "(dmesg, or memory.events of the cgroup, tells)",
    ),
    signal.SIGILL: (
        Failure.CRASHED,
        "SIGILL: the build uses instructions that this processor lacks; compile it on this machine",
    ),
    signal.SIGBUS: (
        Failure.CRASHED,
        "SIGBUS: a mapped file shrank or could not be read, or shared memory is full",
    ),
    signal.SIGXCPU: (Failure.KILLED, "SIGXCPU: the session's limit of processor time was reached (ulimit -t)"),
    signal.SIGXFSZ: (Failure.KILLED, "SIGXFSZ: the session's limit of file size was reached (ulimit -f)"),
    signal.SIGTERM: (Failure.KILLED, "stopped by SIGTERM from outside"),
    signal.SIGINT: (Failure.KILLED, "stopped by SIGINT from outside"),
    signal.SIGHUP: (Failure.KILLED, "stopped by SIGHUP: its terminal went away"),
}


def named_failure(log_text: str) -> Outcome | None:
    """Return the failure that a log itself names, or None: then the log alone does not tell whether there was one."""
    found = _find_cause(read_lines(log_text))
    return None if found is None else _of_cause(*found)


def classify(log_text: str, returncode: int | None, *, stalled: bool = False) -> Outcome:
    """Say what ended a llama-server, or a ggml-rpc-server, from its log and its exit status.

    Args:
        log_text: Everything it wrote, stdout and stderr; may be cut, or empty.
        returncode: As `subprocess` gives it (negative: killed by that signal; 128 + n, from a shell or a container,
            is taken for signal n); None where it is not known, or while it still runs.
        stalled: Whether we gave up waiting because the log stood still.

    Returns:
        A failed outcome. Where the log names no cause, none is invented: the message says so and how to learn more.
    """
    lines = read_lines(log_text)
    if (found := _find_cause(lines)) is not None:
        return _of_cause(*found)
    if stalled:
        return _failed(Failure.STALLED, f"the server stood still for too long and was stopped{_last_words(lines)}")
    if (number := _signal_number(returncode)) is not None:
        return _ended_by_signal(number, lines)
    if errors := [line for line in lines if line.level == "E" and not AFTERMATH.search(line.text)]:
        return _failed(Failure.CRASHED, f"the server ended ({_exit(returncode)}) after an error", errors[-1])
    if returncode == 0:
        return _failed(Failure.CRASHED, f"the server ended by itself, without an error{_last_words(lines)}")
    return _failed(Failure.CRASHED, _unexplained(returncode, lines))


def _find_cause(lines: list[LogLine]) -> tuple[Cause, dict[str, str], LogLine] | None:
    """Return the first cause of the table that the log names, its groups, and the first line that names it."""
    suspects = _suspects(lines)
    joined = "\n".join(line.text for line in suspects)
    for cause in CAUSES:
        if match := cause.pattern.search(joined):
            values = {name: quote(value or "", 160) for name, value in match.groupdict().items()}
            return cause, values, suspects[joined.count("\n", 0, match.end())]
    return None


def _of_cause(cause: Cause, values: dict[str, str], line: LogLine) -> Outcome:
    return _failed(cause.failure, cause.message.format_map(values), line)


def _suspects(lines: list[LogLine]) -> list[LogLine]:
    """Leave out what proves nothing: text from the model or a conversation, and troubles that were survived."""
    suspects: list[LogLine] = []
    for line in lines:
        if RETRIED.search(line.text):
            del suspects[-_ATTEMPT_LINES:]
        elif line.level != "D" and not line.message.startswith("- kv ") and not SURVIVED.search(line.text):
            suspects.append(line)
    return suspects


def _signal_number(returncode: int | None) -> int | None:
    if returncode is None:
        return None
    if returncode < 0:
        return -returncode
    return returncode - 128 if 128 < returncode <= 128 + signal.SIGRTMAX else None


def _ended_by_signal(number: int, lines: list[LogLine]) -> Outcome:
    saving = next((line for line in reversed(lines[-_LAST_LINES:]) if SAVING_PROMPT.search(line.text)), None)
    if number == signal.SIGKILL and saving is not None:
        message = "killed while it saved a prompt to host memory: host OOM killer likely (lower cache-ram)"
        return _failed(Failure.OUT_OF_MEMORY, message, saving)
    try:
        known = signal.Signals(number)
    except ValueError:
        return _failed(Failure.CRASHED, f"ended by signal {number}{_last_words(lines)}")
    failure, message = _SIGNALS.get(known, (Failure.CRASHED, f"{known.name}: it crashed, and the log names no reason"))
    return _failed(failure, message + _last_words(lines))


def _unexplained(returncode: int | None, lines: list[LogLine]) -> str:
    levels = [int(found[1]) for line in lines if (found := _VERBOSITY.search(line.text))]
    level = levels[-1] if levels else None
    if level is not None and level >= 5:
        return f"{_exit(returncode)}, and the log names no reason even at verbosity {level}{_last_words(lines)}"
    more = 5 if level == 4 else 4
    return f"{_exit(returncode)}, and the log names no reason at this verbosity: run it again with -lv {more}"


def _exit(returncode: int | None) -> str:
    return "exit status unknown" if returncode is None else f"exit {returncode}"


def _last_words(lines: list[LogLine]) -> str:
    line = next((line for line in reversed(lines) if line.text), None)
    return f"; the last it wrote: {quote(line.text, 120)}" if line is not None else "; it wrote nothing"


def _failed(failure: Failure, message: str, line: LogLine | None = None) -> Outcome:
    return Outcome(TrialStatus.FAILED, failure, message, quote(line.text) if line is not None else "")
