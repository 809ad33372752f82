"""Changes from one text to another, line by line, with some lines around each change.

A document may have half a million lines, and many alike: comparing each with each would take hours. Lines that are
there once in both texts, in the same order, are taken for the same (patience diff, Bram Cohen), and only what stands
between two of them is compared line by line, as far as that is little.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from itertools import islice
from typing import Literal

AROUND = 3  # unchanged lines that are shown before and after a change
MOST_SHOWN = 5_000  # lines; what comes behind them is a gap
MOST_PAIRS, MOST_PAIRS_BETWEEN = 400_000, 20_000  # of lines that are compared: of all; between two that are the same


@dataclass(frozen=True, slots=True)
class LineChange:
    """A line that was ``added``, ``removed`` or is the ``same``; a ``gap`` stands for lines that are left out."""

    what: Literal["added", "removed", "same", "gap"]
    text: str = ""


def line_changes(before: str, after: str) -> list[LineChange]:
    """The lines of two texts in one list; none where they are the same."""
    old, new = before.splitlines(), after.splitlines()
    matcher = SequenceMatcher(None, (), ())
    matcher.matching_blocks = [*_merged(_same_lines(old, new)), Match(len(old), len(new), 0)]
    groups = matcher.get_grouped_opcodes(AROUND)
    changes = (
        change for number, group in enumerate(groups) for change in _of_group(group, old, new, first=number == 0))
    shown = list(islice(changes, MOST_SHOWN))
    return [*shown, LineChange("gap")] if next(changes, None) is not None else shown


def _same_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[Match]:
    """Runs of lines that both have, in order."""
    first = next((index for index, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    yield Match(0, 0, first)
    old_from = new_from = first
    remaining_pairs = MOST_PAIRS
    for old_to, new_to in (*_unique_in_both(old, new, first), (len(old), len(new))):
        pairs = (old_to - old_from) * (new_to - new_from)
        if 0 < pairs <= min(remaining_pairs, MOST_PAIRS_BETWEEN):
            remaining_pairs -= pairs
            matcher = SequenceMatcher(None, old[old_from:old_to], new[new_from:new_to], autojunk=False)
            yield from (
                Match(old_from + a, new_from + b, size) for a, b, size in matcher.get_matching_blocks() if size)
        if old_to < len(old):
            yield Match(old_to, new_to, 1)
        old_from, new_from = old_to + 1, new_to + 1


def _unique_in_both(old: Sequence[str], new: Sequence[str], first: int) -> list[tuple[int, int]]:
    """Places of lines that are there once in both, from a line on: the most that are in one order."""
    counts, places = Counter(old), {line: index for index, line in enumerate(new)}
    counts_new = Counter(new)
    ends: list[int] = []  # the least place in the new text with which so many end
    chain: list[tuple[int, int]] = []
    before: dict[int, int | None] = {}  # of each place in the old text the one before it in its row
    ending: list[int] = []
    for index, line in enumerate(old):
        if index < first or counts[line] > 1 or counts_new.get(line) != 1:
            continue
        length = bisect_left(ends, places[line])
        ends[length:length + 1], ending[length:length + 1] = [places[line]], [index]
        before[index] = ending[length - 1] if length else None
    index = ending[-1] if ending else None
    while index is not None:
        chain.append((index, places[old[index]]))
        index = before[index]
    return chain[::-1]


def _merged(matches: Iterator[Match]) -> Iterator[Match]:
    """The same with what goes on in one piece."""
    last = Match(0, 0, 0)
    for match in matches:
        if (last.a + last.size, last.b + last.size) == (match.a, match.b):
            last = Match(last.a, last.b, last.size + match.size)
        else:
            yield last
            last = match
    if last.size:
        yield last


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
