"""Changes of a document's text that make it say another value: what stays the same stays byte for byte.

The value before and the value meant are compared along the nodes of YAML's own parser, which reads JSON too. The text
that results is read again and held against what was meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

import yaml

from .canonical import canonical_json
from .documents import Format
from .editing import LONGEST_EDITED
from .json_text import read_json
from .positions import Problems, UnreadableDocument
from .yaml_text import read_yaml

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class TextChange:
    """The characters from ``start`` to before ``end`` of the text before give way to ``written``."""

    start: int
    end: int
    written: str


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
        before = _value(text, format)
        root = yaml.compose(text.replace("\t", " ") if format == "json" else text, Loader=yaml.SafeLoader)
        changes = sorted(_Comparison(text, format).compared(root, before, meant), key=lambda change: change.start)
        if any(first.end > second.start for first, second in pairwise(changes)):
            return None
        same = canonical_json(_value(applied(text, changes), format)) == canonical_json(meant)
    except (UnreadableDocument, yaml.YAMLError, RecursionError):
        return None
    return tuple(changes) if same else None


def applied(text: str, changes: Sequence[TextChange]) -> str:
    """The text after its changes."""
    for change in reversed(changes):
        text = text[:change.start] + change.written + text[change.end:]
    return text


def undone(text: str, changes: Sequence[TextChange]) -> tuple[TextChange, ...]:
    """The changes that lead from the changed text back to ``text``."""
    back, moved = [], 0
    for change in changes:
        start = change.start + moved
        back.append(TextChange(start, start + len(change.written), text[change.start:change.end]))
        moved += len(change.written) - (change.end - change.start)
    return tuple(back)


def _value(text: str, format: Format) -> Any:
    return (read_json if format == "json" else read_yaml)(text, Problems()).plain()


class _Comparison:
    """Compares a text's nodes with what is meant."""

    def __init__(self, text: str, format: Format) -> None:
        self._text, self._format = text, format

    def compared(self, node: yaml.Node, before: Any, meant: Any) -> list[TextChange]:
        if canonical_json(before) == canonical_json(meant):
            return []
        if isinstance(node, yaml.MappingNode) and isinstance(meant, Mapping) and meant:
            return self._of_mapping(node, before, meant)
        if isinstance(node, yaml.SequenceNode) and isinstance(meant, list) and node.value:
            return self._of_sequence(node, before, meant)
        if isinstance(node, yaml.SequenceNode) and isinstance(meant, list):
            inner = ", ".join(map(_json, meant))
            return [TextChange(node.end_mark.index - 1, node.end_mark.index - 1, inner)]
        return [TextChange(node.start_mark.index, _end(node), _json(meant))]

    def _of_mapping(self, node: yaml.MappingNode, before: Mapping, meant: Mapping) -> list[TextChange]:
        spans, gone, changes = [], [], []
        for index, (key, value) in enumerate(node.value):
            spans.append((key.start_mark.index, _end(value)))
            if key.value in meant:
                changes += self.compared(value, before.get(key.value), meant[key.value])
            else:
                gone.append(index)
        added = [f"{self._key(name)}: {_json(value)}" for name, value in meant.items() if name not in before]
        changes += self._removed(node, spans, gone)
        return changes + (self._inserted(node, spans, len(spans), added, "") if added else [])

    def _of_sequence(self, node: yaml.SequenceNode, before: list, meant: list) -> list[TextChange]:
        spans = [(item.start_mark.index, _end(item)) for item in node.value]
        gone: list[int] = []
        changes: list[TextChange] = []
        old, new = [canonical_json(item) for item in before], [canonical_json(item) for item in meant]
        for _, start, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            shared = min(end - start, last - first)
            for offset in range(shared):
                changes += self.compared(node.value[start + offset], before[start + offset], meant[first + offset])
            gone += range(start + shared, end)
            if added := [_json(item) for item in meant[first + shared:last]]:
                changes += self._inserted(node, spans, start + shared, added, "- ")
        return changes + self._removed(node, spans, gone)

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
        start = spans[max(index - 1, 0)][0]
        lead = self._text[self._line_start(start):start]
        between = f",\n{lead}" if not lead.strip() and node.start_mark.index < start - len(lead) else ", "
        if index == 0:
            return [TextChange(start, start, "".join(f"{entry}{between}" for entry in added))]
        at = spans[index - 1][1]
        return [TextChange(at, at, "".join(f"{between}{entry}" for entry in added))]

    def _key(self, name: str) -> str:
        return name if self._format == "yaml" and _PLAIN_KEY.fullmatch(name) else _json(name)

    def _line_start(self, index: int) -> int:
        return self._text.rfind("\n", 0, index) + 1

    def _line_end(self, index: int) -> int:
        end = self._text.find("\n", index)
        return len(self._text) if end < 0 else end


def _end(node: yaml.Node) -> int:
    """Where a node's last value ends: a block's own end lies somewhere in the lines behind it."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return node.end_mark.index
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
