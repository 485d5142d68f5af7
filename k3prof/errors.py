"""Errors meant for the person at the terminal: what happened, where, and what to do about it."""

from __future__ import annotations


class K3profError(Exception):
    """Something that ends the command with one clear message instead of a traceback.

    Attributes:
        message: What went wrong and where (file and key, or device), in one sentence.
        hint: What to do about it; empty when there is nothing to suggest.
        exit_code: The command's exit code.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(K3profError):
    """The user's input is wrong: a file, a key, an option. Nothing was started."""

    exit_code = 2


class IneffectiveError(ConfigError):
    """The user asks llama-server for something that it would silently ignore."""


class MachineError(K3profError):
    """This machine cannot do what was asked: no compiler, no space, no such device."""


class TraceError(K3profError):
    """A trace file cannot be written or read."""


class ConfigErrors(ConfigError):  # noqa: N818
    """Several problems found in one pass, so that they can be mended in one pass."""

    def __init__(self, problems: list[ConfigError]) -> None:
        super().__init__("\n".join(problem.message for problem in problems))
        self.problems = tuple(problems)
