"""Columns of a stream: their names and types, known from declarations before anything runs.

Types are written as Spark's ``simpleString`` has them (``bigint``, ``array<double>``). What a task type does not
declare, and what follows from it, is open: there may be columns that nobody knows of, and nothing is refused for them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .bounds import STREAM_CHARACTERS, STREAM_COLUMNS, TYPE_CHARACTERS
from .errors import WeirError
from .task_types import TaskType

NUMBER_BITS = 42  # of `_seq`: the event's number in its source; above them is the partition that it came from
STREAM_TYPES: Mapping[str, str] = {"_seq": "bigint", "_time": "bigint", "_born": "bigint"}
OBS = "obs"  # the column with the name of what was observed
NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double"})
_SPECIAL = frozenset(".`")
_ADDED = "_weir_"  # how columns begin that slots add: marks, numbers of streams, threads
_MOST_LISTED = 12  # columns that a remedy lists
# What Spark makes of two types that meet in one column, where no value is lost or refused.
_WIDER = {frozenset(pair): wider for *pair, wider in (
    ("int", "bigint", "bigint"), ("float", "double", "double"), ("int", "double", "double"),
    ("bigint", "double", "double"))}


class ColumnError(WeirError):
    """A task reads what its input does not give.

    ``facts`` may hold ``parameter``, and ``value``, the element or key of the parameter that is wrong.
    """

    code = "wrong_columns"


class UnknownColumn(ColumnError):
    """A task reads a column that its input does not have."""

    code = "unknown_column"


class WrongColumnType(ColumnError):
    """A task reads a column of a type that it cannot work on."""

    code = "wrong_column_type"


class TypesTooLong(ColumnError):
    """A type, or all columns of a stream together, are longer than anybody needs: each task could double them."""

    code = "types_too_long"


class AmbiguousColumns(ColumnError):
    """A column's name is not one that Spark tells from all others: it ignores case, and reads a point as a field of a
    record."""

    code = "ambiguous_columns"


class ColumnsInConflict(ColumnError):
    """Streams that interleave have a column of one name and of types that do not agree."""

    code = "columns_in_conflict"


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a stream in order: types by name, None for an unknown type.

    ``complete``: False if there may be further columns. ``observations``: the names that the column ``obs`` may hold,
    None if unknown.

    Raises
    ------
    TypesTooLong
        There are too many, or their types are too long.
    AmbiguousColumns
        Two names differ by case only, or one has a point or a backtick in it, or is like those that slots add.
    """

    types: Mapping[str, str | None] = field(default_factory=dict)
    complete: bool = True
    observations: frozenset[str] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name, kind in self.types.items():
            require_short(kind or "", value=name)
        if len(self.types) > STREAM_COLUMNS.most or self.characters > STREAM_CHARACTERS.most:
            raise TypesTooLong(
                f"The stream has {len(self.types):,} columns, whose names and types have {self.characters:,} "
                f"characters; {STREAM_COLUMNS.most:,} and {STREAM_CHARACTERS.most:,} may be.",
                remedy="Give fewer columns, or records of fewer fields.")
        require_told_apart(self.types)

    @property
    def characters(self) -> int:
        """The total length of all names and types."""
        return sum(len(name) + len(kind or "") for name, kind in self.types.items())

    @classmethod
    def unknown(cls) -> Columns:
        """The columns of a stream of which nothing is declared: Weir's own, and whatever there is."""
        return cls(STREAM_TYPES, complete=False)

    @classmethod
    def stream(cls, types: Mapping[str, str | None]) -> Columns:
        """Weir's own columns, and these behind them."""
        return cls({**STREAM_TYPES, **types})

    def __contains__(self, name: object) -> bool:
        return name in self.types

    def __iter__(self) -> Iterator[str]:
        return iter(self.types)

    def type_of(self, name: str) -> str | None:
        """A column's type; None where it is not known."""
        return self.types.get(name)

    def plus(self, types: Mapping[str, str | None]) -> Columns:
        """These columns and others at the end, or in place of those of their names."""
        return Columns({**self.types, **types}, self.complete, None if OBS in types else self.observations)

    def without(self, names: Iterable[str]) -> Columns:
        """Without some columns."""
        gone = frozenset(names)
        types = {name: kind for name, kind in self.types.items() if name not in gone}
        return Columns(types, self.complete, None if OBS in gone else self.observations)

    def renewed(self, types: Mapping[str, str | None]) -> Columns:
        """These columns and others at the end, without those of their names that were there before."""
        return self.without(types).plus(types)

    def require(self, name: str, *, parameter: str = "", remedy: str = "") -> str | None:
        """The type of a column that is read.

        Parameters
        ----------
        remedy : str, optional
            The remedy where no column is like it; otherwise the columns that there are.
        """
        if name not in self.types and self.complete:
            near = nearest(name, self.types)
            names = [column for column in self.types if column not in STREAM_TYPES]
            listed = ", ".join(names[:_MOST_LISTED]) + (", …" if len(names) > _MOST_LISTED else "")
            present = f"The input has {listed}." if names else "The input has no columns but Weir's own."
            helps = f"Did you mean {near}? {present}" if near else f"{remedy} {present}".strip()
            raise UnknownColumn(
                f"The input has no column {name}.", remedy=helps, parameter=parameter, value=name, column=name)
        return self.types.get(name)

    def require_number(self, name: str, *, parameter: str = "", remedy: str = "") -> str | None:
        """The column of a number, as by `require`; raises `WrongColumnType` where the column is known and holds no
        numbers."""
        return self.require_type(name, NUMBERS, "numbers", parameter=parameter, remedy=remedy)

    def require_text(self, name: str, *, parameter: str = "") -> str | None:
        """The column of a text, as by `require_number`."""
        return self.require_type(name, frozenset({"string"}), "text", parameter=parameter)

    def require_type(
        self, name: str, kinds: frozenset[str], word: str, *, parameter: str = "", remedy: str = ""
    ) -> str | None:
        """The column of a type, as by `require`; raises `WrongColumnType` where the column's type is known and not
        among some.

        Parameters
        ----------
        parameter : str, optional
            The parameter that names the column.
        """
        kind = self.require(name, parameter=parameter, remedy=remedy)
        is_decimal = kind is not None and kind.startswith("decimal(")
        if kind is not None and kind not in kinds and not (is_decimal and kinds is NUMBERS):
            raise WrongColumnType(
                f"The column {name} is {kind}; this reads {word}.",
                remedy=f"Let a task before it give {name} as {word}: a parser’s “name:type”, or CAST in a sql task.",
                parameter=parameter, value=name, column=name, type=kind)
        return kind

    def require_observation(self, name: str, *, named: Container[str], parameter: str) -> None:
        """Raise `UnknownColumn` where an observation is never given, and one of nearly its name is.

        Parameters
        ----------
        named : container of str
            All that the parameter names: what it names itself is not meant by another name.
        """
        observations = self.observations
        if observations is None or name in observations:
            return
        if (near := nearest(name, observations)) is None or near in named:
            return
        raise UnknownColumn(
            f"No event has the observation {name}.",
            remedy=f"Did you mean {near}? There are {', '.join(sorted(observations)[:_MOST_LISTED])}.",
            parameter=parameter, value=name, column=OBS)


