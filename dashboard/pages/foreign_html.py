"""HTML of another program made harmless: written anew from its texts, tables, lists and links, and nothing else of it.

No script, style, form, frame, picture, event handler, id or class comes through, and no address but those that the
caller gives in a link's place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from html import escape
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urlsplit

MOST_ELEMENTS = 20_000
DEEPEST = 60
PIECE, LONGEST_TAG = 4_096, 8_192  # characters that are parsed at a time, and those of a tag with its attributes
_PLAIN = {  # by what they become
    **{name: name for name in ("table", "thead", "tbody", "tr", "th", "td", "ul", "ol", "li", "p", "pre", "strong",
                               "code", "em", "dl", "dt", "dd")},
    "h1": "h2", "h2": "h2", "h3": "h2", "h4": "h3", "h5": "h3", "h6": "h3", "b": "strong", "i": "em"}
_LEFT_OUT = frozenset({
    "script", "style", "svg", "head", "title", "form", "button", "select", "option", "textarea", "iframe", "object",
    "noscript", "template", "math", "nav", "footer", "canvas", "audio", "video"})
_VOID = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"})

Link = Callable[[str, Mapping[str, str]], str | None]


def harmless(html: str, *, link: Link) -> str:
    """The HTML as it may stand within a page, up to the first tag or comment that is too long.

    Parameters
    ----------
    link : callable
        Gives the address for a link by its path, without the ``/`` before it, and its parameters; None where the link
        is to be plain text.
    """
    rewriter = _Rewriter(link)
    for begin in range(0, len(html), PIECE):
        rewriter.feed(html[begin:begin + PIECE])
        if rewriter.cdata_elem:  # a script or a style, of which the end alone is wanted
            rewriter.rawdata = rewriter.rawdata[-PIECE:]
        elif len(rewriter.rawdata) > LONGEST_TAG:  # it is tried again with each piece
            break
    else:
        if "<" not in rewriter.rawdata:  # a tag without an end; Python tries each "<" in it up to the very end
            rewriter.close()
    return rewriter.finished()


class _Rewriter(HTMLParser):
    """Writes what is let through, each element with its end."""

    def __init__(self, link: Link) -> None:
        super().__init__(convert_charrefs=True)
        self._link, self._written = link, list[str]()
        self._open: list[tuple[str, str]] = []  # elements as they were called, with what was written for each
        self._names = Counter[str]()  # of those that are open
        self._skips, self._elements = 0, 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "br" and not self._skips:
            self._written.append("<br>")
        if tag in _VOID:
            return
        self._elements += 1
        if tag in _LEFT_OUT:
            self._skips += 1
        written = "" if self._skips or self._elements > MOST_ELEMENTS or len(self._open) >= DEEPEST else self._open_tag(
            tag, {name: value or "" for name, value in attrs})
        if len(self._open) < 10 * DEEPEST:
            self._open.append((tag, written))
            self._names[tag] += 1
        elif tag in _LEFT_OUT:
            self._skips -= 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)  # as browsers do: only void elements end themselves

    def handle_endtag(self, tag: str) -> None:
        if self._names[tag]:
            while self._close_last() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not self._skips:
            self._written.append(escape(data))

    def finished(self) -> str:
        """The written text, with everything ended."""
        while self._open:
            self._close_last()
        return "".join(self._written)

    def _open_tag(self, tag: str, attributes: Mapping[str, str]) -> str:
        """Write the begin of an element; its name where it needs an end."""
        if tag == "a":
            address = self._address(attributes.get("href", ""))
            if address is not None:
                self._written.append(f'<a href="{escape(address)}">')
            return "" if address is None else "a"
        name = _PLAIN.get(tag, "")
        if name:
            spans = "".join(
                f' {span}="{int(value)}"' for span in ("colspan", "rowspan") if tag in ("td", "th")
                and (value := attributes.get(span, "")).isascii() and value.isdecimal() and len(value) < 3)
            self._written.append('<table class="table">' if name == "table" else f"<{name}{spans}>")
        elif tag == "div":
            self._written.append(" ")
        return name

    def _address(self, href: str) -> str | None:
        try:
            parts = urlsplit(href)
            if parts.scheme or parts.netloc or not parts.path.startswith("/"):
                return None
            return self._link(parts.path.lstrip("/"), dict(parse_qsl(parts.query, max_num_fields=10)))
        except ValueError:
            return None

    def _close_last(self) -> str:
        tag, written = self._open.pop()
        self._names[tag] -= 1
        if tag in _LEFT_OUT:
            self._skips -= 1
        if written:
            self._written.append(f"</{written}>")
        return tag
