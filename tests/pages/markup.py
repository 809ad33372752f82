"""What a page's markup says of itself, read with the standard library's parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

NAMED_BY_LABEL = {"input", "select", "textarea"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


@dataclass
class Element:
    """A start tag with its attributes, and the text inside."""

    tag: str
    attributes: dict[str, str | None]
    ancestors: tuple[str, ...]
    text: list[str] = field(default_factory=list)


class Markup(HTMLParser):
    """Collects elements in order; mismatched tags are noted as ``errors``."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.errors: list[str] = []
        self._open: list[Element] = []
        self.feed(html)
        self.close()
        self.errors += [f"<{element.tag}> is not closed" for element in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs), tuple(above.tag for above in self._open))
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs), tuple(above.tag for above in self._open)))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self._open or self._open[-1].tag != tag:
            self.errors.append(f"</{tag}> closes {self._open[-1].tag if self._open else 'nothing'}")
            return
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text.append(data)

    def every(self, *tags: str) -> list[Element]:
        """The elements of these tags, in order."""
        return [element for element in self.elements if element.tag in tags]

    def with_style_or_behaviour(self) -> list[str]:
        """Inline styles, scripts and handlers: the policy refuses them, so none may be there."""
        named = [(element.tag, name) for element in self.elements for name in element.attributes]
        found = [f"<{tag} {name}>" for tag, name in named if name == "style" or name.startswith("on")]
        found += ["<style>" for _ in self.every("style")]
        return found + ["inline <script>" for e in self.every("script") if "src" not in e.attributes]

    def without_name(self) -> list[str]:
        """Controls that a screen reader could not name."""
        labelled = {element.attributes.get("for") for element in self.every("label")}
        found = []
        for element in self.elements:
            named = element.attributes.get("aria-label") or element.attributes.get("aria-labelledby")
            if element.tag in NAMED_BY_LABEL and element.attributes.get("type") not in {"hidden", "submit"}:
                named = named or element.attributes.get("id") in labelled or "label" in element.ancestors
            elif element.tag in {"button", "a", "summary"}:
                named = named or "".join(element.text).strip()
            elif element.tag in {"nav", "dialog", "progress"}:
                pass
            else:
                continue
            if not named:
                found.append(f"<{element.tag} {element.attributes}>")
        return found

    def repeated_ids(self) -> list[str]:
        """Ids that stand twice."""
        ids = [element.attributes["id"] for element in self.elements if element.attributes.get("id")]
        return sorted({found for found in ids if ids.count(found) > 1})

    def dangling_references(self) -> list[str]:
        """References by id to what is not there."""
        ids = {element.attributes.get("id") for element in self.elements}
        found = []
        for element in self.elements:
            for name in ("for", "aria-labelledby", "aria-controls", "aria-describedby", "data-dialog"):
                wanted = (element.attributes.get(name) or "").split()
                found += [f"{name}={target}" for target in wanted if target not in ids]
        return found
