"""What sets flags of llama.cpp's programs without standing on their command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from k3prof.core.machine.rig_checks import HiddenSettings

_FILE = Path("llama.cpp") / "config.ini"
_FLAG_VARIABLES = "LLAMA_ARG_"


def find_hidden_settings(env: Mapping[str, str], root: Path = Path("/")) -> HiddenSettings:
    """Look where llama.cpp looks: `/etc`, the user's configuration folder, and `LLAMA_ARG_*` (common/arg.cpp).

    Args:
        env: The environment.
        root: Where `/etc` lies.
    """
    home = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "/")) / ".config")
    return HiddenSettings(
        system_file=_if_file(root / "etc" / _FILE),
        user_file=_if_file(home / _FILE),
        variables=tuple(sorted(name for name in env if name.startswith(_FLAG_VARIABLES))),
    )


def _if_file(path: Path) -> str | None:
    return str(path) if path.is_file() else None
