"""Alternates with state: one fold for all of them, of which the one that is on takes each event (thesis [3], 3.2).

Spark must find a fold in every batch of its query, or the fold's state is lost. So a batch may leave out what surrounds
the folds of alternates, but not the fold. There is a single fold, and each event tells it which alternate is on.

- `shared_state`: the surroundings of the folds are the same, and all alternates use one state. Each event may have
  another alternate.
- `switched_states`: one alternate a batch, with any number of folds: the first folds of all alternates are one, and so
  are the second ones. The state belongs to the alternate that last got an event; another one begins with an empty
  state. An alternate that warms up beside it has a state of its own, and goes on with that when it is switched on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scheduler.model.warm_up import on_of, warming_of

from .batch_states import Keeping, KeptAsText, StatesByKey, keeping
from .state import NOTHING, FoldedStream, apply_fold, folded_by
from .state_store import Parts, StoreLocation

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType

    from scheduler.model.dataflow import Task
    from scheduler.model.paths import TaskPath

Build = Callable[["DataFrame"], "DataFrame"]
Work = Callable[[StatesByKey, "pd.DataFrame | None"], Sequence[Sequence]]
Way = Callable[["DataFrame"], Generator[FoldedStream, "DataFrame", "DataFrame"]]  # yields folds, is sent what they make
Choice = Callable[[Mapping[str, "DataFrame"]], "DataFrame"]
ALTERNATE = "_alternate"
WORKING = "_working"  # which alternates work in the event's batch (`scheduler.model.warm_up.working`)
_FIRST = ""  # the alternate of the first event of a batch, which no fold works on
_ON = "\x1bon"  # the key under which fresh states say whose they are: no text of a key has this escape
_WARM = "\x1bwarm"  # the key under which they have those of the alternate that warms up


class NotOneFold(ValueError):
    """An alternate's output has no fold, or more than one."""


def shared_state(events: DataFrame, builds: Mapping[str, Build], on: Callable[[DataFrame], Column]) -> DataFrame:
    """The output of alternates that go on with one state.

    Parameters
    ----------
    builds : mapping of str to callable
        A function for each alternate, by name, that makes its output of the events; alike but for the fold.
    on : callable
        Takes the stream that the fold is given; says which alternate works on an event.
    """
    folds = {name: fold_of(build, events) for name, build in builds.items()}
    first = next(iter(folds))
    frame = folds[first].frame.withColumn(ALTERNATE, on(folds[first].frame))
    works = {name: fold.work for name, fold in folds.items()}
    made = apply_fold(replace(folds[first], frame=frame, work=by_alternate(works)))
    return _around(builds[first], events, made)


def switched_states(
    events: DataFrame, ways: Mapping[str, Way], one_of: Choice, *, working: Callable[[DataFrame], Column],
    headed: Callable[[DataFrame], tuple[DataFrame, DataFrame]], both_of: Choice | None = None, begins: bool = True,
) -> DataFrame:
    """The output of alternates of which one is on in a batch, each with any number of folds.

    The first event of a batch goes through all folds, ahead of their inputs. So each fold learns which alternate is on,
    even if no event reaches it. A fold finishes its batch before anything behind it is read: events that bypass a fold
    wait, and a query has the same folds in the same order, whatever is on.

    Parameters
    ----------
    one_of : callable
        Takes a stream for each alternate, all with the same columns; gives in each batch the one that is on.
    working : callable
        Takes a stream; gives the working alternates of the batch (`scheduler.model.warm_up.working`).
    headed : callable
        Takes a stream; gives the first event of each batch, once all of it is there, and the stream, for any number of
        readers behind that.
    both_of : callable, optional
        For alternates that warm up: as ``one_of``, but also with the stream of the one that warms up.
    begins : bool, optional
        True if an alternate that is switched on begins without state; else the n-th folds of all share one state.
    """
    from pyspark.sql import functions as F

    head, again = headed(events)
    walks = {name: way(again) for name, way in ways.items()}
    outputs: dict[str, DataFrame] = {}
    folds = _next_folds(walks, dict.fromkeys(walks), outputs)
    if not folds:
        raise NotOneFold("None of the alternates has a fold.")
    while folds:
        folded, made = _joint_fold(head, again, folds, [*ways], both_of or one_of, working, begins=begins)
        head, again = headed(apply_fold(folded))
        folds = _next_folds(walks, {
            name: again.where(F.col(ALTERNATE) == name).select(
                *[F.col(field.name).alias(column) for column, field in fields.items()])
            for name, fields in made.items()}, outputs)
    on = one_of(outputs)
    nothing = head.where(F.col(ALTERNATE) != _FIRST).select(
        *[F.lit(None).cast(field.dataType).alias(field.name) for field in on.schema])
    return nothing.unionByName(on).coalesce(1)


def one_task(build: Build) -> Way:
    """The walk through an alternate of one task, with a fold or without."""
    def way(events: DataFrame) -> Generator[FoldedStream, DataFrame, DataFrame]:
        made, fold = _result_and_fold(build, events)
        return made if fold is None else _around(build, events, (yield fold))

    return way


