"""Reads HTML as a strict browser would: what it refers to, what it says, whether its tags close."""

from __future__ import annotations

from html.parser import HTMLParser

_VOID = {"meta", "img", "br", "link", "input", "hr"}
_REFERRING = {"src", "href", "srcset", "action", "data", "poster", "xlink:href"}


class Page(HTMLParser):
    """A parsed page.

    Attributes:
        references: Every value of an attribute that a browser would load or follow.
        tags: Every element's name, in order.
        text: The text outside of scripts and styles.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == [], f"left open: {self._open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.references += [value or "" for name, value in attrs if name in _REFERRING]
        assert not any(name.startswith("on") for name, _ in attrs), attrs
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open and self._open[-1] == tag, f"</{tag}> closes {self._open[-1:]}"
        self._open.pop()

    def handle_data(self, data):
        if not set(self._open) & {"script", "style"}:
            self.text += data


def refers_outside(page: Page) -> list[str]:
    return [one for one in page.references if not one.startswith(("#", "data:"))]
