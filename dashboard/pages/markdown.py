"""The project's own documents as HTML for the help pages.

Raw HTML in a document is shown as text, and addresses with a script are no links (markdown-it's defaults); so what is
rendered holds to the strict policy whatever a document says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import PurePosixPath

from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from markdown_it import MarkdownIt
from markdown_it.token import Token

_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)


def render(text: str, *, address_of: Callable[[str], str | None]) -> SafeString:
    """A document as HTML, without its title.

    Parameters
    ----------
    address_of : callable
        From a link's target to its address on the site; None where the site does not have it: its text stays.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_COMMENT.sub("", text))
    if tokens and tokens[0].tag == "h1":
        tokens = tokens[3:]
    _name_headings(tokens)
    for token in tokens:
        if token.type == "inline" and token.children:
            token.children = _with_site_links(token.children, address_of)
    # The parser has escaped what the document says.
    return mark_safe(parser.renderer.render(tokens, parser.options, {}))


def _name_headings(tokens: list[Token]) -> None:
    """Give each heading an id made of its text, as GitHub does."""
    name_counts: dict[str, int] = {}
    for heading, inline in pairwise(tokens):
        if heading.type == "heading_open":
            name = slugify(inline.content) or "section"
            name_counts[name] = name_counts.get(name, 0) + 1
            heading.attrSet("id", name if name_counts[name] == 1 else f"{name}-{name_counts[name] - 1}")


def _with_site_links(tokens: list[Token], address_of: Callable[[str], str | None]) -> list[Token]:
    """Links led to the site's addresses; of those that lead nowhere on it, and of images, the text stays."""
    lines, is_open = [], []
    for token in tokens:
        if token.type == "link_open":
            address = address_of(str(token.attrGet("href") or ""))
            is_open.append(address is not None)
            if address is None:
                continue
            token.attrSet("href", address)
        elif token.type == "link_close" and not is_open.pop():
            continue
        elif token.type == "image":
            token = Token("text", "", 0, content=token.content)
        lines.append(token)
    return lines


def site_address(target: str, *, document: PurePosixPath, addresses: Mapping[PurePosixPath, str]) -> str | None:
    """The target of a document's link on the site.

    Parameters
    ----------
    target : str
        As the document has it: an anchor, an address of the site, another site, or a path relative to the document.
    addresses : mapping
        The addresses of the documents that the site shows, by their paths below ``docs``.
    """
    if target.startswith(("#", "/", "https://", "http://")):
        return target
    path, _, anchor = target.partition("#")
    parts: list[str] = []
    for part in (document.parent / path).parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    address = addresses.get(PurePosixPath(*parts))
    return f"{address}#{anchor}" if address and anchor else address
