"""A page as tests read it: its data attributes, and whether its markup is sound. By the standard library's parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

from django.http import HttpResponse

NAMED_BY_LABEL = {"input", "select", "textarea"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Scope:
    """Reads the data attributes of its elements; what a sentence on a page says stands in one of these, too.

    ========================  =========================================================================================
    ``data-field``            the name of a figure; ``data-value`` beside it holds the figure, not rounded
    ``data-note``             the name of a notice or of an empty state that is shown
    ``data-error``            the code of an error that is shown
    ``data-flash``            the code of a message about what was just done: an error's, or what was done
    ``data-status``           the state that a chip shows
    ``data-cause``            the cause of what went wrong, as the API names it
    ========================  =========================================================================================
    """

    elements: list[Element]

    def having(self, name: str, value: str | None = None) -> list[Element]:
        """The elements with this attribute, and with this value where one is given."""
        return [element for element in self.elements
                if name in element.attributes and value in (None, element.attributes[name])]

    def one(self, name: str, value: str | None = None) -> Element:
        """The only element with this attribute."""
        [element] = self.having(name, value)
        return element

    def by(self, name: str) -> dict[str, Element]:
        """Elements by the value of an attribute that is their key."""
        elements = self.having(name)
        keyed = {element.attributes[name]: element for element in elements}
        assert len(keyed) == len(elements), f"{name} is no key"
        return keyed

    def values(self, name: str) -> list[str]:
        """The values of an attribute wherever it is, in order."""
        return [element.attributes[name] or "" for element in self.having(name)]

    def field(self, name: str) -> str:
        """The value of a figure that is shown once."""
        return self.one("data-field", name).attributes["data-value"]

    def number(self, name: str) -> float:
        """The value of a figure as a number."""
        return float(self.field(name))

    @property
    def notes(self) -> set[str]:
        """The names of the notices that are shown."""
        return set(self.values("data-note"))

    @property
    def flashes(self) -> list[str]:
        """The codes of the messages about what was just done."""
        return self.values("data-flash")

    @property
    def statuses(self) -> list[str]:
        """The states that chips show."""
        return self.values("data-status")

    def submits(self, address: str) -> bool:
        """Whether a form or a button sends to an address."""
        return bool(self.having("action", address) or self.having("formaction", address))

    def links(self, address: str) -> bool:
        """Whether a link leads to an address."""
        return bool(self.having("href", address))

    def every(self, *tags: str) -> list[Element]:
        """The elements of these tags, in order."""
        return [element for element in self.elements if element.tag in tags]


@dataclass
class Element(Scope):
    """A start tag with its attributes, the text inside and the elements inside."""

    tag: str
    attributes: dict[str, str | None]
    above: tuple[Element, ...]
    fragments: list[str] = field(default_factory=list)
    elements: list[Element] = field(default_factory=list)

    @property
    def ancestors(self) -> tuple[str, ...]:
        """The tags that it is within, the outermost first."""
        return tuple(element.tag for element in self.above)

    @property
    def seen(self) -> str:
        """The text inside without what is hidden from assistive technology."""
        hidden = "".join(inner.text for inner in self.elements if inner.attributes.get("aria-hidden") == "true")
        return self.text.replace(hidden, "", 1).strip()

    @property
    def text(self) -> str:
        """The text inside, with single spaces."""
        return " ".join("".join(self.fragments).split())


class Markup(HTMLParser, Scope):
    """Collects elements in order; mismatched tags are noted as ``errors``."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements = []
        self.errors: list[str] = []
        self._open: list[Element] = []
        self.feed(html)
        self.close()
        self.errors += [f"<{element.tag}> is not closed" for element in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = self._add(tag, attrs)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(tag, attrs)

    def _add(self, tag: str, attributes: list[tuple[str, str | None]]) -> Element:
        element = Element(tag, dict(attributes), tuple(self._open))
        self.elements.append(element)
        for around in self._open:
            around.elements.append(element)
        return element

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self._open or self._open[-1].tag != tag:
            self.errors.append(f"</{tag}> closes {self._open[-1].tag if self._open else 'nothing'}")
            return
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.fragments.append(data)

    def with_style_or_behaviour(self) -> list[str]:
        """Inline styles, scripts and handlers: the policy refuses them, so none may be there."""
        named = [(element.tag, name) for element in self.elements for name in element.attributes]
        forbidden = [f"<{tag} {name}>" for tag, name in named if name == "style" or name.startswith("on")]
        forbidden += ["<style>" for _ in self.every("style")]
        data = ("application/json",)  # which the policy lets stand, for nothing runs it
        return forbidden + [
            "inline <script>" for e in self.every("script")
            if "src" not in e.attributes and e.attributes.get("type") not in data]

    def without_name(self) -> list[str]:
        """Controls that a screen reader could not name."""
        labelled = {element.attributes.get("for") for element in self.every("label")}
        nameless = []
        for element in self.elements:
            named = element.attributes.get("aria-label") or element.attributes.get("aria-labelledby")
            if element.tag in NAMED_BY_LABEL and element.attributes.get("type") not in {"hidden", "submit"}:
                named = named or element.attributes.get("id") in labelled or "label" in element.ancestors
            elif element.tag in {"button", "a", "summary"}:
                named = named or element.text
            elif element.tag in {"nav", "dialog", "progress"}:
                pass
            else:
                continue
            if not named:
                nameless.append(f"<{element.tag} {element.attributes}>")
        return nameless

    def repeated_landmarks(self) -> list[tuple[str, str]]:
        """Landmarks of one kind that have the same name, so that who jumps among them cannot tell them apart."""
        named = {element.attributes["id"]: element.text for element in self.having("id")}
        landmarks = []
        for element in self.elements:
            names = element.attributes.get("aria-labelledby") or ""
            label = element.attributes.get("aria-label") or named.get(names, "")
            kind = element.attributes.get("role") or {"form": "form", "section": "region"}.get(element.tag, element.tag)
            if kind in {"nav", "search", "main", "aside"} or (kind in {"form", "region"} and label):
                landmarks.append((kind, label))
        return sorted({landmark for landmark in landmarks if landmarks.count(landmark) > 1})

    def misnamed(self) -> list[str]:
        """Controls whose label lacks the text that is seen: who speaks that text to the browser does not reach them."""
        return [
            f"{element.attributes['aria-label']!r} lacks {seen!r}" for element in self.every("a", "button", "summary")
            if element.attributes.get("aria-label") and (seen := element.seen)
            and seen.lower() not in element.attributes["aria-label"].lower()]

    def repeated_ids(self) -> list[str]:
        """Ids that stand twice."""
        ids = [element.attributes["id"] for element in self.elements if element.attributes.get("id")]
        return sorted({element_id for element_id in ids if ids.count(element_id) > 1})

    def dangling_references(self) -> list[str]:
        """References by id to what is not there."""
        ids = {element.attributes.get("id") for element in self.elements}
        dangling = []
        for element in self.elements:
            for name in ("for", "aria-labelledby", "aria-controls", "aria-describedby", "data-dialog"):
                wanted = (element.attributes.get(name) or "").split()
                dangling += [f"{name}={target}" for target in wanted if target not in ids]
        return dangling


def assert_sound(response: HttpResponse, address: str) -> None:
    """The policy is strict and holds; markup closes, names its controls and points at what is there."""
    policy = response.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    markup = Markup(response.text)
    assert markup.errors == [], address
    assert markup.with_style_or_behaviour() == [], address
    assert markup.without_name() == [], address
    assert markup.repeated_ids() == [], address
    assert markup.repeated_landmarks() == [], address
    assert markup.misnamed() == [], address
    assert markup.dangling_references() == [], address
    assert len(markup.every("h1")) == 1, address
    assert len(markup.every("main")) == 1, address
    assert markup.every("html")[0].attributes["lang"] == "en"
    texts = {part.strip() for element in markup.every("td", "dd", "b") for part in element.fragments}
    assert "None" not in texts | set(markup.values("data-value")), address
