"""Standing by: a query is compiled, started and has done one empty batch before those end whose work it goes on with.

So what stands still during a handover is the batch that is under way, what is recorded of it, and the first batch of
the query that takes over. Those that end wait until all heirs of the node stand by, and not for ever: one that cannot
takes over as it would without, only later.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.contracts.desired import DesiredState, Input, WantedFragment
from workers.engine.channels import keys

from .delays import QUICK_MS, SOON_MS, STANDBY_MS, TICK_MS
from .handover_stages import HandoverStage, predecessors, remote_successors, stage_of

if TYPE_CHECKING:
    from workers.engine.spark.compile import CompiledQuery

    from ..transport.state_transport import Elsewhere
    from .started_fragments import SlotStore


@dataclass(frozen=True, slots=True)
class Standby:
    """A query that stands by: the chain that it is of, how that was compiled, and the token of its gate."""

    whole: WantedFragment
    compiled: CompiledQuery
    query: Any
    gate: str


def inputs_foreseen(fragment: WantedFragment) -> tuple[Input, ...]:
    """Inputs of a fragment when it takes over: a stream that was read whole is read whole until its writer divides
    it."""
    return tuple(
        item if (channel := taken_over_in(item, fragment)) == item.channel else Input(channel, item.task)
        for item in fragment.inputs)


def taken_over_in(item: Input, fragment: WantedFragment) -> str:
    """The channel in which a fragment goes on with what others read.

    Where its part is named after itself, and not after one of them, they read the whole stream; but what it has some
    keys of, they read to its end.
    """
    is_new = keys.is_part(item.channel) and keys.reader_of(item.channel) == fragment.id and not fragment.key_ranges
    return keys.whole_of(item.channel) if is_new else item.channel


def heirs_awaited(
    desired: DesiredState, *, begun: Collection[str], standing: Collection[str]
) -> frozenset[str]:
    """The fragments that are to go on with the work of others, and neither have begun nor stand by."""
    return frozenset(
        fragment.id for fragment in desired.wanted.values()
        if fragment.id not in begun and fragment.id not in standing
        and not fragment.paused and not fragment.leaving and not fragment.key_ranges
        and predecessors(desired, fragment))


def heirs_due(desired: DesiredState, ended: Collection[str]) -> frozenset[str]:
    """The fragments for which all of this node have ended whose work they are to go on with."""
    return frozenset(
        fragment.id for fragment in desired.wanted.values()
        if (names := predecessors(desired, fragment)) and all(name in ended for name in names))


def rest_s(
    desired: DesiredState, stages: Mapping[str, HandoverStage], *, has_standby: bool, is_sending: bool
) -> float:
    """The seconds after which a slot looks again that nobody wakes.

    Parameters
    ----------
    has_standby : bool
        True where a query stands by in the slot.
    is_sending : bool
        True if state is under way to or from another node, or keys to another bundle.
    """
    here = {stage for name, stage in stages.items() if not remote_successors(desired, name)} - {HandoverStage.OVER}
    if HandoverStage.END in here or (has_standby and HandoverStage.ENDED in here):  # an output stands still
        return QUICK_MS / 1000
    return (SOON_MS if here or is_sending else TICK_MS) / 1000


class Patience:
    """The waiting time for each heir, and whether it is long enough.

    Whenever one heir stands by, the others get the whole time again: compiling many at once, or on a busy machine,
    takes long, and the fragments that wait for them work on meanwhile.
    """

    def __init__(self) -> None:
        self._since_ms: dict[str, int] = {}

    def is_over(self, awaited: Collection[str], *, now_ms: int) -> bool:
        """True where nobody needs to be waited for, or need be no longer."""
        earlier = {} if self._since_ms.keys() - set(awaited) else self._since_ms
        self._since_ms = {name: earlier.get(name, now_ms) for name in awaited}
        return all(now_ms - since_ms >= STANDBY_MS for since_ms in self._since_ms.values())


def stages_of(
    desired: DesiredState, store: SlotStore, elsewhere: Elsewhere, patience: Patience, *, runs: Collection[str],
    now_ms: int,
) -> dict[str, HandoverStage]:
    """Stages of the fragments that hand over; those that are over count until they are cleared away.

    One that goes on on another node works until it is ready there, however long that takes; and until what can go ahead
    of its state is there.

    Parameters
    ----------
    patience : Patience
        The waits for heirs of this node.
    """
    if not desired.outgoing:
        return {}
    begun, ended = store.having("begun") | elsewhere.begun, store.having("ended")
    awaited = heirs_awaited(desired, begun=begun, standing=store.standing())
    may_end = patience.is_over(awaited, now_ms=now_ms)
    stages = {}
    for name in desired.outgoing:
        is_ready = all(heir.id in elsewhere.ready for heir in remote_successors(desired, name))
        stage = stage_of(desired, name, begun=begun, ended=ended, may_end=may_end and is_ready)
        if stage is HandoverStage.WORK and any(
                heir.id in elsewhere.to_copy for heir in remote_successors(desired, name)):
            stage = HandoverStage.COPY
        if stage is not HandoverStage.OVER or name in ended or name in runs:
            stages[name] = stage
    return stages
