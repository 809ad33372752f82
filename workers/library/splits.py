"""A stream dealt out: each of several tasks lets one part of the events pass, and together they let all pass once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .carrying import packed, unpacked
from .columns import STREAM, require_scalar
from .config import InvalidConfig, require_columns, settings
from .operators import passed_columns
from .state import fold_stream, key_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PARTS = (
    Parameter("of", "integer", "How many parts there are.", required=True, minimum=2, maximum=1_000),
    Parameter("part", "integer", "Which part passes, from 1.", required=True, minimum=1, maximum=1_000),
)
ROUND_ROBIN = TaskType(
    name="round_robin", kind="transform", family="operator",
    doc="Passes every nth event: one part of a stream that is dealt out by turns.",
    build="workers.library.splits:round_robin", effects=(), parameters=_PARTS, stateful=True, movable_state=True,
    key="task", selectivity=0.5, cost_us=15,
)
KEY_SPLIT = TaskType(
    name="key_split", kind="transform", family="operator",
    doc="Passes the events whose key falls to it: one part of a stream that is dealt out by key.",
    build="workers.library.splits:key_split", effects=(),
    parameters=(
        Parameter("by", "list", "Columns of the key; events of one key go to one part.", required=True, items="string",
                  column="names"),
        *_PARTS,
    ),
    selectivity=0.5, cost_us=2,
)
TASK_TYPES = (ROUND_ROBIN, KEY_SPLIT)


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """``step`` takes a sequence number, which says nothing, and gives one empty tuple where it is the part's turn."""

    part: int
    of: int

    def start(self) -> list:
        return [0]

    def step(self, state: list, _: int) -> Iterable[tuple]:
        turn, state[0] = state[0], (state[0] + 1) % self.of
        return [()] if turn == self.part - 1 else ()


def round_robin(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The events whose turn it is, in the order in which they come to the task."""
    from pyspark.sql import functions as F

    values = settings(ROUND_ROBIN, config)
    columns = [name for name in inputs.columns if name not in STREAM]
    whole = inputs.select(*STREAM, packed(columns).alias("_whole"))
    passed = fold_stream(whole, RoundRobin(values["part"], values["of"]), by=[], reads=["_seq"],
                         kept=[*STREAM, "_whole"], added="")
    return passed.select(*[F.col(name) for name in STREAM], *unpacked("_whole", columns, inputs.schema))


def round_robin_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where there is no such part."""
    _require_part(settings(ROUND_ROBIN, config))


def round_robin_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The input's."""
    return passed_columns(inputs)


def key_split(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The events whose key's hash leaves ``part`` - 1 when it is divided by ``of``."""
    from pyspark.sql import functions as F

    values = settings(KEY_SPLIT, config)
    require_columns(inputs.columns, values["by"], task_type="key_split", remedy="Name columns of the input.")
    return inputs.where(F.pmod(F.xxhash64(key_text(inputs, values["by"])), F.lit(values["of"])) == values["part"] - 1)


def key_split_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where there is no key, or no such part."""
    values = settings(KEY_SPLIT, config)
    if not values["by"]:
        raise InvalidConfig("There is no key to deal events out by.", remedy="Name columns in “by”.", parameter="by")
    _require_part(values)


def key_split_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The input's."""
    for name in values["by"]:
        require_scalar(inputs, name, parameter="by")
    return passed_columns(inputs)


def _require_part(values: Mapping[str, Any]) -> None:
    if values["part"] > values["of"]:
        raise InvalidConfig(f"There is no part {values['part']} of {values['of']}.", parameter="part",
                            remedy=f"Write a part from 1 to {values['of']}.", value=values["part"])
