"""A document's values with their positions, and the problems found on the way; common to all formats."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .errors import Problem

MAX_PROBLEMS = 200
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
# Characters that show a text in another order than it has: who reviews it would read another text than runs.
TURNS = "\u202a-\u202e\u2066-\u2069"
TURNING = re.compile(f"[{TURNS}]")
TURNED = (
    "The text holds a character that turns the direction of text.", "Remove it: reviewers would read another text.")
_LONGEST_LIST = 20  # names that a message lists
_MAX_COMPARISONS = 100_000  # for nearest names, over a whole document


class TextPosition(NamedTuple):
    """1-based line and column, and a JSON pointer."""

    line: int
    column: int
    path: str = ""


@dataclass(slots=True)
class DocumentNode:
    """A value of a document: a scalar, a list of nodes or a dict of nodes, and where each is.

    ``keys`` holds the positions of a mapping's keys. ``size`` counts the values in it, itself included, ``characters``
    those of its texts, and ``height`` how deep they nest: what an alias to it adds.
    """

    value: Any
    position: TextPosition
    keys: dict[str, TextPosition] = field(default_factory=dict)
    size: int = 1
    height: int = 0
    characters: int = 0

    def plain(self) -> Any:
        """The value as JSON has it."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.value, dict)

    @property
    def is_list(self) -> bool:
        return isinstance(self.value, list)


def place_in(document: str, node: DocumentNode, word: int) -> TextPosition:
    """The position of a character of a text in its document; the text's beginning where that cannot be told.

    Parameters
    ----------
    word : int
        The character's number, from 1, in the text with single spaces between its words.
    """
    line, column, path = node.position
    lines = document.splitlines()
    offset = _offset(str(node.value), word)
    if not 0 < line <= len(lines):
        return node.position
    begun = lines[line - 1][column - 1:]
    is_quoted = begun[:1] in ("'", '"')
    if begun[is_quoted:].startswith(str(node.value).rstrip("\n")):
        return TextPosition(line, column + is_quoted + offset, path)
    before = str(node.value)[:offset].split("\n")
    row = line + len(before) - 1  # of a block, whose lines begin in the next one
    text = str(node.value).split("\n")[len(before) - 1]
    if begun[:1] == "|" and row < len(lines) and lines[row].endswith(text):
        return TextPosition(row + 1, len(lines[row]) - len(text) + len(before[-1]) + 1, path)
    return node.position


def _offset(text: str, word: int) -> int:
    """The index of the ``word``-th character of a text with single spaces between its words in the text itself."""
    length_read, ended = 0, 0
    for part in re.finditer(r"\S+", text):
        length_read += bool(ended)  # the space between
        if word <= length_read:
            return ended
        if word <= length_read + len(part.group()):
            return part.start() + word - length_read - 1
        length_read, ended = length_read + len(part.group()), part.end()
    return ended


class UnreadableDocument(Exception):
    """The document cannot be read on after this problem; it has been reported."""


class Problems:
    """Collects a document's problems, up to a number that a person may still read."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._comparisons = 0

    def __bool__(self) -> bool:
        return bool(self._problems)

    def add(self, code: str, position: TextPosition, message: str, remedy: str, *, task_id: str | None = None) -> None:
        """Report a problem."""
        if len(self._problems) >= MAX_PROBLEMS:
            self._problems.append(
                Problem(
                    "too_many_problems", f"There are more than {MAX_PROBLEMS} problems; the rest is not listed.",
                    "Correct these and submit again to see the rest.", position.path, position.line, position.column,
                )
            )
            raise UnreadableDocument
        self._problems.append(Problem(code, message, remedy, position.path, position.line, position.column, task_id))

    def within(self, where: str, task_id: str | None) -> Problems:
        """The same problems, for what stands within a task: each that is added to these says where, and is the task's.
        They are true where one was."""
        return _ProblemsWithin(self, where, task_id)

    def stop(self, code: str, position: TextPosition, message: str, remedy: str) -> UnreadableDocument:
        """Report a problem as `add` does, one that ends the reading; raise what this returns."""
        self.add(code, position, message, remedy)
        return UnreadableDocument()

    def clean(self, text: str, position: TextPosition) -> str:
        """The text, without what no database or channel can hold, or turns its direction; reports what it takes out."""
        if TURNING.search(text) is not None:
            self.add("invalid_unicode", position, *TURNED)
            text = TURNING.sub("�", text)
        if _UNSTORABLE.search(text) is None:
            return text
        self.add(
            "invalid_unicode", position, "The text holds a null character or half of a surrogate pair.",
            "Remove it; characters beyond U+FFFF are escaped as a pair, or written as they are.",
        )
        return _UNSTORABLE.sub("�", text)

    def in_order(self) -> tuple[Problem, ...]:
        """All problems in document order; the note that there are more comes last."""
        return tuple(
            sorted(
                self._problems,
                key=lambda problem: (problem.code == "too_many_problems", problem.line or 0, problem.column or 0),
            )
        )

    def nearest(self, name: str, candidates: Iterable[str]) -> str | None:
        """The candidate most like a name, for "did you mean"; None where none is near or looking costs too much."""
        names = list(candidates)
        self._comparisons += len(names)
        if len(name) > 200 or self._comparisons > _MAX_COMPARISONS:
            return None
        by_fold = {candidate.casefold(): candidate for candidate in names}
        close = difflib.get_close_matches(name.casefold(), by_fold, n=1, cutoff=0.6)
        return by_fold[close[0]] if close else None


class _ProblemsWithin(Problems):
    def __init__(self, whole: Problems, where: str, task_id: str | None) -> None:
        self._all_problems, self._where, self._task_id = whole, where, task_id
        self._is_any = False

    def __bool__(self) -> bool:
        return self._is_any

    def add(self, code: str, position: TextPosition, message: str, remedy: str, *, task_id: str | None = None) -> None:
        self._is_any = True
        self._all_problems.add(code, position, f"{self._where}: {message}", remedy, task_id=self._task_id)

    def nearest(self, name: str, candidates: Iterable[str]) -> str | None:
        return self._all_problems.nearest(name, candidates)


def child_path(path: str, key: str | int) -> str:
    """The JSON pointer of a mapping's value or a list's element."""
    if isinstance(key, str) and ("~" in key or "/" in key):
        key = key.replace("~", "~0").replace("/", "~1")
    return f"{path}/{key}"


def shown(value: Any, *, longest: int = 60) -> str:
    """A value as a message quotes it: short, on one line."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(character if character.isprintable() else "�" for character in text[: longest + 1])
    return text if len(text) <= longest else text[: longest - 1] + "…"


def listed(names: list[str], separator: str) -> str:
    """Names as a message lists them: the first ones and the last."""
    if len(names) <= _LONGEST_LIST:
        return separator.join(names)
    return separator.join([*names[: _LONGEST_LIST - 1], f"… ({len(names) - _LONGEST_LIST} more)", names[-1]])
