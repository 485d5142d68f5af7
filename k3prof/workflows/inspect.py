"""Takes a model apart from its header alone; nothing is loaded and no server starts."""

from __future__ import annotations

from k3prof.core.layout.hardware import DATASHEETS, parse_bandwidth
from k3prof.core.weights.anatomy import Anatomy, dissect
from k3prof.core.weights.traffic import ForwardPass
from k3prof.llama.gguf import read_model
from k3prof.workflows.model_file import model_path


def inspect(model: str, forward: ForwardPass, bandwidth: str | None = None) -> Anatomy:
    """Take a model apart.

    Args:
        model: A path, or `demo:` and the name of a demo model, which is written when it is not there yet.
        forward: What is computed at once.
        bandwidth: GB/s or a GPU's name to compute ceilings for; None for the GPUs in the table.

    Raises:
        ConfigError: The model or an option is wrong.
    """
    devices = (parse_bandwidth(bandwidth),) if bandwidth else DATASHEETS
    return dissect(read_model(model_path(model)), forward, devices)
