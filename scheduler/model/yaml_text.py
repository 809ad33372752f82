"""YAML with the place of every value: the JSON part of YAML 1.2, read event by event so that no file can hurt.

Plain scalars follow YAML 1.2's core schema (``no`` and ``12:30`` are text, ``1e3`` is a number). Tags, several
documents and merge keys are refused, aliases are followed within the bound on values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

from .positions import MAX_DEPTH, MAX_VALUES, Node, Place, Problems, Unreadable, child_path, shown

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?[0-9]{1,40}|0o[0-7]{1,50}|0x[0-9a-fA-F]{1,40}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS = {
    word: value
    for value, words in ((None, "~ null Null NULL"), (True, "true True TRUE"), (False, "false False FALSE"))
    for word in words.split()
} | {"": None}


def read_yaml(text: str, problems: Problems) -> Node:
    """Parse YAML text; raises Unreadable where reading on would be guessing."""
    try:
        return _Reader(problems).document(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise problems.stop(
            "yaml_syntax", _place(mark), f"The YAML cannot be read: {error.problem or error.context}.",
            "Check the indentation, the colons and the quotes of this line and the one before.",
        ) from None
    except yaml.YAMLError as error:
        position = getattr(error, "position", 0)
        position = position if isinstance(position, int) else 0
        before = text.encode()[:position].decode(errors="ignore")
        raise problems.stop(
            "yaml_syntax", Place(before.count("\n") + 1, len(before) - before.rfind("\n")),
            f"The YAML cannot be read: {getattr(error, 'reason', 'a character is not allowed')}.",
            "Remove control characters; in double quotes they may be written as escapes.",
        ) from None


def resolve_plain(text: str) -> Any:
    """What a plain scalar means. Raises OverflowError for a number that no double holds, or that is not finite."""
    if text in _WORDS:
        return _WORDS[text]
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


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come yet."""

    node: Node
    anchor: str | None
    key: str | None = None  # of a mapping: the key whose value comes next
    key_place: Place | None = None
    refused: bool = False  # of a mapping: that key has been reported, its value is dropped


