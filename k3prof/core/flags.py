"""The command-line flags that one llama-server build understands, as it lists them itself."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Flag:
    """One option of `llama-server --help`.

    Attributes:
        name: The canonical long name without dashes: `n-cpu-moe`.
        aliases: Every other long name that means the same, without dashes.
        takes_value: False for a bare switch.
        negative: The long name that switches it off (`no-mmap`), or None.
        choices: The values that the help text says are allowed; empty when it does not say.
        negative_aliases: Every other long name that switches it off.
        removed: What the help text says to use instead of a flag that is only listed to be refused; else empty.
    """

    name: str
    aliases: tuple[str, ...] = ()
    takes_value: bool = True
    negative: str | None = None
    choices: tuple[str, ...] = ()
    negative_aliases: tuple[str, ...] = ()
    removed: str = ""


class FlagVocabulary:
    """What a build understands: looked up by any of a flag's long names."""

    def __init__(self, flags: Iterable[Flag]) -> None:
        self.flags = tuple(flags)
        self._by_name = {name: flag for flag in self.flags for name in (flag.name, *flag.aliases)}
        self._by_negative = {
            name: flag for flag in self.flags for name in (flag.negative, *flag.negative_aliases) if name is not None
        }

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def find(self, name: str) -> Flag | None:
        """Return the flag of this long name (`n_cpu_moe` and `n-cpu-moe` are one), or None."""
        return self._by_name.get(name.replace("_", "-"))

    def find_negative(self, name: str) -> Flag | None:
        """Return the flag that this long name switches off (`no-mmap`), or None."""
        return self._by_negative.get(name.replace("_", "-"))

    def nearest(self, name: str) -> str | None:
        """Return the long name most like an unknown one, or None when nothing is alike."""
        return nearest(name.replace("_", "-"), [*self._by_name, *self._by_negative])


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known word most like `name`, or None when nothing is alike."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return found[0] if found else None
