"""YAML with the position of every value: the JSON part of YAML 1.2, within bounds.

It is read event by event: ``yaml.compose`` with libyaml's loader recurses in C, so that a file of brackets ends the
process, and takes several times as long for a file of many small values. Plain scalars follow YAML 1.2's core schema
(``no`` and ``12:30`` are text, ``1e3`` is a number). Tags, several documents and merge keys are refused, aliases are
followed within the bound on values.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import yaml

from .bounds import DOCUMENT_CHARACTERS, DOCUMENT_DEPTH, DOCUMENT_VALUES
from .positions import DocumentNode, Problems, TextPosition, child_path, shown

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?[0-9]{1,40}|0o[0-7]{1,50}|0x[0-9a-fA-F]{1,40}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS = {
    word: value
    for value, words in ((None, "~ null Null NULL"), (True, "true True TRUE"), (False, "false False FALSE"))
    for word in words.split()
} | {"": None}


def read_yaml(text: str, problems: Problems) -> DocumentNode:
    """Parse YAML text; raises Unreadable where reading on would be guessing."""
    try:
        return _Reader(text, problems).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise problems.stop("yaml_syntax", _position(mark), *_in_words(error, text, mark)) from None
    except yaml.YAMLError as error:
        at_byte = getattr(error, "position", 0)
        at_byte = at_byte if isinstance(at_byte, int) else 0
        before = text.encode()[:at_byte].decode(errors="ignore")
        raise problems.stop(
            "yaml_syntax", TextPosition(before.count("\n") + 1, len(before) - before.rfind("\n")),
            f"The YAML cannot be read: {getattr(error, 'reason', 'a character is not allowed')}.",
            "Remove control characters; in double quotes they may be written as escapes.",
        ) from None


def _in_words(error: yaml.MarkedYAMLError, text: str, mark: yaml.Mark | None) -> tuple[str, str]:
    """The fault and the remedy: the parser's own words say neither of a tab nor of a name."""
    lines = text.splitlines()
    line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    if "\t" in line[:len(line) - len(line.lstrip())]:
        return "A tab indents this line, which YAML does not allow.", "Indent it by spaces."
    if any(word in (error.context or "") for word in ("anchor", "alias")):
        return ("The name behind & or * has a character that is none of a to z, A to Z, 0 to 9, - and _.",
                "Name it with these, such as &tasks and *tasks.")
    return (f"The YAML cannot be read: {error.problem or error.context}.",
            "Check the indentation, the colons and the quotes of this line and the one before.")


