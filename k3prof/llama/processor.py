"""What this machine's processor can execute: code compiled for it runs only where all of that is there."""

from __future__ import annotations

import re
from pathlib import Path

_LINE = re.compile(r"^(?:flags|Features|isa)\s*: *(?P<words>.*)$", re.MULTILINE)
# x86 lists everything about the processor here; these are its instructions that compilers use.
_X86_FEATURES = re.compile(
    r"pni|s*sse\w*|avx\w*|fma4?|f16c|bmi\d|amx\w*|gfni|vaes|vpclmulqdq|pclmulqdq|popcnt|abm|adx|movbe|sha_ni|aes|xop"
)


def instruction_sets(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Return the instruction set extensions of this processor by the kernel's names; none where it lists none."""
    try:
        match = _LINE.search(cpuinfo.read_text(errors="replace"))
    except OSError:
        return frozenset()
    if match is None:
        return frozenset()
    words = match["words"].split()
    is_x86 = match[0].startswith("flags")
    return frozenset(word for word in words if not is_x86 or _X86_FEATURES.fullmatch(word))