class _Reader:
    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.anchors: dict[str, Node | None] = {}  # None while the anchor's value is still being read
        self.stack: list[_Open] = []
        self.root: Node | None = None
        self.values = 0

    def document(self, text: str) -> Node:
        documents = 0
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self.stop(
                        "several_documents", event, "A second YAML document begins here.",
                        "Submit one dataflow a file: remove the --- line and what follows it.",
                    )
            elif isinstance(event, yaml.NodeEvent):
                self.node(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self.close()
        return self.root or Node(None, Place(1, 1))

    def node(self, event: yaml.NodeEvent) -> None:
        if isinstance(event, yaml.AliasEvent):
            self.alias(event)
            return
        if event.tag is not None:
            self.problems.add(
                "yaml_tag", self.at(event), f"Tag {shown(event.tag)} is not read.",
                "Remove the tag: a dataflow holds text, numbers, true, false, null, lists and mappings.",
            )
        self.count(event, 1)
        if isinstance(event, yaml.ScalarEvent):
            if self.awaits_key():
                self.begin_key(event)
                return
            node = Node(self.scalar(event), self.at(event))
            if event.anchor:
                self.anchors[event.anchor] = node
            self.put(node)
            return
        self.nest(event, 1)
        if self.awaits_key():
            raise self.stop("key_not_text", event, "A key is a list or a mapping.", "Write keys as text.")
        node = Node({} if isinstance(event, yaml.MappingStartEvent) else [], self.at(event))
        self.stack.append(_Open(node, event.anchor))
        if event.anchor:
            self.anchors[event.anchor] = None

    def alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self.anchors:
            raise self.stop(
                "unknown_alias", event, f"Alias *{shown(event.anchor)} has no anchor before it.",
                f"Mark the value with &{shown(event.anchor)}, or write it out here.",
            )
        node = self.anchors[event.anchor]
        if node is None:
            raise self.stop(
                "recursive_alias", event, f"Alias *{shown(event.anchor)} stands inside of its own value.",
                "Write the value out.",
            )
        if self.awaits_key():
            raise self.stop("key_not_text", event, "A key is an alias.", "Write keys as text.")
        self.nest(event, node.height)
        self.count(event, node.size)
        self.put(node)

    def nest(self, event: yaml.NodeEvent, levels: int) -> None:
        if len(self.stack) + levels > MAX_DEPTH:
            raise self.stop(
                "too_deep", event, f"Values are nested more than {MAX_DEPTH} deep, aliases expanded.",
                "Flatten what is nested here.",
            )

    def count(self, event: yaml.NodeEvent, values: int) -> None:
        self.values += values
        if self.values > MAX_VALUES:
            raise self.stop(
                "too_many_values", event, f"The document has more than {MAX_VALUES:,} values, its aliases expanded.",
                "Write fewer aliases, or split the dataflow.",
            )

    def awaits_key(self) -> bool:
        return bool(self.stack) and self.stack[-1].node.is_mapping and self.stack[-1].key is None

    def begin_key(self, event: yaml.ScalarEvent) -> None:
        plain = event.implicit[0]
        place = self.at(event, event.value)
        key = self.problems.clean(event.value, place)
        refused = False
        if plain and not isinstance(self.scalar(event), str):
            self.problems.add(
                "key_not_text", place, f"Key {shown(key) or 'without a name'} is not text.", "Put the key into quotes."
            )
            refused = True
        elif plain and key == "<<":
            self.problems.add("merge_key", place, "Merge keys (<<) are not read.", "Write the merged keys out.")
            refused = True
        if event.anchor:
            self.anchors[event.anchor] = Node(key, place)
        parent = self.stack[-1]
        parent.key, parent.key_place, parent.refused = key, place, refused

    def scalar(self, event: yaml.ScalarEvent) -> Any:
        if not event.implicit[0]:  # quoted
            return self.problems.clean(event.value, self.at(event))
        try:
            value = resolve_plain(event.value)
            return self.problems.clean(value, self.at(event)) if isinstance(value, str) else value
        except OverflowError:
            code = "not_finite" if _NOT_FINITE.fullmatch(event.value) else "out_of_range"
            self.problems.add(
                code, self.at(event), f"Number {shown(event.value)} is not finite.", "Write a finite number, or null."
            )
            return None

    def put(self, node: Node) -> None:
        """Put a finished value where it belongs."""
        if not self.stack:
            self.root = node
            return
        parent = self.stack[-1]
        if parent.node.is_list:
            parent.node.value.append(node)
            return
        if parent.key in parent.node.value:
            self.problems.add(
                "duplicate_key", parent.key_place,
                f"Key {shown(parent.key)} is there twice; the first is on line {parent.node.keys[parent.key].line}.",
                "Keep one of the two.",
            )
        elif not parent.refused:
            parent.node.value[parent.key], parent.node.keys[parent.key] = node, parent.key_place
        parent.key = None

    def close(self) -> None:
        ended = self.stack.pop()
        children = list(ended.node.value.values()) if ended.node.is_mapping else ended.node.value
        ended.node.size = 1 + sum(child.size for child in children)
        ended.node.height = 1 + max((child.height for child in children), default=0)
        if ended.anchor:
            self.anchors[ended.anchor] = ended.node
        self.put(ended.node)

    def at(self, event: yaml.Event, key: str | None = None) -> Place:
        """An event's place; its path follows from what is open around it."""
        path = ""
        if self.stack:
            parent = self.stack[-1]
            path = parent.node.place.path
            step = key if key is not None else parent.key
            path = child_path(path, len(parent.node.value) if parent.node.is_list else step)
        return _place(event.start_mark, path)

    def stop(self, code: str, event: yaml.Event, message: str, remedy: str) -> Unreadable:
        return self.problems.stop(code, self.at(event), message, remedy)


def _place(mark: yaml.Mark | None, path: str = "") -> Place:
    return Place(1, 1, path) if mark is None else Place(mark.line + 1, mark.column + 1, path)