def require_short(*kinds: str, parameter: str = "", value: str = "") -> None:
    """Raise ``TypesTooLong`` where types that become one are longer than a column's may be.

    Parameters
    ----------
    parameter, value : str, optional
        The place in the document: the parameter, and the column.
    """
    length = sum(map(len, kinds))
    if length > TYPE_CHARACTERS.most:
        raise TypesTooLong(
            f"A type has {length:,} characters; {TYPE_CHARACTERS.most:,} may be.",
            remedy="Keep in a record only what the next tasks need.", parameter=parameter, value=value)


def require_told_apart(names: Iterable[str]) -> None:
    """Raise ``AmbiguousColumns`` where Spark would not tell columns apart by their names.

    Parameters
    ----------
    names : iterable of str
        The columns of one stream.
    """
    by_fold: dict[str, str] = {}
    for name in names:
        if not name or name == "*" or not _SPECIAL.isdisjoint(name) or name.lower().startswith(_ADDED):
            raise AmbiguousColumns(
                f"The name of the column “{name}” is read as something else: it is empty, *, has a point or a "
                f"backtick in it, or begins with {_ADDED}.",
                remedy="Give it another name where it comes from.", parameter="", value=name, column=name)
        earlier_name = by_fold.setdefault(name.lower(), name)
        if earlier_name != name:
            raise AmbiguousColumns(
                f"The columns {earlier_name} and {name} differ by case only, which Spark does not see.",
                remedy="Give one of them another name, or leave it out.", parameter="", value=name, column=name)


# (type, the columns of its input, its config with defaults filled in); raises ColumnError.
ColumnsOf = Callable[[TaskType, Columns, Mapping[str, Any]], Columns]


def interleaved(streams: Sequence[tuple[str, Columns]]) -> Columns:
    """The columns of streams that enter one task, each with the id of the task that it comes from.

    A column that only some have is null in the events of the others.
    """
    types: dict[str, str | None] = {}
    giver: dict[str, str] = {}
    for source, columns in streams:
        for name, kind in columns.types.items():
            if name not in types:
                types[name], giver[name] = kind, source
                continue
            before = types[name]
            if kind is None or before is None or kind == before:
                types[name] = before if kind is None else kind
            elif (wider := _WIDER.get(frozenset((kind, before)))) is not None:
                types[name] = wider
            else:
                raise ColumnsInConflict(
                    f"The column {name} comes as {before} from {giver[name]} and as {kind} from {source}.",
                    remedy="Give it one type in both, or another name in one of them.", column=name)
    named = [columns.observations for _, columns in streams]
    observations = None if None in named else frozenset().union(*named)
    return Columns(types, all(columns.complete for _, columns in streams), observations)


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like a name, for “did you mean”; None where none is near."""
    by_fold = {candidate.casefold(): candidate for candidate in candidates}
    close = difflib.get_close_matches(name.casefold()[:200], by_fold, n=1, cutoff=0.6)
    return by_fold[close[0]] if close else None


def partition_of(seq: int) -> int:
    """The partition that an event came from, by its ``_seq``: those of live sources have numbers of their own, other
    sources have the number 0 in common."""
    return seq >> NUMBER_BITS


def number_of(seq: int) -> int:
    """An event's number in its source, by its ``_seq``."""
    return seq & ((1 << NUMBER_BITS) - 1)
