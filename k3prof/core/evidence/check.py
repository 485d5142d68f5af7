"""One thing that was asked of a server, and what its log shows of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from k3prof.core.evidence.loaded import LoadedServer

YES = frozenset({"on", "true", "1", "enabled"})
NO = frozenset({"off", "false", "0", "disabled"})


class Agreement(StrEnum):
    """How something asked and something done compare."""

    SAME = "as asked"
    DIFFERS = "differs"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Check:
    """One thing that was asked, and what came of it.

    Attributes:
        name: The flag: `ctx-size`; or `devices`.
        asked: What was asked.
        done: What the log shows; None where it shows nothing.
        agreement: How they compare.
        reason: What explains a difference, as a clause; may be empty.
        evidence: The line of the log that reports the difference, where one does.
    """

    name: str
    asked: str
    done: str | None
    agreement: Agreement
    reason: str = ""
    evidence: str = ""

    @property
    def sentence(self) -> str:
        """The check in words: `fit: asked on, done: gave up (tensor_split already set by user)`."""
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.name}: asked {self.asked}, done: {self.done or 'unknown'}{why}"


@dataclass(frozen=True)
class Asked:
    """What was asked, beside what was done.

    Attributes:
        flags: Flags under the names that k3prof knows them by, with their values as text.
        devices: The devices that there were; None when not known.
        done: What the log shows.
    """

    flags: Mapping[str, str]
    devices: Sequence[str] | None
    done: LoadedServer

    def number(self, flag: str) -> int | None:
        """Return a flag's value, or None when it was not given or is no whole number."""
        text = self.flags.get(flag, "")
        return int(text) if re.fullmatch(r"-?\d{1,12}", text) else None

    def unknown(self, flag: str) -> Check:
        """Return a check of a flag that the log shows nothing of."""
        return Check(flag, self.flags[flag], None, Agreement.UNKNOWN)

    def compare(self, flag: str, done: object, same: bool, reason: str = "", fallback: str = "") -> Check:
        """Return a check of a flag.

        Args:
            flag: Its name.
            done: What the log shows; None where it shows nothing.
            same: Whether that is what was asked.
            reason: What explains the difference, if there is one.
            fallback: Code of the caveat whose line reports the difference, if there is one.
        """
        if done is None:
            return self.unknown(flag)
        if same:
            return Check(flag, self.flags[flag], str(done), Agreement.SAME)
        evidence = next((caveat.message for caveat in self.done.caveats if caveat.code == fallback), "")
        return Check(flag, self.flags[flag], str(done), Agreement.DIFFERS, reason, evidence)
