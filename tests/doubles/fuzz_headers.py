"""Opens damaged copies of GGUF files: `python -m tests.doubles.fuzz_headers COUNT SEED FILE…` prints what came of them.

Run as a program of its own, so that its memory is its own. Anything but an opened model or a `K3profError` ends it with
a traceback that names the mutant's number.
"""

from __future__ import annotations

import json
import random
import struct
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from k3prof.core.layout.hardware import DATASHEETS
from k3prof.core.weights.anatomy import dissect
from k3prof.core.weights.traffic import ForwardPass
from k3prof.errors import K3profError
from k3prof.llama.gguf import read_model

_HEAD_BYTES = 2**16
_EXTREMES = (0, 1, 3, 9, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


def mutate(chance: random.Random, head: bytes) -> bytes:
    """Return a damaged copy of a header."""
    damaged = bytearray(head)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.randrange(max(len(damaged) - 8, 1))
        end = min(at + chance.randrange(1, 64), len(damaged))
        match chance.randrange(6):
            case 0:
                damaged[at] ^= 1 << chance.randrange(8)
            case 1:
                damaged[at : at + 8] = struct.pack("<Q", chance.choice(_EXTREMES))
            case 2:
                damaged[at : at + 4] = struct.pack("<I", chance.choice(_EXTREMES) & 0xFFFFFFFF)
            case 3:
                del damaged[at:end]
            case 4:
                damaged[at:at] = damaged[at:end]
            case 5:
                damaged[at:end] = chance.randbytes(end - at)
    return bytes(damaged)


def write_mutant(chance: random.Random, original: Path, folder: Path) -> Path:
    """Write a damaged copy, with its weights' hole, without it, or cut anywhere."""
    with original.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    size = original.stat().st_size
    path = folder / original.name
    path.write_bytes(mutate(chance, head))
    with path.open("r+b") as file:
        file.truncate(chance.choice((size, size, size, len(head), chance.randrange(len(head)))))
    return path


def run(count: int, seed: int, originals: list[Path]) -> dict[str, object]:
    """Open that many mutants and return what came of them."""
    outcomes: Counter[str] = Counter()
    slowest_s = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for sibling in {sibling for original in originals for sibling in original.parent.glob("*.gguf")}:
            (Path(folder) / sibling.name).symlink_to(sibling)
        for number in range(count):
            chance = random.Random(f"{seed}-{number}")
            original = chance.choice(originals)
            link = Path(folder) / original.name
            link.unlink()
            path = write_mutant(chance, original, Path(folder))
            begin = time.perf_counter()
            try:
                dissect(read_model(_first_of(path)), ForwardPass(tokens=4, depth=100), DATASHEETS)
                outcomes["opened"] += 1
            except K3profError:
                outcomes["refused"] += 1
            except BaseException as error:
                error.add_note(f"mutant {number} of seed {seed}, made from {original.name}")
                raise
            slowest_s = max(slowest_s, time.perf_counter() - begin)
            path.unlink()
            link.symlink_to(original)
    return {**outcomes, "slowest_s": round(slowest_s, 3), "peak_mib": peak_mib()}


def peak_mib() -> int:
    """Return the most memory that this program has held; `ru_maxrss` would count its parent's too."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def _first_of(path: Path) -> Path:
    stem, of, count = path.name.rpartition("-of-")
    return path.with_name(f"{stem[:-5]}00001{of}{count}") if of else path


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]), [Path(name) for name in sys.argv[3:]])))
