"""What a build's `llama-server --help` says about its flags.

Two layouts are read. Since 2024 (`common_arg::to_string` in common/arg.cpp) an option starts in the first column, its
description in column 40:

    -ngl,  --gpu-layers, --n-gpu-layers N   max. number of layers to store in VRAM, ...
                                            (env: LLAMA_ARG_N_GPU_LAYERS)

Before, options were indented, each of their spellings could name the value, and commas were sometimes missing:

      -ngl N, --n-gpu-layers N
                                number of layers to store in VRAM
      -ts SPLIT --tensor-split SPLIT
                                fraction of the model to offload to each GPU
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from k3prof.core.flags import Flag, FlagVocabulary
from k3prof.errors import MachineError
from k3prof.llama.programs import ask

# Descriptions mention options too, but never start as far left: their column is 26 or more.
_OPTION = re.compile(r" {0,12}(?P<option>--?[A-Za-z].*)")
_DESCRIPTION = re.compile(r" {13,}.*| *")
_GAP_BEFORE_DESCRIPTION = re.compile(r"(?<=[^\s,])\s{2,}")
_BETWEEN_SPELLINGS = re.compile(r",?\s+(?=--?[A-Za-z])")
_SPELLING = re.compile(r"(?P<dashes>--?)(?P<name>[A-Za-z0-9][\w.-]*),?(?:\s+(?P<value>\S.*))?")

_ENCLOSED_CHOICES = re.compile(r"[<{\[](?P<words>\w[\w.+-]*(?:[|,]\w[\w.+-]*)+)[>}\]]")
_BARE_CHOICES = re.compile(r"[a-z0-9-]+(?:,[a-z0-9-]+)+")
_ALLOWED_VALUES = re.compile(r"allowed values:\s*(?P<words>[\w.+-]+(?:,\s*[\w.+-]+)*)")
_REMOVED = re.compile(r"the argument has been removed\.?\s*(?P<instead>.*)")
_TRAILING_NOTE = re.compile(r"\s*\((?:env|default): [^()]*\)\s*$")


def read_vocabulary(bin_dir: Path) -> FlagVocabulary:
    """Ask a build's llama-server which flags it understands.

    Raises:
        ConfigError: There is no llama-server.
        MachineError: It does not run here, or its help lists no flags.
    """
    server = bin_dir / "llama-server"
    said = ask(server, "--help")
    # Builds of early 2024 print it on stderr; CUDA's start-up lines stand there in all others.
    flags = parse_help(said.stdout) or parse_help(said.stderr)
    if not flags:
        raise MachineError(f"{server} --help lists no flags", "is it llama.cpp's llama-server? run it by hand to see")
    return FlagVocabulary(flags)


def parse_help(text: str) -> tuple[Flag, ...]:
    """Return the flags that a help text lists, in its order; those without a long name are left out."""
    return tuple(flag for option in _options(text) if (flag := _flag(option)) is not None)


@dataclass
class _Option:
    """An option's line up to its description, and the description's lines."""

    spellings: str
    description: list[str]


def _options(text: str) -> Iterator[_Option]:
    option: _Option | None = None
    for line in text.splitlines():
        if option is not None and _DESCRIPTION.fullmatch(line):
            option.description.append(line.strip())
            continue
        if option is not None:
            yield option
        match = _OPTION.fullmatch(line)
        option = _option(match["option"].rstrip()) if match else None
    if option is not None:
        yield option


def _option(line: str) -> _Option:
    spellings, *description = _GAP_BEFORE_DESCRIPTION.split(line, maxsplit=1)
    return _Option(spellings, description)


def _flag(option: _Option) -> Flag | None:
    found = [_SPELLING.fullmatch(part) for part in _BETWEEN_SPELLINGS.split(option.spellings)]
    spellings = [match for match in found if match is not None]
    values = [match["value"] for match in spellings if match["value"]]
    long_names = [match["name"] for match in spellings if match["dashes"] == "--"]
    negatives = [name for name in long_names if name.startswith("no-")]
    # `--no-host` stands alone: it is the flag itself.
    positives = [name for name in long_names if name not in negatives] or [negatives.pop()] if long_names else []
    if not positives:
        return None
    description = " ".join(filter(None, option.description))
    removed = _REMOVED.search(description)
    # New spellings are put in front of old ones, so the last is the one that most builds share.
    *aliases, name = positives
    return Flag(
        name=name,
        aliases=tuple(aliases),
        takes_value=bool(values),
        negative=negatives[0] if negatives else None,
        negative_aliases=tuple(negatives[1:]),
        choices=_choices(values[-1], description) if values else (),
        removed=_TRAILING_NOTE.sub("", removed["instead"]) if removed else "",
    )


def _choices(value: str, description: str) -> tuple[str, ...]:
    # Lists with bullets are not read: they explain values, and leave some out that the server takes.
    if match := _ENCLOSED_CHOICES.fullmatch(value):
        return tuple(re.split(r"[|,]", match["words"]))
    if _BARE_CHOICES.fullmatch(value):
        return tuple(value.split(","))
    if match := _ALLOWED_VALUES.search(description):
        return tuple(re.split(r",\s*", match["words"]))
    return ()
