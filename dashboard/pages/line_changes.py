"""What changed from one text to another, line by line, with some lines around each change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

AROUND = 3  # unchanged lines that are shown before and after a change


@dataclass(frozen=True, slots=True)
class LineChange:
    """A line that was ``added``, ``removed`` or is the ``same``; a ``gap`` stands for lines that are left out."""

    what: Literal["added", "removed", "same", "gap"]
    text: str = ""


def line_changes(before: str, after: str) -> list[LineChange]:
    """The lines of two texts in one list; none where they are the same."""
    old, new = before.splitlines(), after.splitlines()
    groups = list(SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(AROUND))
    return [change for number, group in enumerate(groups) for change in _of_group(group, old, new, first=number == 0)]


def _of_group(
    group: list[tuple[str, int, int, int, int]], old: list[str], new: list[str], *, first: bool
) -> Iterator[LineChange]:
    if not first or group[0][1] > 0:
        yield LineChange("gap")
    for tag, old_from, old_to, new_from, new_to in group:
        if tag == "equal":
            yield from (LineChange("same", line) for line in old[old_from:old_to])
            continue
        yield from (LineChange("removed", line) for line in old[old_from:old_to])
        yield from (LineChange("added", line) for line in new[new_from:new_to])
