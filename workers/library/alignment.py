"""A synchronised merge: the nth events of several streams become one.

The streams that enter a task interleave, so a column says which stream an event is of. What comes out depends on the
order within each stream and not on how they interleave, as long as none is further ahead than ``most``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .carrying import packed, unpacked
from .columns import STREAM, require_scalar
from .config import InvalidConfig, require_columns, settings
from .state import fold_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_SIDES = 16
_COLUMN = re.compile(r"(?:([A-Za-z_]\w*)=)?([^.=]+)\.([A-Za-z_]\w*)")

ALIGN = TaskType(
    name="align", kind="transform", family="operator",
    doc="Makes one event of the nth events of several streams: by number, or by number within a key.",
    build="workers.library.alignment:align", effects=(),
    parameters=(
        Parameter("side", "string", "Column that says which stream an event is of.", required=True, column="names"),
        Parameter("sides", "list", "The values of that column, one for each stream; other events are left out.",
                  required=True,
                  items="string"),
        Parameter("columns", "list", "Columns to take, each “side.column” or “name=side.column”.", required=True,
                  items="string", column="within"),
        Parameter("on", "list", "Columns whose values are each aligned by themselves; the result has them. Events in "
                  "which one is null are left out. Without it, all events are aligned by number.", items="string",
                  column="names"),
        Parameter("most", "integer", "How many events of one stream may wait for the others, in each key. Of more, the "
                  "oldest waits no longer.", default=1_000, minimum=1, maximum=10_000),
        Parameter("incomplete", "string", "What becomes of events that wait no longer: drop them, or emit them with "
                  "null for the streams that did not come.", default="drop", choices=("drop", "emit")),
    ),
    stateful=True, movable_state=True, key="on", by_key=True, passes_key=True, several_streams=True, selectivity=0.5,
    cost_us=30,
)
TASK_TYPES = (ALIGN,)


@dataclass(frozen=True, slots=True)
class Alignment:
    """``step`` takes an event's sequence number, time, birth and, for each side, what a result takes of it (None where
    it is not of that side); gives (seq, time, born, *sides) for each number that all sides have reached.

    A result has the sequence number of the event that was born last, and the latest time and birth. With ``emits`` a
    number that was given up comes out with None for the sides that lack.
    """

    sides: int
    most: int
    emits: bool

    def start(self) -> dict:
        return {"next": 0, "counts": [0] * self.sides, "waiting": [[] for _ in range(self.sides)]}

    def step(self, state: dict, seq: int, time: int, born: int, *texts: str | None) -> Iterable[tuple]:
        """Take an event in.

        Parameters
        ----------
        seq, time, born : int
            Weir's columns of the event.
        *texts : str, optional
            The values that a result takes of it, by side.
        """
        out: list[tuple] = []
        waiting, counts = state["waiting"], state["counts"]
        for side, text in enumerate(texts):
            if text is None:
                continue
            number = counts[side]
            counts[side] += 1
            if number < state["next"]:
                continue  # its number was given up
            waiting[side].append([seq, time, born, text])
            if all(waiting):
                out.append(self._take_next(state))
            elif len(waiting[side]) > self.most:
                incomplete = self._take_next(state)
                if self.emits:
                    out.append(incomplete)
        return out

    def _take_next(self, state: dict) -> tuple:
        """The events of the next number, which wait no longer."""
        state["next"] += 1
        heads = [queue.pop(0) if queue else None for queue in state["waiting"]]
        events = [head for head in heads if head is not None]
        _, seq = max((born, seq) for seq, _, born, _ in events)
        return (seq, max(time for _, time, _, _ in events), max(born for _, _, born, _ in events),
                *(None if head is None else head[3] for head in heads))


def align(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """One event a number: the key, then the columns that are taken."""
    from pyspark.sql import functions as F

    values = settings(ALIGN, config)
    on, sides, taken = list(values["on"] or ()), list(values["sides"]), _taken_columns(values)
    require_columns(inputs.columns, [*on, values["side"], *(column for _, _, column in taken)], task_type="align",
                    remedy="Name columns of the inputs.")
    side = F.col(values["side"]).cast("string")
    texts = {f"_side{index}": list(dict.fromkeys([*on, *(column for _, of, column in taken if of == name)]))
             for index, name in enumerate(sides)}
    selected = inputs.select(*STREAM, *on, *[
        F.when(side == name, packed(columns)).alias(text)
        for name, (text, columns) in zip(sides, texts.items(), strict=True)])
    for name in on:
        selected = selected.where(F.col(name).isNotNull())
    fold = Alignment(len(sides), values["most"], values["incomplete"] == "emit")
    added = ", ".join(f"{name} {kind}" for name, kind in [
        *((name, "bigint") for name in STREAM), *((text, "string") for text in texts)])
    numbers = fold_stream(selected, fold, by=on, reads=[*STREAM, *texts], kept=[], added=added)
    columns = [F.col(name) for name in STREAM]
    for name in on:
        columns.append(F.coalesce(*(unpacked(text, [name], inputs.schema)[0] for text in texts)).alias(name))
    for name, of, column in taken:
        columns += unpacked(f"_side{sides.index(of)}", [column], inputs.schema, renamed={column: name})
    return numbers.select(*columns)


def align_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built."""
    values = settings(ALIGN, config)
    sides = list(values["sides"])
    if not 2 <= len(sides) <= MOST_SIDES or len(set(sides)) < len(sides):
        raise InvalidConfig(f"There are {len(set(sides))} different streams to align.", parameter="sides",
                            remedy=f"Name from 2 to {MOST_SIDES} values of “side”, each once.")
    names = [*(values["on"] or ()), *(name for name, _, _ in _taken_columns(values))]
    if twice := sorted({name for name in names if name in STREAM or names.count(name) > 1}):
        raise InvalidConfig(f"A result would have two columns {', '.join(twice)}.", parameter="columns",
                            remedy="Write name=side.column to give one of them another name.")


def align_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The key's, then those that are taken."""
    require_scalar(inputs, values["side"], parameter="side")
    types = {}
    for name in values["on"] or ():
        require_scalar(inputs, name, parameter="on")
        types[name] = inputs.type_of(name)
    for name, _, column in _taken_columns(values):
        types[name] = inputs.require(column, parameter="columns")
    return Columns.stream(types)


def _taken_columns(values: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The columns to take: of each its name in the result, its side and its name there."""
    taken = []
    entries: Sequence[Any] = values["columns"]
    for entry in entries:
        match = _COLUMN.fullmatch(str(entry))
        if match is None or match[2] not in values["sides"]:
            raise InvalidConfig(f"“{entry}” is not a column of a stream that is aligned.", parameter="columns",
                                value=entry, remedy="Write “side.column” or “name=side.column”; “sides” names "
                                "the sides.")
        taken.append((match[1] or match[3], match[2], match[3]))
    return taken
