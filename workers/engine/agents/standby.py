"""Standing by: a query is compiled, started and has done one empty batch before those end whose work it goes on with.

So what stands still during a handover is the batch that is under way, what is recorded of it, and the first batch of
the query that takes over. Those that end wait until all heirs of the node stand by, and not for ever: one that cannot
takes over as it would without, only later.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.contracts.desired import DesiredState, Input, WantedFragment
from workers.engine.channels import keys

from .delays import STANDBY_MS
from .handover import predecessors

if TYPE_CHECKING:
    from workers.engine.spark.compile import Compiled


@dataclass(frozen=True, slots=True)
class Standby:
    """A query that stands by: the chain that it is of, how that was compiled, and the token of its gate."""

    whole: WantedFragment
    compiled: Compiled
    query: Any
    gate: str


def inputs_foreseen(wanted: WantedFragment) -> tuple[Input, ...]:
    """What a fragment will read when it takes over: what was read whole is read whole until its writer divides it."""
    return tuple(
        Input(keys.whole_of(item.channel), item.task) if keys.is_part(item.channel) else item for item in wanted.inputs)


def heirs_awaited(
    desired: DesiredState, *, begun: Collection[str], standing: Collection[str]
) -> frozenset[str]:
    """The fragments that are to go on with the work of others, and neither have begun nor stand by.

    Parameters
    ----------
    desired : DesiredState
        What the node should run and bring to an end.
    begun : collection of str
        Fragments with a record of their beginning.
    standing : collection of str
        Those that stand by.
    """
    return frozenset(
        fragment.id for fragment in desired.wanted.values()
        if fragment.id not in begun and fragment.id not in standing
        and not fragment.paused and not fragment.leaving and predecessors(desired, fragment))


class Patience:
    """Since when each heir is waited for, and whether that is long enough.

    Whenever one of them stands by, the others get as long again: many at once, or a machine with other work, take long
    to be compiled, and who waits for them works on meanwhile.
    """

    def __init__(self) -> None:
        self._since_ms: dict[str, int] = {}

    def is_over(self, awaited: Collection[str], *, now_ms: int) -> bool:
        """Whether nobody needs to be waited for, or need be no longer."""
        known = {} if self._since_ms.keys() - set(awaited) else self._since_ms
        self._since_ms = {name: known.get(name, now_ms) for name in awaited}
        return all(now_ms - since_ms >= STANDBY_MS for since_ms in self._since_ms.values())
