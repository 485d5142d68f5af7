"""HTML pages from templates: everything that is filled in is untrusted unless marked otherwise."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from k3prof.reporters.untrusted import lines


def render(template: str, **values: object) -> str:
    """Return a page of `templates/`, with every value escaped and rid of what cannot be seen."""
    environment = Environment(
        loader=PackageLoader("k3prof.reporters"),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def _visible(value: object) -> object:
    return lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value