def along(
    path: TaskPath, build_of: Callable[[Task], Build], *, join: Callable[[DataFrame, DataFrame], DataFrame],
    share: Callable[[DataFrame], DataFrame],
) -> Way:
    """The walk through a path; ``join`` and ``share`` as `TaskPath.walk` has them."""
    def way(events: DataFrame) -> Generator[FoldedStream, DataFrame, DataFrame]:
        walked = path.walk(events, join=join, share=share)
        try:
            task, read = next(walked)
            while True:
                task, read = walked.send((yield from one_task(build_of(task))(read)))
        except StopIteration as end:
            return end.value

    return way


def _next_folds(
    walks: Mapping[str, Generator[FoldedStream, DataFrame, DataFrame]], made: Mapping[str, DataFrame | None],
    outputs: dict[str, DataFrame],
) -> dict[str, FoldedStream]:
    """The next fold of each alternate, when the one before has made this; what leaves one without a next is noted."""
    folds: dict[str, FoldedStream] = {}
    for name, frame in made.items():
        try:
            folds[name] = walks[name].send(frame)
        except StopIteration as end:
            outputs[name] = end.value
    return folds


def _joint_fold(
    head: DataFrame, again: DataFrame, folds: Mapping[str, FoldedStream], names: Sequence[str], both_of: Choice,
    working: Callable[[DataFrame], Column], *, begins: bool,
) -> tuple[FoldedStream, dict[str, dict[str, StructField]]]:
    """One fold of those that some alternates have; and of each what its columns are called in what that makes."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    inputs = {name: _own_names(fold.frame.schema, index) for index, (name, fold) in enumerate(folds.items())}
    made = {name: _own_names(fold.gives, index) for index, (name, fold) in enumerate(folds.items())}
    columns = [field for fields in inputs.values() for field in fields.values()]

    def rows(frame: DataFrame, name: str, by_name: Mapping[str, Column], key: Column) -> DataFrame:
        # Whole numbers must not be missing: pandas would make doubles of those that are there.
        nothing = {field.name: F.lit(0 if isinstance(field.dataType, LongType) else None) for field in columns}
        return frame.select(
            *[by_name.get(field.name, nothing[field.name]).cast(field.dataType).alias(field.name) for field in columns],
            key.alias("_key"), F.lit(name).alias(ALTERNATE), working(frame).alias(WORKING))

    taken = {
        name: rows(fold.frame, name, {field.name: F.col(column) for column, field in inputs[name].items()},
                   F.col("_key")) for name, fold in folds.items()}
    idle = again.where(F.lit(False))
    frame = rows(head, _FIRST, {}, F.lit("")).unionByName(
        both_of({name: taken[name] if name in taken else rows(idle, name, {}, F.lit("")) for name in names}))
    gives = StructType([
        *(field for fields in made.values() for field in fields.values()), StructField(ALTERNATE, StringType())])
    whole = [field.name for field in gives]
    works: dict[str, Work] = {
        name: _renamed(fold.work, name, {field.name: column for column, field in inputs[name].items()},
                       [whole.index(field.name) for field in made[name].values()], len(whole))
        for name, fold in folds.items()}
    works[_FIRST] = _pass_first(len(whole))
    parts = {name: fold.parts for name, fold in folds.items()}
    keep = _KeepsFresh(parts) if begins else None
    return FoldedStream(
        frame, by_alternate(works, begins=begins), gives, next(iter(parts.values())), keep=keep), made


def fold_of(build: Build, events: DataFrame) -> FoldedStream:
    """The single fold in the stream that a build function makes.

    Raises
    ------
    NotOneFold
        There is no fold, or a second one behind it.
    """
    fold = _result_and_fold(build, events)[1]
    if fold is None:
        raise NotOneFold("An alternate with state has a fold, and this one has none.")
    return fold


def _result_and_fold(build: Build, events: DataFrame) -> tuple[DataFrame, FoldedStream | None]:
    """What a function makes of a stream, and its fold, if it has one: then without what that makes."""
    from pyspark.sql import functions as F

    folds: list[FoldedStream] = []

    def take(fold: FoldedStream) -> DataFrame:
        folds.append(fold)
        return fold.frame.select(*[F.lit(None).cast(field.dataType).alias(field.name) for field in fold.gives])

    with folded_by(take):
        made = build(events)
    if len(folds) > 1 or any(fold.idle_ms is not None for fold in folds):
        raise NotOneFold(f"A task of an alternate has one fold at most, which waits for events; this has {len(folds)}.")
    return made, folds[0] if folds else None


def by_alternate(works: Mapping[str, Work], *, begins: bool = False) -> Work:
    """A function that gives events to that of their alternate, in their order: as many as have the same one in a row.

    Parameters
    ----------
    begins : bool, optional
        The states are `FreshStates`, which are asked for those of the alternate.
    """
    def work(states: Any, frame: pd.DataFrame | None) -> Sequence[Sequence]:
        made: list[list] = []
        for name, at_work, part in _runs(frame):
            results = works[name](states.of(name, at_work) if begins else states, part)
            if results:
                made = made or [[] for _ in results]
                for column, more in zip(made, results, strict=True):
                    column.extend(more)
        return made

    return work


def _runs(frame: pd.DataFrame | None) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Events that follow one another and have one alternate, with its name, and what works."""
    if frame is None or not len(frame):
        return
    names = frame[ALTERNATE].tolist()
    turns = list(zip(names, frame[WORKING].tolist() if WORKING in frame else names, strict=True))
    events = frame.drop(columns=[name for name in (ALTERNATE, WORKING) if name in frame])
    begin = 0
    for end in range(1, len(turns) + 1):
        if end == len(turns) or turns[end] != turns[begin]:
            yield *turns[begin], events.iloc[begin:end]
            begin = end


