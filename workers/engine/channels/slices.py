"""Cutting a batch into slices for several threads: events that follow one another, so that what is made of them can be
put together again in the order of the batch. ``Slice.java`` does the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

EVERYTHING = 2**62


@dataclass(frozen=True, slots=True)
class Piece:
    """Entries of one channel, after ``start`` up to ``end``; of their events ``take``, from ``skip`` on."""

    channel: str
    start: str
    end: str
    skip: int = 0
    take: int = EVERYTHING


Sizes = Sequence[tuple[str, int]]  # entries and how many events each has


def cut(whole: Sequence[Piece], sizes: Sequence[Sizes], *, threads: int) -> list[list[Piece]]:
    """Cut pieces, taken one after the other, into as many slices as there are threads, as even as can be.

    Fewer where there are fewer events, but one always. ``sizes`` are the entries of each piece.
    """
    events = sum(count for entries in sizes for _, count in entries)
    slices = max(1, min(threads, events))
    return [_stretch(whole, sizes, events * index // slices, events * (index + 1) // slices) for index in range(slices)]


def _stretch(whole: Sequence[Piece], sizes: Sequence[Sizes], first: int, end: int) -> list[Piece]:
    """The events from ``first`` up to, but without, ``end``."""
    pieces = []
    at = 0
    for piece, entries in zip(whole, sizes, strict=True):
        start, last, skip, take, before = None, "", 0, 0, piece.start
        for entry, count in entries:
            lower, upper = max(first, at), min(end, at + count)
            if lower < upper:
                if start is None:
                    start, skip = before, lower - at
                last, take = entry, take + upper - lower
            at, before = at + count, entry
        if start is not None:
            pieces.append(Piece(piece.channel, start, last, skip, take))
    return pieces
