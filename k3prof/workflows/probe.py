"""Asks a model on a real llama-server whether it is broken, or only slow."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from k3prof.core.evidence.proof import prove
from k3prof.core.experiment import Experiment, Placement, Settings
from k3prof.core.metrics import METRICS
from k3prof.core.plausibility import judge as judge_request
from k3prof.core.probes.probe import Answer, Probe, Result
from k3prof.core.probes.questions import PROBES, SET_VERSION
from k3prof.core.probes.report import EarlierReport, ProbeReport, compare
from k3prof.core.probes.verdict import judge, judge_answer
from k3prof.core.trial import FlagValue, TrialSpec, TrialStatus, Workload
from k3prof.errors import ConfigError, MachineError
from k3prof.llama.chat import Examiner
from k3prof.llama.client import Client
from k3prof.llama.command import server_env
from k3prof.llama.demo_model import DEMO_MODELS
from k3prof.llama.devices import free_port, running_devices
from k3prof.llama.logs import read_log
from k3prof.llama.server import Server, ServerFailedError, running_server
from k3prof.store.config import Overrides, load_experiment
from k3prof.workflows.rig import Rig, prepare_experiment
from k3prof.workflows.run_trial import Patience

DEMO_NOTE = "demo models have random weights: they are broken by construction"
_SPEED = Workload("tg", 64)
_CONTEXT_TOKENS = 4096
_TEMPLATE = "tokenizer.chat_template"
_TEMPLATE_FLAGS = frozenset({"chat-template", "chat-template-file"})
_DEATH_PATIENCE_S = 5.0
_COMMAND_LINE = "the command line"


@dataclass(frozen=True)
class ProbeRequest:
    """What to examine, and on what.

    Attributes:
        model: A path, or `demo:` and the name of a demo model.
        build: Name or folder of the build; None for what the placement says, else the default.
        devices: `auto`, `cpu` or `rpc:N`; None for what the placement says, else `auto`.
        placement: A placement's file, whose flags the server gets; None for a plain server.
        flags: llama-server's long names to values, for a plain server.
    """

    model: str
    build: str | None = None
    devices: str | None = None
    placement: Path | None = None
    flags: Mapping[str, FlagValue] | None = None


def probe(
    request: ProbeRequest,
    earlier: EarlierReport | None = None,
    *,
    probes: Sequence[Probe] = PROBES,
    patience: Patience | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> ProbeReport:
    """Ask a model every probe, one after another, and judge its answers.

    Args:
        request: What to examine.
        earlier: An earlier examination to compare with.
        probes: What to ask.
        patience: How long to wait for the server.
        on_progress: Called with what is being done.

    Raises:
        ConfigError: The model, the build, the devices or the placement are wrong.
        MachineError: The devices or the server do not start.
    """
    prepared = prepare_experiment(_experiment(request))
    (spec,) = prepared.specs
    rig = prepared.rigs[spec.placement]
    has_template = _TEMPLATE in rig.model.header.metadata or not _TEMPLATE_FLAGS.isdisjoint(spec.flags)
    examination = _Examination(spec, rig, probes, has_template, patience or Patience(), on_progress)
    results, tokens_per_s, differences = examination.run()
    version = f"{rig.build.name} ({rig.build.version})" if rig.build.version else rig.build.name
    comparison = None if earlier is None else compare(results, earlier)
    return ProbeReport(
        model=request.model,
        build=version,
        devices=_devices(rig),
        has_template=has_template,
        results=results,
        judgement=judge(results),
        decode_tokens_per_s=tokens_per_s,
        decode_tokens=_SPEED.tokens,
        set_version=SET_VERSION,
        notes=(*_notes(request.model), *prepared.notices, *differences),
        comparison=comparison,
    )


def _devices(rig: Rig) -> str:
    names = ", ".join(device.name for device in rig.devices.devices)
    return f"{names} (stand-in devices)" if rig.devices.stand_ins else names


def _notes(model: str) -> tuple[str, ...]:
    name = model.removeprefix("demo:")
    return (DEMO_NOTE,) if name in DEMO_MODELS and name != model else ()


def _experiment(request: ProbeRequest) -> Experiment:
    """Return the one placement to run, asked for answers instead of measurements."""
    if request.placement is None:
        settings = Settings(
            model=request.model,
            devices=request.devices or "auto",
            build=request.build or "default",
            workloads=(_SPEED,),
            repeat=1,
            price_per_hour=None,
            flags={},
            file=_COMMAND_LINE,
        )
        flags = {"ctx-size": _CONTEXT_TOKENS, **(request.flags or {})}
        return Experiment(".", settings, (Placement("probe", "", flags, {}, _COMMAND_LINE),))
    overrides = Overrides(model=request.model, build=request.build, devices=request.devices)
    experiment = load_experiment(request.placement, overrides)
    if len(experiment.placements) != 1:
        names = ", ".join(one.name for one in experiment.placements)
        raise ConfigError(f"{request.placement}: {len(experiment.placements)} placements: {names}", "name a single one")
    settings = replace(experiment.settings, workloads=(_SPEED,), levels=frozenset())
    return replace(experiment, settings=settings)


@dataclass(frozen=True)
class _Examination:
    spec: TrialSpec
    rig: Rig
    probes: Sequence[Probe]
    has_template: bool
    patience: Patience
    on_progress: Callable[[str], None]

    def run(self) -> tuple[tuple[Result, ...], float | None, tuple[str, ...]]:
        """Return the judged answers, the speed, and where the server did something else than was asked."""
        with tempfile.TemporaryDirectory(prefix="k3prof-") as name:
            folder = Path(name)
            log, config_home = folder / "llama-server.log", folder / "config"
            config_home.mkdir()
            port, alias = free_port(), f"k3prof-{secrets.token_hex(8)}"
            with running_devices(self.rig.devices, self.rig.build, folder) as devices:
                argv = self.rig.argv(self.spec, devices.endpoints, port, alias)
                env = server_env(os.environ, self.rig.devices.env, self.spec.env, config_home)
                with running_server(argv, env, port, alias, log) as server:
                    results, tokens_per_s = self._examine(server)
            done = prove(self.spec.flags, self.rig.devices.devices, None, read_log(log.read_text(errors="replace")))
        outcome = done.certificate.outcome()
        return results, tokens_per_s, (outcome.message,) if outcome.status is TrialStatus.VOID else ()

    def _examine(self, server: Server) -> tuple[tuple[Result, ...], float | None]:
        self.on_progress("loading the model")
        try:
            server.wait_until_ready(self.patience.load_s, lambda _: None)
        except ServerFailedError as error:
            outcome = error.outcome
            hint = f"its log says: {outcome.evidence}" if outcome.evidence else ""
            raise MachineError(f"llama-server did not start: {outcome.message}", hint) from error
        examiner = Examiner(server.url, self.patience.request_s, has_template=self.has_template)
        results: list[Result] = []
        death = ""
        for number, one in enumerate(self.probes, start=1):
            self.on_progress(f"probe {number} of {len(self.probes)}: {one.id}")
            answer = Answer(None, death) if death else examiner.ask(one)
            if answer.text is None and not death:
                death = _death(server)
            results.append(judge_answer(one, answer))
        self.on_progress("measuring its speed")
        return tuple(results), None if death else self._tokens_per_s(server)

    def _tokens_per_s(self, server: Server) -> float | None:
        client = Client(server.url, self.patience.request_s)
        for role in ("warmup", "measure"):
            records = [judge_request(record) for record in client.run(_SPEED, role, 0)]
        return METRICS["tg"].compute(records)


def _death(server: Server) -> str:
    """Return why the server died, or nothing where it lives."""
    try:
        server.raise_if_dead(_DEATH_PATIENCE_S)
    except ServerFailedError as error:
        return f"the server died: {error.outcome.message}"
    return ""
