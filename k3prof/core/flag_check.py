"""Whether builds understand an experiment's flags, and whether they fit the devices and the workloads."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from k3prof.core.experiment import Experiment, build_of, flag_text
from k3prof.core.flags import Flag, FlagVocabulary, nearest
from k3prof.core.reserved import reserved_flag
from k3prof.core.trial import FlagValue, Workload
from k3prof.errors import ConfigError


@dataclass(frozen=True)
class _Given:
    """A flag as somebody wrote it.

    Attributes:
        file: Where it stands.
        key: And under which key: `flags.n-cpu-moe`.
        name: The flag's name as written.
        value: Its value.
    """

    file: str
    key: str
    name: str
    value: FlagValue

    def problem(self, what: str, hint: str) -> ConfigError:
        return ConfigError(f"{self.file}: {self.key}: {what}", hint)


def check_flags(
    experiment: Experiment, vocabularies: Mapping[str, FlagVocabulary], n_devices: int | None
) -> list[ConfigError]:
    """Return every problem with the flags of an experiment, each with its file and key.

    Args:
        experiment: As its files give it, so that messages speak of names as they were written.
        vocabularies: What each build understands, by its name; placements of other builds are not checked.
        n_devices: How many devices the layers can be split over, the host not counted; None when not known.
    """
    settings = experiment.settings
    shared = {
        build: _understood(_given(settings.file, settings.flags, ()), vocabulary)
        for build, vocabulary in vocabularies.items()
    }
    problems = _shared_problems({build: found for build, (_, found) in shared.items()})
    for placement in experiment.placements:
        build = build_of(settings, placement)
        if build not in vocabularies:
            continue
        vocabulary = vocabularies[build]
        own, own_problems = _understood(_given(placement.file, placement.flags, placement.matrix), vocabulary)
        effective = _Effective({**shared[build][0], **own}, vocabulary)
        problems += own_problems
        problems += _split_problems(effective, n_devices)
        problems += _slot_problems(effective, [one for one in settings.workloads if one not in settings.levels])
    # The placements of one matrix share their file's problems, and all share those of the settings.
    return list({problem.message: problem for problem in problems}.values())


def _shared_problems(found: Mapping[str, Sequence[ConfigError]]) -> list[ConfigError]:
    """Return the problems that builds have with the flags that all share, each once, with the builds if only some."""
    first: dict[str, ConfigError] = {}
    builds: dict[str, list[str]] = {}
    for build, problems in found.items():
        for problem in problems:
            first.setdefault(problem.message, problem)
            builds.setdefault(problem.message, []).append(build)

    def told(problem: ConfigError) -> ConfigError:
        having = builds[problem.message]
        if len(having) == len(found):
            return problem
        named = f"build{'s' * (len(having) > 1)} {', '.join(map(repr, having))}"
        return ConfigError(f"{problem.message} ({named})", "move it to the placements whose builds understand it")

    return [told(problem) for problem in first.values()]


def canonical(experiment: Experiment, vocabulary: FlagVocabulary) -> Experiment:
    """Return an experiment of one build with every flag under the build's own name for it.

    An alias takes its flag's name (`gpu-layers` and `n-gpu-layers` are one), a negative form its flag's name and
    the opposite value. Names that the build does not know stay as they are; `check_flags` reports them.
    """

    def renamed(flags: Mapping[str, FlagValue]) -> dict[str, FlagValue]:
        return dict(_canonical(name, value, vocabulary) for name, value in flags.items())

    placements = tuple(
        replace(
            placement,
            flags=renamed(placement.flags),
            matrix=tuple(_canonical(name, True, vocabulary)[0] for name in placement.matrix),
        )
        for placement in experiment.placements
    )
    settings = replace(experiment.settings, flags=renamed(experiment.settings.flags))
    return replace(experiment, settings=settings, placements=placements)


def _canonical(name: str, value: FlagValue, vocabulary: FlagVocabulary) -> tuple[str, FlagValue]:
    if flag := vocabulary.find(name):
        return flag.name, value
    negated = vocabulary.find_negative(name)
    return (negated.name, not value) if negated and isinstance(value, bool) else (name, value)


def _given(file: str, flags: Mapping[str, FlagValue], matrix: Sequence[str]) -> Iterator[_Given]:
    for name, value in flags.items():
        yield _Given(file, f"{'matrix' if name in matrix else 'flags'}.{name}", name, value)


def _understood(flags: Iterable[_Given], vocabulary: FlagVocabulary) -> tuple[dict[str, _Given], list[ConfigError]]:
    """Return the flags that are well by their canonical names, and the problems of the others."""
    understood: dict[str, _Given] = {}
    problems = []
    for given in flags:
        problem = _problem(given, vocabulary)
        name, value = _canonical(given.name, given.value, vocabulary)
        if problem is None and name in understood:
            problem = given.problem(
                f"the same flag as {understood[name].name}", "keep one of them: they are two names of one flag"
            )
        if problem is None:
            understood[name] = replace(given, value=value)
        else:
            problems.append(problem)
    return understood, problems


def _problem(given: _Given, vocabulary: FlagVocabulary) -> ConfigError | None:
    name = given.name.replace("_", "-")
    flag = vocabulary.find(name) or vocabulary.find_negative(name)
    if reserve := reserved_flag((name, flag.name, *flag.aliases) if flag else (name,)):
        return given.problem(f"not yours to set: {reserve.reason}", reserve.remedy)
    if flag is None:
        near = vocabulary.nearest(name.lstrip("-"))
        return given.problem("unknown flag", f"did you mean {near}?" if near else _LONG_NAMES)
    if flag.removed:
        return given.problem("this build has removed the flag", flag.removed)
    if vocabulary.find(name) is None:
        return _negative_problem(given, flag)
    return _valued_problem(given, flag) if flag.takes_value else _switch_problem(given, flag)


_LONG_NAMES = "write the long names that this build's `llama-server --help` lists, without the leading dashes"


def _negative_problem(given: _Given, flag: Flag) -> ConfigError | None:
    if isinstance(given.value, bool):
        return None
    return given.problem("a switch takes no value", f"write {flag.name} = false, or leave it out")


def _switch_problem(given: _Given, flag: Flag) -> ConfigError | None:
    if not isinstance(given.value, bool):
        return given.problem("a switch takes no value", f"write {given.name} = true, or leave it out")
    if given.value is False and flag.negative is None:
        return given.problem("this switch cannot be turned off", "leave it out to keep it off")
    return None


def _valued_problem(given: _Given, flag: Flag) -> ConfigError | None:
    one_of = f"write one of {', '.join(flag.choices)}"
    if isinstance(given.value, bool):
        return given.problem("a value is missing", one_of if flag.choices else f"write {given.name} = ...")
    # A flag that lists its choices may take several of them, with commas between: spec-type.
    wrong = [part for part in flag_text(given.value).split(",") if flag.choices and part not in flag.choices]
    if not wrong:
        return None
    near = nearest(wrong[0], flag.choices)
    hint = f"did you mean {near}? {one_of}" if near else one_of
    return given.problem(f"this build takes no {wrong[0]!r} here", hint)


class _Effective:
    """The flags of one server, found by any of their names."""

    def __init__(self, flags: Mapping[str, _Given], vocabulary: FlagVocabulary) -> None:
        self._flags = flags
        self._vocabulary = vocabulary

    def get(self, name: str) -> _Given | None:
        flag = self._vocabulary.find(name)
        return self._flags.get(flag.name) if flag else None


def _whole(value: FlagValue) -> int | None:
    text = flag_text(value)
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


def _split_problems(effective: _Effective, n_devices: int | None) -> Iterator[ConfigError]:
    given = effective.get("tensor-split")
    if given is None:
        return
    shares = re.split(r"[,/]+", flag_text(given.value))
    for share in shares:
        if not _is_share(share):
            yield given.problem(f"{share!r} is no share of a model", "write one number from 0 up per device")
    named = effective.get("device")
    if named is not None and flag_text(named.value) != "none":
        n_named = len(flag_text(named.value).split(","))
        n_devices = n_named if n_devices is None else min(n_devices, n_named)
    if n_devices is None or len(shares) <= n_devices:
        return
    if n_devices == 0:
        yield given.problem("there is no device to split over", 'leave it out, or give devices = "rpc:3"')
    else:
        example = ", ".join(["1"] * n_devices)
        yield given.problem(
            f"{len(shares)} shares for {_counted(n_devices, 'device')}",
            f"give at most one share per device, for instance tensor-split = [{example}]",
        )


def _is_share(text: str) -> bool:
    try:
        share = float(text)
    except ValueError:
        return False
    return math.isfinite(share) and share >= 0


def _slot_problems(effective: _Effective, workloads: Sequence[Workload]) -> Iterator[ConfigError]:
    """Yield the workloads that find no slot of the server, or not enough context in it.

    llama-server divides `ctx-size` evenly among its slots, one per stream unless the user sets `parallel`; with
    `kv-unified` the streams share it. Only the most demanding workload is named.
    """
    n_streams = max((workload.streams for workload in workloads), default=1)
    parallel = effective.get("parallel")
    n_slots = _whole(parallel.value) if parallel else n_streams
    if parallel and n_slots and 0 < n_slots < n_streams:
        yield parallel.problem(
            f"{_counted(n_slots, 'slot')} for a workload of {n_streams} streams",
            f"set parallel to at least {n_streams}, or leave it out",
        )
    context, unified = effective.get("ctx-size"), effective.get("kv-unified")
    n_tokens = _whole(context.value) if context else None
    if context is None or n_tokens is None or n_tokens <= 0 or not workloads:
        return  # the context is the model's own
    if n_slots is None or n_slots <= 0 or (unified is not None and unified.value is True):
        most, needed = _most_demanding(workloads, lambda workload: workload.streams * workload.context_tokens)
        n_slots, total = 1, needed
    else:
        most, needed = _most_demanding(workloads, lambda workload: workload.context_tokens)
        total = needed * n_slots
    if needed > n_tokens // n_slots:
        share = f", {n_tokens // n_slots} in each of {n_slots} slots," if n_slots > 1 else ""
        yield context.problem(
            f"{_counted(n_tokens, 'token')}{share} are too few for {most.name}, which needs {needed}",
            f"set ctx-size to at least {total}",
        )


def _most_demanding(workloads: Sequence[Workload], need: Callable[[Workload], int]) -> tuple[Workload, int]:
    most = max(workloads, key=need)
    return most, need(most)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")