@dataclass(frozen=True, slots=True)
class _KeepsFresh:
    """As ``state.keeping``, for alternates of which each begins without state; their ``parts`` by name."""

    parts: Mapping[str, Parts]

    def __call__(self, text: str, location: StoreLocation | None, _: Parts) -> FreshStates:
        return FreshStates(text, location, self.parts)


class FreshStates:
    """The states of whichever alternate last was on when an event came, during a batch (`state.Keeping`); and those of
    the one that warms up, which are a text however many they are.
    """

    def __init__(self, text: str, location: StoreLocation | None, parts: Mapping[str, Parts]) -> None:
        self._text, self._location, self._parts = text, location, parts
        self._keeping: Keeping | None = None
        self._warm: Keeping | None = None
        self._working = ""
        self.states = self

    def of(self, name: str, at_work: str) -> StatesByKey:
        """An alternate's states while these alternates work: none where those that are kept are others'."""
        if self._keeping is None or at_work != self._working:
            self._begin(on_of(at_work), warming_of(at_work))
            self._working = at_work
        is_warming = name != on_of(at_work) and self._warm is not None
        return (self._warm if is_warming else self._keeping).states

    def _begin(self, on: str, warming: str) -> None:
        self._set_aside()
        parts = self._parts.get(on, {})
        during = self._keeping or keeping(self._text, self._location, parts)
        owner, warm = during.states.get(_ON), during.states.get(_WARM) or {"name": ""}
        if owner is None or owner["name"] != on:
            if owner is not None:
                during.close()
                # As a text, however long: to make a store would remove the one that a repeated batch begins with.
                during = KeptAsText(warm["states"] if warm["name"] == on else NOTHING, None, parts)
            during.states[_ON] = _note(parts, name=on)
        self._keeping = during
        if warming:
            text = warm["states"] if warm["name"] == warming else NOTHING
            self._warm = KeptAsText(text, None, self._parts.get(warming, {}))
        elif warm["name"] and during.states.get(_WARM) is not None:
            during.states[_WARM] = _note(parts, name="")

    def _set_aside(self) -> None:
        """Keep the states of the one that warms up among those of the one that is on."""
        if self._keeping is not None and self._warm is not None:
            self._keeping.states[_WARM] = _note(
                self._parts.get(on_of(self._working), {}), name=warming_of(self._working), states=self._warm.save())
            self._warm = None

    def save(self) -> str:
        """As `Keeping` has it."""
        self._set_aside()
        return self._text if self._keeping is None else self._keeping.save()

    def close(self) -> None:
        """As `Keeping` has it."""
        if self._keeping is not None:
            self._keeping.close()


def _note(parts: Parts, **values: str) -> dict[str, Any]:
    """A state that is none of a key's: with the parts that those have."""
    return {**values, **{part: {} for part in parts}}


def _around(build: Build, events: DataFrame, made: DataFrame) -> DataFrame:
    """What a function makes of a stream, when its fold has made this of it."""
    with folded_by(lambda _: made):
        return build(events)


def _own_names(columns: StructType, index: int) -> dict[str, StructField]:
    """The columns of one alternate under names that no other has; ``_key`` is common to all."""
    from pyspark.sql.types import StructField

    return {
        field.name: StructField(f"{index}_{field.name}", field.dataType) for field in columns if field.name != "_key"}


def _pass_first(width: int) -> Work:
    """Lets the first event of a batch pass: of ``width`` columns the last one marks it."""
    return lambda states, frame: [*[[None]] * (width - 1), [_FIRST]]


def _renamed(work: Work, name: str, own_names: Mapping[str, str], places: Sequence[int], width: int) -> Work:
    """A function of columns under other names, the results of which are some of many columns; the last has the name of
    the alternate."""
    def renamed(states: StatesByKey, frame: pd.DataFrame | None) -> Sequence[Sequence]:
        made = work(states, frame[[*own_names, "_key"]].rename(columns=own_names))
        if not made:
            return []
        nothing = [None] * len(made[0])
        columns: list[Sequence] = [*[nothing] * (width - 1), [name] * len(made[0])]
        for index, values in zip(places, made, strict=True):
            columns[index] = values
        return columns

    return renamed
