"""Commands as a shell takes them."""

from __future__ import annotations

import shlex

from k3prof.core.trial import Command
from k3prof.reporters.untrusted import one_line


def shell_command(command: Command) -> str:
    """Return a command on one line, its variables first, quoted for a shell."""
    settings = [f"{name}={shlex.quote(value)}" for name, value in command.env.items()]
    return one_line(" ".join([*settings, shlex.join(command.argv)]))