def resolve_plain(text: str) -> Any:
    """The value of a plain scalar. Raises OverflowError for a number that no double holds, or that is not finite."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _NOT_FINITE.fullmatch(text):
        raise OverflowError
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text.startswith("0o") or text.startswith("0x") else int(text)
    if _FLOAT.fullmatch(text):
        value = float(text)
        if abs(value) == float("inf"):
            raise OverflowError
        return value
    return text


class _Reader:
    def __init__(self, text: str, problems: Problems) -> None:
        self.events = yaml.parse(text, Loader=_LOADER)
        self.problems = problems
        self.anchors: dict[str, DocumentNode | None] = {}  # None while the anchor's value is still being read
        self.values = self.characters = 0

    def document(self) -> DocumentNode:
        root = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                raise self.problems.stop(
                    "several_documents", _position(event.start_mark), "A second YAML document begins here.",
                    "Submit one dataflow a file: remove the --- line and what follows it.",
                )
            if isinstance(event, yaml.NodeEvent):
                root = self.value(event, "", 0)
        return root or DocumentNode(None, TextPosition(1, 1))

    def value(self, event: yaml.NodeEvent, path: str, depth: int) -> DocumentNode:
        """The value that begins with an event, inside of so many lists and mappings."""
        position = _position(event.start_mark, path)
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, position, depth)
        self.check_node(event, position)
        if isinstance(event, yaml.ScalarEvent):
            node = DocumentNode(self.scalar(event, position), position, characters=len(event.value))
        else:
            self.check_depth(depth + 1, position)
            if event.anchor:
                self.anchors[event.anchor] = None
            node = (self.mapping if isinstance(event, yaml.MappingStartEvent) else self.list)(position, depth + 1)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def mapping(self, position: TextPosition, depth: int) -> DocumentNode:
        node = DocumentNode({}, position)
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self.key(event, position)
            value = self.value(next(self.events), key.position.path, depth)
            if key.value in node.value:
                self.problems.add(
                    "duplicate_key", key.position,
                    f"Key {shown(key.value)} is there twice; the first is on line {node.keys[key.value].line}.",
                    "Keep one of the two.",
                )
            elif key.value is not None:
                node.value[key.value], node.keys[key.value] = value, key.position
        return _measured(node, node.value.values())

    def list(self, position: TextPosition, depth: int) -> DocumentNode:
        node = DocumentNode([], position)
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            node.value.append(self.value(event, child_path(position.path, len(node.value)), depth))
        return _measured(node, node.value)

    def key(self, event: yaml.NodeEvent, parent: TextPosition) -> DocumentNode:
        """A mapping's key with the position of its value; None for one that is refused."""
        if not isinstance(event, yaml.ScalarEvent):
            key_kind = "an alias" if isinstance(event, yaml.AliasEvent) else "a list or a mapping"
            position = _position(event.start_mark, parent.path)
            raise self.problems.stop("key_not_text", position, f"A key is {key_kind}.", "Write keys as text.")
        position = _position(event.start_mark, child_path(parent.path, event.value))
        self.check_node(event, position)
        key = self.problems.clean(event.value, position)
        if event.anchor:
            self.anchors[event.anchor] = DocumentNode(key, position)
        if event.implicit[0] and not isinstance(self.scalar(event, position), str):
            self.problems.add(
                "key_not_text", position, f"Key {shown(key) or 'without a name'} is not text.",
                "Put the key into quotes.",
            )
        elif event.implicit[0] and key == "<<":
            self.problems.add("merge_key", position, "Merge keys (<<) are not read.", "Write the merged keys out.")
        else:
            return DocumentNode(key, position)
        return DocumentNode(None, position)

    def alias(self, event: yaml.AliasEvent, position: TextPosition, depth: int) -> DocumentNode:
        if event.anchor not in self.anchors:
            raise self.problems.stop(
                "unknown_alias", position, f"Alias *{shown(event.anchor)} has no anchor before it.",
                f"Mark the value with &{shown(event.anchor)}, or write it out here.",
            )
        node = self.anchors[event.anchor]
        if node is None:
            raise self.problems.stop(
                "recursive_alias", position, f"Alias *{shown(event.anchor)} stands inside of its own value.",
                "Write the value out.",
            )
        self.check_depth(depth + node.height, position)
        self.count(node.size, node.characters, position)
        return node

    def scalar(self, event: yaml.ScalarEvent, position: TextPosition) -> Any:
        if not event.implicit[0]:  # quoted
            return self.problems.clean(event.value, position)
        try:
            value = resolve_plain(event.value)
        except OverflowError:
            code = "not_finite" if _NOT_FINITE.fullmatch(event.value) else "out_of_range"
            self.problems.add(
                code, position, f"Number {shown(event.value)} is not finite.", "Write a finite number, or null."
            )
            return None
        return self.problems.clean(value, position) if isinstance(value, str) else value

    def check_node(self, event: yaml.NodeEvent, position: TextPosition) -> None:
        if event.tag is not None:
            self.problems.add(
                "yaml_tag", position, f"Tag {shown(event.tag)} is not read.",
                "Remove the tag: a dataflow holds text, numbers, true, false, null, lists and mappings.",
            )
        self.count(1, len(event.value) if isinstance(event, yaml.ScalarEvent) else 0, position)

    def check_depth(self, depth: int, position: TextPosition) -> None:
        if depth > DOCUMENT_DEPTH.most:
            raise self.problems.stop(
                "too_deep", position, f"Values are nested more than {DOCUMENT_DEPTH.most} deep, aliases expanded.",
                "Flatten what is nested here.",
            )

    def count(self, values: int, characters: int, position: TextPosition) -> None:
        self.values += values
        self.characters += characters
        if self.values > DOCUMENT_VALUES.most or self.characters > DOCUMENT_CHARACTERS.most:
            raise self.problems.stop(
                "too_many_values", position, f"The document has more than {DOCUMENT_VALUES.most:,} values, or "
                f"{DOCUMENT_CHARACTERS.most:,} characters, its aliases expanded.",
                "Write fewer aliases, or split the dataflow.",
            )


def _measured(node: DocumentNode, children: Collection[DocumentNode]) -> DocumentNode:
    """The node with its size and height, by which aliases to it are bounded."""
    node.size = 1 + sum(child.size for child in children)
    node.height = 1 + max((child.height for child in children), default=0)
    node.characters = sum(child.characters for child in children) + sum(map(len, node.keys))
    return node


def _position(mark: yaml.Mark | None, path: str = "") -> TextPosition:
    return TextPosition(1, 1, path) if mark is None else TextPosition(mark.line + 1, mark.column + 1, path)
