"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Format(StrEnum):
    """How a command prints its result."""

    TABLE = "table"
    JSON = "json"
    MD = "md"


FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]
