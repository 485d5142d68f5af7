"""The model that a user names: a GGUF somewhere, or one of the demo models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from k3prof.core.weights.model import Model
from k3prof.llama.demo_model import demo_model
from k3prof.llama.gguf import fingerprint, read_model

_DEMO_PREFIX = "demo:"


@dataclass(frozen=True)
class ModelFile:
    """A model that is here and whole.

    Attributes:
        path: Its file, or the first of its shards.
        fingerprint: Hash that differs for different models.
        header: What its header says.
    """

    path: Path
    fingerprint: str
    header: Model


def model_path(text: str) -> Path:
    """Return where a model lies: a path as it is, `demo:k3` after writing it if it is not there yet.

    Raises:
        ConfigError: There is no demo model of that name.
    """
    return demo_model(text) if text.startswith(_DEMO_PREFIX) else Path(text).expanduser()


def find_model(text: str) -> ModelFile:
    """Return the model that `text` names, its header read and held against the sizes of its files.

    Raises:
        ConfigError: It is missing, cut short, or no GGUF.
    """
    path = model_path(text).absolute()
    return ModelFile(path, fingerprint(path), read_model(path))
