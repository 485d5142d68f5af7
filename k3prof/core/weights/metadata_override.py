"""`--override-kv`: a model whose header says something else."""

from __future__ import annotations

import re

from k3prof.core.flags import nearest
from k3prof.core.layout.flag_reader import FlagReader
from k3prof.core.weights.geometry import Scalar, Skipped
from k3prof.core.weights.model import Model, describe
from k3prof.errors import ConfigError

_FLAG = "override-kv"
_PART = re.compile(r"(?P<key>[^=]+)=(?P<type>int|float|bool|str):(?P<value>.*)", re.DOTALL)
_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}


def overridden(model: Model, reader: FlagReader) -> Model:
    """Return the model as llama-server will see it.

    llama.cpp ignores an override of a key that it does not look for, of another type, or of an array, and says so in no
    more than a warning: here each is an error.

    Raises:
        ConfigError: The model lacks the key, or llama-server would not take the value.
    """
    if _FLAG not in reader.flags:
        return model
    metadata = dict(model.metadata)
    for part in reader.text(_FLAG, "").split(","):
        key, value = _parse(part, model, reader)
        metadata[key] = value
    try:
        changed = describe(model.architecture, metadata, model.tensors, model.shards)
    except ConfigError as error:
        raise reader.problem(_FLAG, error.message, error.hint) from None
    used, experts = changed.geometry.experts_used, changed.geometry.experts
    if used > experts:
        raise reader.problem(_FLAG, f"{used} experts used, but the model has {experts}", f"use at most {experts}")
    return changed


def _parse(part: str, model: Model, reader: FlagReader) -> tuple[str, Scalar]:
    match = _PART.fullmatch(part)
    if match is None:
        example = f"{model.architecture}.expert_used_count=int:8"
        raise reader.problem(_FLAG, f"{part!r} is no KEY=TYPE:VALUE", f"write for instance {example}")
    key, given = match["key"], match["type"]
    if key not in model.metadata:
        raise reader.ignored(_FLAG, f"the model has no key {key!r}", _similar(key, model))
    old = model.metadata[key]
    if isinstance(old, tuple | Skipped):
        raise reader.ignored(_FLAG, f"{key} is a list, and llama-server silently ignores an override of one")
    wanted = _TYPES[type(old)]
    if given != wanted:
        raise reader.ignored(
            _FLAG,
            f"{key} is of type {wanted}, and llama-server ignores a value of type {given}",
            f"write {key}={wanted}:…",
        )
    return key, _value(match["value"], given, part, reader)


def _similar(key: str, model: Model) -> str:
    own = f"{model.architecture}.{key.partition('.')[2]}"
    near = own if own in model.metadata else nearest(key, model.metadata)
    return f"did you mean {near}?" if near else f"this model's own keys begin with {model.architecture}."


def _value(text: str, kind: str, part: str, reader: FlagReader) -> Scalar:
    if kind == "bool":
        if text not in ("true", "false"):
            raise reader.problem(_FLAG, f"{text!r} in {part!r} is neither true nor false")
        return text == "true"
    if kind == "str":
        return text
    try:
        return int(text) if kind == "int" else float(text)
    except ValueError:
        raise reader.problem(_FLAG, f"{text!r} in {part!r} is no {kind}") from None
