"""Savepoints: what a fragment leaves when it ends for others, and what one begins with, in files beside checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .codec import Codec
from .offsets import Offset

States = Mapping[str, Sequence[str | None]]  # by running task, of each of its folds in the order of the stream


@dataclass(frozen=True, slots=True)
class Savepoint:
    """The remains of a fragment: ``source_offset`` (where its source ended), ``offsets`` (the last entry that it read,
    by channel), ``last_offsets`` (the last entry that it wrote, by channel), ``batch_bases`` (what no block number is
    above that it wrote there, or in parts of that stream), and the state of its tasks. ``repeats`` of a copy of a query
    that works: how many batches it has done; those behind them are repeated under their numbers. Once another goes on
    from that, ``recorded`` is how many of these are recorded, and ``reads`` are the channels that they read."""

    source_offset: Mapping[str, int] | None = None
    offsets: Mapping[str, Offset] = field(default_factory=dict)
    last_offsets: Mapping[str, Offset] = field(default_factory=dict)
    batch_bases: Mapping[str, int] = field(default_factory=dict)
    states: States = field(default_factory=dict)
    repeats: int | None = None
    recorded: int = 0
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """The beginning of a fragment: ``source_offset`` (where its source begins), ``offsets`` (entries up to which it
    leaves out what a channel holds, after a pause), ``batch_bases`` (what its block numbers begin with, by channel),
    and state. It ``repeats`` the batches of another, whose copy that is: its own first one is the next of those, begins
    at just these offsets, and so many of them are ``recorded``. They read the channels that it ``reads``; of those that
    are ``gone`` there was nothing left to read."""

    source_offset: Mapping[str, int] | None = None
    offsets: Mapping[str, Offset] = field(default_factory=dict)
    batch_bases: Mapping[str, int] = field(default_factory=dict)
    states: States = field(default_factory=dict)
    repeats: bool = False
    recorded: int = 0
    reads: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


# What fields are called in the files: it stays, for those files are opened after upgrades.
_STORED_AS = {
    "source_offset": "ticks", "offsets": "places", "last_offsets": "lasts", "batch_bases": "bases", "states": "states"}
SAVEPOINTS = Codec(Savepoint, stored_as=_STORED_AS, sparse=True, always=_STORED_AS)
RESTORE_POINTS = Codec(RestorePoint, stored_as=_STORED_AS, sparse=True, always=_STORED_AS)
