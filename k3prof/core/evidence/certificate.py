"""The certificate of a trial: what was asked, held against what the server's log proves. Where they differ, void."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from k3prof.core.evidence import context_checks, placement_checks
from k3prof.core.evidence.check import Agreement, Asked, Check
from k3prof.core.evidence.loaded import BufferKind, LoadedServer
from k3prof.core.evidence.override_checks import check_overrides
from k3prof.core.experiment import flag_text
from k3prof.core.layout.flag_reader import known_names
from k3prof.core.trial import Caveat, FlagValue, Outcome, TrialStatus

_BY_FLAG: Mapping[str, Callable[[Asked], Check | None]] = {
    "fit": placement_checks.check_fit,
    "n-gpu-layers": placement_checks.check_gpu_layers,
    "split-mode": placement_checks.check_split_mode,
    "tensor-split": placement_checks.check_tensor_split,
    "cpu-moe": placement_checks.check_cpu_moe,
    "n-cpu-moe": placement_checks.check_n_cpu_moe,
    "load-mode": placement_checks.check_load_mode,
    "kv-offload": placement_checks.check_kv_offload,
    "ctx-size": context_checks.check_context,
    "parallel": context_checks.check_sequences,
    "kv-unified": context_checks.check_unified,
    "batch-size": context_checks.check_batch,
    "ubatch-size": context_checks.check_ubatch,
    "flash-attn": context_checks.check_flash_attention,
    "cache-type-k": context_checks.check_cache_type_k,
    "cache-type-v": context_checks.check_cache_type_v,
}


@dataclass(frozen=True)
class Certificate:
    """Whether a trial measured what was asked for.

    Attributes:
        checks: One per thing asked that a log can tell about.
        caveats: Reasons to doubt its figures although it did what was asked.
    """

    checks: tuple[Check, ...]
    caveats: tuple[Caveat, ...]

    @property
    def is_void(self) -> bool:
        """Whether something was done differently: such a trial is never averaged in."""
        return any(check.agreement is Agreement.DIFFERS for check in self.checks)

    def outcome(self) -> Outcome:
        """Return the standing of a trial whose server ran to its end."""
        different = [check for check in self.checks if check.agreement is Agreement.DIFFERS]
        if not different:
            return Outcome(TrialStatus.OK)
        evidence = next((check.evidence for check in different if check.evidence), "")
        return Outcome(TrialStatus.VOID, None, "; ".join(check.sentence for check in different), evidence)


def certify(asked: Mapping[str, FlagValue], done: LoadedServer, devices: Sequence[str] | None = None) -> Certificate:
    """Hold a placement against the log of its server.

    Args:
        asked: llama-server's long names to values, as the server got them.
        done: What its log proves.
        devices: llama-server's names of the devices that there were, in order; empty for the host alone, None where
            that is not known.

    Returns:
        Checks for what was asked, not for what the server chose by itself. What the log does not show is unknown,
        which neither voids a trial nor vouches for it.
    """
    flags = {name: flag_text(value) for name, value in known_names(asked).items()}
    trial = Asked(flags, devices, done)
    checks = (
        placement_checks.check_devices(trial),
        *(check(trial) for flag, check in _BY_FLAG.items() if flag in flags),
    )
    return Certificate(
        (*(check for check in checks if check is not None), *check_overrides(trial)),
        (*done.caveats, *_caveats(flags, done)),
    )


def _caveats(flags: Mapping[str, str], done: LoadedServer) -> list[Caveat]:
    caveats = []
    if done.fit is not None and done.fit.context_to is not None and "ctx-size" not in flags:
        caveats.append(
            Caveat(
                "context-reduced",
                f"--fit reduced the context from {done.fit.context_from} to {done.fit.context_to} tokens",
                "set ctx-size",
            )
        )
    if done.context.pipeline_parallel is False and len(done.devices or ()) > 1:
        caveats.append(
            Caveat(
                "no-pipeline",
                "prompt batches do not overlap on the devices: pipeline parallelism is off",
                "it needs split-mode layer, every layer and the KV cache on devices, and no overridden tensors",
            )
        )
    recurrent = bool(done.buffers.get(BufferKind.STATE))
    if recurrent and flags.get("cache-reuse", "0") != "0":
        caveats.append(
            Caveat(
                "cache-reuse-with-state",
                "cache-reuse on a model with recurrent state: reusing a part of a prompt may corrupt the state",
                "set cache-reuse = 0",
            )
        )
    if recurrent and done.context.rollback_states == 0 and "draft" in flags.get("spec-type", ""):
        caveats.append(
            Caveat(
                "no-rollback",
                "n_rs_seq = 0: rejected drafts are undone by whole checkpoints",
                "compare speculation only within this build",
            )
        )
    return caveats
