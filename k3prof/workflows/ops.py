"""Times a model's passes op by op, in the very libllama that a build's servers run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from k3prof.collectors.host_settings import allowed_processors, physical_cores
from k3prof.core.layout.flag_reader import FlagReader
from k3prof.core.ops.op_profile import OpReport, profile
from k3prof.core.ops.op_record import OpRequest, Timing
from k3prof.core.weights.geometry import Scalar
from k3prof.core.weights.metadata_override import overridden
from k3prof.core.weights.model import Model
from k3prof.llama.build import find_build
from k3prof.llama.ops import Progress, record_ops
from k3prof.workflows.model_file import find_model

_OVERRIDE = "override-kv"


def profile_ops(
    model: str,
    *,
    build: str = "default",
    timing: Timing = Timing.NODE,
    tokens: int = 64,
    prompt: int = 0,
    threads: int | None = None,
    overrides: Sequence[str] = (),
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> OpReport:
    """Say where the computing of a token goes.

    Args:
        model: A path, or `demo:` and the name of a demo model.
        build: Name or folder of the build.
        timing: How closely to time.
        tokens: Tokens to generate for each way of timing.
        prompt: Tokens of a prompt to begin with, which is profiled as well; 0 for none.
        threads: Threads of the host that compute; one for each physical core by default, as llama-server has it.
        overrides: `KEY=TYPE:VALUE` each, as llama-server takes them.
        on_progress: Called as it goes on.

    Raises:
        ConfigError: There is no such build or model, or an override is wrong.
        MachineError: llama-cpp-python does not load the build's libllama, or that does not take the model.
    """
    chosen = find_build(build)
    file = find_model(model)
    flags = {_OVERRIDE: ",".join(overrides)} if overrides else {}
    header = overridden(file.header, FlagReader(flags, lambda name: f"--{name}"))
    if threads is None:
        threads = len(physical_cores(allowed_processors())) or 1
    request = OpRequest(timing, tokens, prompt, threads, _changed(file.header, header))
    records = record_ops(chosen, file.path, request, on_progress)
    return OpReport(header, chosen, request, tuple(profile(record, header) for record in records))


def _changed(before: Model, after: Model) -> tuple[tuple[str, Scalar], ...]:
    changes = ((key, value) for key, value in after.metadata.items() if value != before.metadata[key])
    return tuple((key, value) for key, value in changes if isinstance(value, Scalar))
