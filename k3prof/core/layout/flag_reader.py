"""llama-server's flags as typed values, each problem under its file and key."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from k3prof.core.experiment import Experiment, flag_text
from k3prof.core.flags import nearest
from k3prof.core.trial import FlagValue
from k3prof.errors import ConfigError, IneffectiveError

_SWITCHES = ("kv-offload", "kv-unified", "repack", "mmap")
_CANONICAL = {"gpu-layers": "n-gpu-layers", **{f"no-{name}": name for name in _SWITCHES}}


@dataclass(frozen=True)
class FlagReader:
    """Looks flags up.

    Attributes:
        flags: Canonical long names to values, in the order in which llama-server gets them.
        where: Says where a flag stands: `placements/a.toml: flags.cpu-moe`.
    """

    flags: Mapping[str, FlagValue]
    where: Callable[[str], str]

    def text(self, name: str, default: str) -> str:
        """Return a flag's value as llama-server reads it."""
        return flag_text(self.flags[name]) if name in self.flags else default

    def switch(self, name: str, default: bool) -> bool:
        """Return whether a switch is on."""
        value = self.flags.get(name, default)
        if not isinstance(value, bool):
            raise self.problem(name, f"{flag_text(value)!r} where a switch takes no value", f"write {name} = true")
        return value

    def whole(self, name: str, default: int, least: int = 0) -> int:
        """Return a whole number."""
        text = self.text(name, str(default))
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or int(text) < least:
            raise self.problem(name, f"{text!r} is no whole number from {least} up", f"write for instance {name} = 4")
        return int(text)

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        """Return one of several words."""
        text = self.text(name, default)
        if text not in choices:
            near = nearest(text, choices)
            one_of = f"write one of {', '.join(choices)}"
            raise self.problem(name, f"there is no {text!r}", f"did you mean {near}? {one_of}" if near else one_of)
        return text

    def shares(self, name: str) -> tuple[float, ...]:
        """Return the numbers of a list, which are separated as `--tensor-split` allows; none when it is not given."""
        if name not in self.flags:
            return ()
        texts = re.split(r"[,/]+", self.text(name, ""))
        shares = [_share(text) for text in texts]
        for text, share in zip(texts, shares, strict=True):
            if share is None:
                raise self.problem(name, f"{text!r} is no share of a model", "write one number from 0 up per device")
        return tuple(share for share in shares if share is not None)

    def problem(self, name: str, what: str, hint: str = "") -> ConfigError:
        """Return a problem with a flag as an error that says where it stands."""
        return ConfigError(f"{self.where(name)}: {what}", hint)

    def ignored(self, name: str, what: str, hint: str = "") -> IneffectiveError:
        """Return a problem with a flag that llama-server would say nothing about, and go on as if it were not there."""
        return IneffectiveError(f"{self.where(name)}: {what}", hint)


def under_known_names(experiment: Experiment) -> Experiment:
    """Return an experiment with its flags under the names that this package looks for."""
    settings = replace(experiment.settings, flags=known_names(experiment.settings.flags))
    placements = (
        replace(one, flags=known_names(one.flags), matrix=tuple(known_names(dict.fromkeys(one.matrix, True))))
        for one in experiment.placements
    )
    return replace(experiment, settings=settings, placements=tuple(placements))


def known_names(flags: Mapping[str, FlagValue]) -> dict[str, FlagValue]:
    """Return flags under the names that this package looks for, negative forms as their flag switched off."""
    known: dict[str, FlagValue] = {}
    for written, value in flags.items():
        name = written.replace("_", "-")
        canonical = _CANONICAL.get(name, name)
        negated = canonical == name.removeprefix("no-") != name
        known[canonical] = not value if negated and isinstance(value, bool) else value
    return known


def _share(text: str) -> float | None:
    try:
        share = float(text)
    except ValueError:
        return None
    return share if math.isfinite(share) and share >= 0 else None
