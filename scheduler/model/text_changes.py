"""Changes of a document's text that make it say another value: what stays the same stays byte for byte.

The value before and the value meant are compared along the nodes of YAML's own parser, which reads JSON too. The text
that results is read again and held against what was meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import yaml

from .canonical import canonical_json
from .documents import Format
from .json_text import read_json
from .positions import Problems, UnreadableDocument
from .yaml_text import read_yaml, resolve_plain

LONGEST_EDITED = 256 * 1024  # characters
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*( [A-Za-z0-9_.]+)*")
_EMPTY_LIST = re.compile(r"( *)[A-Za-z_]+: *")  # what stands before it on its line


@dataclass(frozen=True, slots=True)
class TextChange:
    """The characters from ``start`` to before ``end`` of the text before give way to ``written``."""

    start: int
    end: int
    written: str


def document_value(text: str, format: Format) -> Any:
    """The JSON value of a text, whether or not a dataflow can be read from it; None where it is empty."""
    if not text.strip():
        return None
    return (read_json if format == "json" else read_yaml)(text, Problems()).plain()


def text_changes(text: str, meant: Mapping[str, Any], format: Format) -> tuple[TextChange, ...] | None:
    """The changes after which a document says ``meant``, in order and apart from each other.

    Returns
    -------
    tuple of TextChange, or None
        None where the text cannot be changed in place: it cannot be read, it is longer than `LONGEST_EDITED`, or an
        alias or a value over several lines stands in the way.
    """
    if len(text) > LONGEST_EDITED:
        return None
    try:
        before = document_value(text, format)
        # JSON may be indented by tabs, which YAML's parser refuses; inside of JSON's strings there are none.
        root = yaml.compose(text.replace("\t", " ") if format == "json" else text, Loader=yaml.SafeLoader)
        comparison = _Comparison(text, format)
        changes = [comparison.whole(meant)] if root is None else comparison.compared(root, before, meant)
        changes.sort(key=lambda change: change.start)
        if any(first.end > second.start for first, second in pairwise(changes)):
            return None
        is_same = canonical_json(document_value(applied(text, changes), format)) == canonical_json(meant)
    except (UnreadableDocument, yaml.YAMLError, RecursionError):
        return None
    return tuple(changes) if is_same else None


def applied(text: str, changes: Sequence[TextChange]) -> str:
    """The text after its changes."""
    for change in reversed(changes):
        text = text[:change.start] + change.written + text[change.end:]
    return text


class _Comparison:
    """Compares a text's nodes with what is meant."""

    def __init__(self, text: str, format: Format) -> None:
        self._text, self._format = text, format

    def whole(self, meant: Mapping[str, Any]) -> TextChange:
        """All of what is meant, where there is nothing yet but comments."""
        end = len(self._text)
        if self._format == "json":
            return TextChange(0, end, json.dumps(meant, indent=2, ensure_ascii=False) + "\n")
        lines = "".join(f"{self._entry(name, value, in_lines=True)}\n" for name, value in meant.items())
        return TextChange(end, end, ("\n" if self._text.strip() and self._text[-1:] != "\n" else "") + lines)

    def compared(self, node: yaml.Node, before: Any, meant: Any) -> list[TextChange]:
        if canonical_json(before) == canonical_json(meant):
            return []
        if isinstance(node, yaml.MappingNode) and isinstance(meant, Mapping) and meant:
            return self._of_mapping(node, before, meant)
        if isinstance(node, yaml.SequenceNode) and isinstance(meant, list) and node.value:
            return self._of_sequence(node, before, meant)
        if isinstance(meant, list) and (isinstance(node, yaml.SequenceNode) or self._is_nothing(node)):
            return [self._of_empty(node, meant)]
        return [TextChange(node.start_mark.index, self._end(node), self._in_place_of(node, meant))]

    def _of_mapping(self, node: yaml.MappingNode, before: Mapping, meant: Mapping) -> list[TextChange]:
        """Changes of values; a removed key gives its place to an added one, if there is any."""
        came = [name for name in meant if name not in before]
        spans, gone, changes = [], [], []
        for index, (key, value) in enumerate(node.value):
            spans.append((key.start_mark.index, self._end(value)))
            if key.value in meant:
                changes += self.compared(value, before.get(key.value), meant[key.value])
            elif came:
                name = came.pop(0)
                changes.append(TextChange(key.start_mark.index, key.end_mark.index, self._in_place_of(key, name)))
                changes += self.compared(value, before.get(key.value), meant[name])
            else:
                gone.append(index)
        changes += self._removed(node, spans, gone)
        in_lines = not node.flow_style and node.start_mark.column == 0
        added = [self._entry(name, meant[name], in_lines=in_lines) for name in came]
        return changes + (self._inserted(node, spans, len(spans), added, "") if added else [])

    def _of_sequence(self, node: yaml.SequenceNode, before: list, meant: list) -> list[TextChange]:
        spans = [(item.start_mark.index, self._end(item)) for item in node.value]
        gone: list[int] = []
        changes: list[TextChange] = []
        for old, new in _side_by_side([*map(canonical_json, before)], [*map(canonical_json, meant)]):
            if old.stop > old.start and new.stop > new.start:
                changes += self.compared(node.value[old.start], before[old.start], meant[new.start])
            elif old.stop > old.start:
                gone.append(old.start)
            else:
                added = [self._written(item) for item in meant[new]]
                changes += self._inserted(node, spans, old.start, added, "- ")
        return changes + self._removed(node, spans, gone)

    def _of_empty(self, node: yaml.SequenceNode, meant: list) -> TextChange:
        """Elements of a list that has none: a line for each where the list may have lines of its own."""
        start, end = node.start_mark.index, node.end_mark.index
        before = _EMPTY_LIST.fullmatch(self._text[self._line_start(start):start])
        if self._format == "yaml" and before is not None and any(isinstance(item, Mapping) for item in meant):
            lines = "".join(f"\n{before[1]}  - {self._written(item)}" for item in meant)
            return TextChange(start - (self._text[start - 1] == " "), end, lines)
        if self._is_nothing(node):
            return TextChange(start, end, f" {self._written(meant)}")
        return TextChange(end - 1, end - 1, ", ".join(map(self._written, meant)))

    def _is_nothing(self, node: yaml.Node) -> bool:
        """True if a key has no value."""
        return isinstance(node, yaml.ScalarNode) and node.start_mark.index == node.end_mark.index

    def _removed(self, node: yaml.CollectionNode, spans: list[tuple[int, int]], gone: list[int]) -> list[TextChange]:
        if gone and len(gone) == len(spans):
            empty = "" if node.flow_style else "{}" if isinstance(node, yaml.MappingNode) else "[]"
            start = spans[0][0] if node.flow_style else node.start_mark.index
            return [TextChange(start, spans[-1][1], empty)]
        if not node.flow_style:
            return [TextChange(self._line_start(spans[i][0]), self._line_end(spans[i][1]) + 1, "") for i in gone]
        first_left = next((index for index in range(len(spans)) if index not in gone), 0)
        ahead = [TextChange(spans[0][0], spans[first_left][0], "")] if first_left else []
        return ahead + [TextChange(spans[i - 1][1], spans[i][1], "") for i in gone if i > first_left]

    def _inserted(
        self, node: yaml.CollectionNode, spans: list[tuple[int, int]], index: int, added: list[str], dash: str
    ) -> list[TextChange]:
        if not node.flow_style:
            indent = " " * node.start_mark.column + dash
            if index == 0:
                at = self._line_start(spans[0][0])
                return [TextChange(at, at, "".join(f"{indent}{entry}\n" for entry in added))]
            at = self._line_end(spans[index - 1][1])
            return [TextChange(at, at, "".join(f"\n{indent}{entry}" for entry in added))]
        if not spans:
            return [TextChange(node.end_mark.index - 1, node.end_mark.index - 1, ", ".join(added))]
        start = spans[max(index - 1, 0)][0]
        lead = self._text[self._line_start(start):start]
        between = f",\n{lead}" if not lead.strip() and node.start_mark.index < start - len(lead) else ", "
        if index == 0:
            return [TextChange(start, start, "".join(f"{entry}{between}" for entry in added))]
        at = spans[index - 1][1]
        return [TextChange(at, at, "".join(f"{between}{entry}" for entry in added))]

    def _end(self, node: yaml.Node) -> int:
        """The end of a node's last value: a block's own end lies somewhere in the lines behind it."""
        if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
            start = node.start_mark.index
            return start + len(self._text[start:node.end_mark.index].rstrip())
        if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
            return node.end_mark.index
        last = node.value[-1]
        return self._end(last[1] if isinstance(last, tuple) else last)

    def _in_place_of(self, node: yaml.Node, value: Any) -> str:
        """A value as its place had one: lines stay lines, and text in quotes stays in quotes."""
        style = getattr(node, "style", None)
        if style == "|" and isinstance(value, str) and (lines := self._lines_like(node, value)):
            return lines
        if style in ("'", '"'):
            return _json(value)
        return self._written(value)

    def _lines_like(self, node: yaml.Node, value: str) -> str:
        """A text over lines, indented as the one before; empty where it cannot be written so."""
        first = re.compile(r"\|[^\n]*\n( +)").match(self._text, node.start_mark.index)
        body = value.removesuffix("\n")
        if first is None or not body.strip() or body[:1] in " \n" or body.endswith("\n"):
            return ""
        lines = "\n".join(f"{first[1]}{line}" if line else "" for line in body.split("\n"))
        return f"{'|' if value.endswith(chr(10)) else '|-'}\n{lines}"

    def _written(self, value: Any) -> str:
        """A value on one line: of YAML with the keys and words plain that mean the same without quotes."""
        if self._format == "json":
            return _json(value)
        if isinstance(value, Mapping):
            return f"{{{', '.join(f'{self._key(name)}: {self._written(inner)}' for name, inner in value.items())}}}"
        if isinstance(value, list):
            return f"[{', '.join(map(self._written, value))}]"
        return value if isinstance(value, str) and _is_plain(value) else _json(value)

    def _entry(self, name: str, value: Any, *, in_lines: bool) -> str:
        """A key with its value; a list of mappings with a line for each where there are lines."""
        if in_lines and isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            return "\n".join([f"{self._key(name)}:", *(f"  - {self._written(item)}" for item in value)])
        return f"{self._key(name)}: {self._written(value)}"

    def _key(self, name: str) -> str:
        return name if self._format == "yaml" and _is_plain(name) else _json(name)

    def _line_start(self, index: int) -> int:
        return self._text.rfind("\n", 0, index) + 1

    def _line_end(self, index: int) -> int:
        end = self._text.find("\n", index)
        return len(self._text) if end < 0 else end


def _side_by_side(old: list[str], new: list[str]) -> Iterator[tuple[slice, slice]]:
    """Elements of two lists that stand for each other, one of each; those that are gone, one of the old; and those that
    came, all at one place together."""
    in_both = set(old) & set(new)
    first = second = 0
    while first < len(old) or second < len(new):
        is_gone = second == len(new) or (first < len(old) and old[first] not in in_both)
        came = second
        while came < len(new) and (first == len(old) or new[came] not in in_both):
            came += 1
        if is_gone and came == second:
            yield slice(first, first + 1), slice(second, second)
            first += 1
        elif is_gone or came == second:
            yield slice(first, first + 1), slice(second, second + 1)
            first, second = first + 1, second + 1
        else:
            yield slice(first, first), slice(second, came)
            second = came


def _is_plain(text: str) -> bool:
    return bool(_PLAIN.fullmatch(text)) and isinstance(resolve_plain(text), str)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
