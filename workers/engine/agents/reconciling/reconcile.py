"""Reconciliation: diff the actual and the desired state of a slot into actions. Pure: values in, actions out.

The slot performs the actions (``executor.py``) and calls again with what came of them; one that fails is decided anew.
A fragment has at most one action under way (``busy``), so actions on different fragments may overlap freely.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.contracts.desired import Input, Outlets, Routes, WantedFragment
from scheduler.contracts.partitioning import Partitioning

from .delays import HURRIED_MS
from .handover_stages import HandoverStage


class FragmentState(StrEnum):
    """The state of a fragment on its slot."""

    STARTING = "starting"
    WAITING = "waiting"  # for the stream that it reads
    RUNNING = "running"
    DRAINING = "draining"
    BACKOFF = "backoff"  # failed, to be tried again
    STOPPED = "stopped"  # no query, but a checkpoint: the slot was restarted, or the fragment was let go


@dataclass(frozen=True, slots=True)
class Actual:
    """A fragment as it is on the slot."""

    id: str
    state: FragmentState
    busy: bool = False
    outlets: Outlets = field(default_factory=dict)
    active: int = 1
    retry_at_ms: int | None = None  # nothing is tried before then
    inputs: tuple[Input, ...] = ()
    threads: int = 1
    routes: Routes = field(default_factory=dict)
    real_time: bool = False  # asked for when its query was compiled, whether the chain can be worked on so or not
    activate_at_ms: int | None = None  # routes are not in force yet as far as is known; it is looked at then
    alternates: Mapping[int, str] = field(default_factory=dict)
    trigger_ms: int | None = None  # between its batches; None before its query has started
    has_failed: bool = False  # its last run ended with an error, which may come again with the same batch
    gave_up: bool = False  # it failed too often to be started again unless somebody says so


@dataclass(frozen=True, slots=True)
class OnFragment:
    """An action that takes the whole fragment as it is wanted."""

    fragment: WantedFragment

    @property
    def fragment_id(self) -> str:
        return self.fragment.id


@dataclass(frozen=True, slots=True)
class Start(OnFragment):
    """Compile the fragment and start its query, from its checkpoint where it has one."""


@dataclass(frozen=True, slots=True)
class OpenOutlet:
    """Publish the stream at ``position`` for ``readers``, from the next batch on."""

    fragment_id: str
    position: int
    readers: frozenset[str]


@dataclass(frozen=True, slots=True)
class RegisterReaders:
    """Let more fragments read a stream that is published already, from now on."""

    fragment_id: str
    position: int
    readers: frozenset[str]


@dataclass(frozen=True, slots=True)
class UnregisterReaders:
    """Wait no longer for fragments that ceased to read; others go on."""

    fragment_id: str
    position: int
    readers: frozenset[str]


@dataclass(frozen=True, slots=True)
class CloseOutlet:
    """Publish a stream no longer: its last readers are gone."""

    fragment_id: str
    position: int
    readers: frozenset[str]


@dataclass(frozen=True, slots=True)
class DivideStream:
    """Divide the stream at ``position`` anew among the bundles of a reader, from the next batch on."""

    fragment_id: str
    position: int
    reader: str
    partitioning: Partitioning


@dataclass(frozen=True, slots=True)
class Unroute:
    """Divide a stream no longer for a reader that ceased to read."""

    fragment_id: str
    position: int
    reader: str


@dataclass(frozen=True, slots=True)
class SwitchAlternates:
    """Let other alternates of dynamic tasks work, by position, from the next batch on, while the query runs on."""

    fragment_id: str
    alternates: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Repace:
    """Let batches begin otherwise far apart, while the query runs on."""

    fragment_id: str
    trigger_ms: int


@dataclass(frozen=True, slots=True)
class CloseTail:
    """Let only the first ``active`` tasks work."""

    fragment_id: str
    active: int


@dataclass(frozen=True, slots=True)
class OpenTail:
    """Let the first ``active`` tasks work again, more than before."""

    fragment_id: str
    active: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Drain and stop the query. What the fragment left is removed, unless another slot of the node takes it over."""

    fragment_id: str
    keep: bool


@dataclass(frozen=True, slots=True)
class End(OnFragment):
    """Read what is left to read, stop cleanly, and leave what others go on with."""


@dataclass(frozen=True, slots=True)
class CopyState(OnFragment):
    """Copy state between two batches, and work on: for heirs elsewhere, savepoints, holders, or who takes its keys."""

    savepoints: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    heir: WantedFragment | None = None  # takes keys


@dataclass(frozen=True, slots=True)
class BringKeys(OnFragment):
    """Bring states of the keys that the fragment is to take, while those that have them work on; then it is ready."""


@dataclass(frozen=True, slots=True)
class Pause(OnFragment):
    """Stop cleanly, keep the state, and give up the places in the channels that the fragment reads."""


@dataclass(frozen=True, slots=True)
class Restart(OnFragment):
    """Go on with other inputs or threads once those are there, or in the other mode: where its query cannot be told, it
    stops cleanly and starts from its checkpoint."""


@dataclass(frozen=True, slots=True)
class ActivateRoutes:
    """Bring routes into force between two batches: no batch with events has done it."""

    fragment_id: str


@dataclass(frozen=True, slots=True)
class Leave(OnFragment):
    """Stop cleanly once nothing is left to read, and nobody will write more; done when all that it wrote is read."""


Change = (
    OpenOutlet | RegisterReaders | UnregisterReaders | CloseOutlet | DivideStream | Unroute | CloseTail | OpenTail
    | Repace | SwitchAlternates
)
Action = Start | Restart | End | CopyState | BringKeys | Pause | ActivateRoutes | Leave | Change | Stop


def reconcile(
    desired: Iterable[WantedFragment],
    actual: Mapping[str, Actual],
    now_ms: int,
    *,
    elsewhere: frozenset[str] = frozenset(),
    outgoing: Iterable[tuple[WantedFragment, HandoverStage]] = (),
    staying: frozenset[str] = frozenset(),
    resting: frozenset[str] = frozenset(),
    left_ids: frozenset[str] = frozenset(),
    saving: Iterable[CopyState] = (),
) -> tuple[Action, ...]:
    """The actions that bring a slot nearer to its desired state; none when it is there.

    Parameters
    ----------
    desired : Iterable[WantedFragment]
        Fragments that the slot should run, upstream first.
    actual : Mapping[str, Actual]
        Fragments that it runs, by id, records of stopped fragments included.
    elsewhere : frozenset[str]
        Fragments that another slot of the node should run.
    outgoing : Iterable[tuple[WantedFragment, HandoverStage]]
        Fragments of this slot whose work others go on with, and how far they have come.
    staying : frozenset[str]
        Fragments of any slot that hand over: they keep their places in channels until they give them up themselves.

    Returns
    -------
    tuple[Action, ...]
        Changes of running fragments, then starts (upstream first), then stops; the order within a fragment counts.
    """
    fragments = {fragment.id: fragment for fragment in desired}
    handing_over = {fragment.id: (fragment, stage) for fragment, stage in outgoing}
    stopping = frozenset(actual.keys() - fragments.keys()) | staying
    changes, starts = list[Action](), list[Action]()
    for fragment in fragments.values():
        actual_run = actual.get(fragment.id)
        if fragment.paused:
            # One that has never begun may be another's heir: it takes over, and rests.
            is_heir = bool(fragment.inherits) and not fragment.key_ranges
            may_act = is_heir if actual_run is None else (
                _may_act(actual_run, now_ms) or (actual_run.gave_up and not actual_run.busy))
            if may_act and fragment.id not in resting:
                changes += [*_activation(actual_run, now_ms), Pause(fragment)]
        elif (fragment.leaving and fragment.id in left_ids) or (actual_run and not _may_act(actual_run, now_ms)):
            continue
        elif actual_run is not None and actual_run.state is FragmentState.RUNNING:
            copying = [action for action in saving if action.fragment_id == fragment.id]
            changes += _changes(fragment, actual_run, stopping, gives=any(action.heir for action in copying))
            changes += [*_activation(actual_run, now_ms), *copying]
            if fragment.leaving:
                changes.append(Leave(fragment))
        elif fragment.leaving:
            starts.append(Leave(fragment))
        elif actual_run is None or (
                actual_run.state in (FragmentState.STOPPED, FragmentState.WAITING, FragmentState.BACKOFF)
                and not actual_run.gave_up):
            starts.append(Start(fragment))
    for fragment, stage in handing_over.values():
        starts += _ceding(fragment, stage, actual.get(fragment.id), now_ms)
    stops = [
        Stop(fragment_id, keep=fragment_id in elsewhere)
        for fragment_id, actual_run in sorted(actual.items())
        if fragment_id not in fragments and fragment_id not in handing_over and _may_stop(actual_run, now_ms)
    ]
    return (*changes, *starts, *stops)


def _ceding(fragment: WantedFragment, stage: HandoverStage, actual_run: Actual | None, now_ms: int) -> list[Action]:
    """What a fragment that hands over still has to do. It works on until it is its turn to end."""
    if stage is HandoverStage.OVER:
        return [Stop(fragment.id, keep=False)] if actual_run is None or _may_stop(actual_run, now_ms) else []
    if stage is HandoverStage.ENDED or (actual_run is not None and not _may_act(actual_run, now_ms)):
        return []
    if stage is HandoverStage.END:
        is_slow = actual_run is not None and (actual_run.trigger_ms or 0) > HURRIED_MS
        hurry: list[Action] = [Repace(fragment.id, HURRIED_MS)] if is_slow else []
        return [*hurry, *_activation(actual_run, now_ms), End(fragment)]
    if actual_run is not None and actual_run.state is FragmentState.RUNNING:
        return [CopyState(fragment)] if stage is HandoverStage.COPY else _activation(actual_run, now_ms)
    return [Start(fragment)] if actual_run is None or not actual_run.gave_up else []


def _activation(actual_run: Actual | None, now_ms: int) -> list[Action]:
    """A look at routes that is due. It also resumes a query that still rests since the broker was away: only then does
    the query read what is left, before it ends or pauses."""
    if actual_run is None or actual_run.state is not FragmentState.RUNNING or actual_run.activate_at_ms is None:
        return []
    return [ActivateRoutes(actual_run.id)] if actual_run.activate_at_ms <= now_ms else []


def _may_act(actual_run: Actual, now_ms: int) -> bool:
    return not actual_run.busy and (actual_run.retry_at_ms is None or actual_run.retry_at_ms <= now_ms)


def _may_stop(actual_run: Actual, now_ms: int) -> bool:
    # What waits or failed need not sit out its delay to be given up; a clean-up that failed does.
    return not actual_run.busy and (actual_run.state is not FragmentState.STOPPED or _may_act(actual_run, now_ms))


def _changes(
    fragment: WantedFragment, actual_run: Actual, stopping: frozenset[str], *, gives: bool
) -> list[Action]:
    """What differs between a running fragment and the wish.

    Opening comes before closing, so that nothing is missed. A reader that is being stopped here keeps its place until
    it is gone: it may still be reading what only its place holds back. So does one whose work a reader goes on with.
    What needs another query comes last. Keys stand still until one that ``gives`` them away has left them, and until
    readers read where they go on: meanwhile their batches may be nearer than is wanted (``outputs.hastened``).
    """
    opening: list[Action] = []
    closing: list[Action] = []
    for position in sorted(set(fragment.outlets) | set(actual_run.outlets)):
        want = fragment.outlets.get(position, frozenset())
        have = actual_run.outlets.get(position, frozenset())
        # One that is to read parts reads the whole until its stream is divided, as do those before it.
        routed = fragment.routes.get(position, {}).keys()
        gone = have - want - stopping - routed - fragment.predecessors(want | routed)
        if want and not have:
            opening.append(OpenOutlet(fragment.id, position, want))
        elif want - have:
            opening.append(RegisterReaders(fragment.id, position, want - have))
        if gone and gone == have and not want:
            closing.append(CloseOutlet(fragment.id, position, gone))
        elif gone:
            closing.append(UnregisterReaders(fragment.id, position, gone))
    routing, unrouting = _routing(fragment, actual_run, stopping)
    opening, closing = opening + routing, closing + unrouting
    if fragment.active > actual_run.active:
        opening.insert(0, OpenTail(fragment.id, fragment.active))
    elif fragment.active < actual_run.active:
        closing.append(CloseTail(fragment.id, fragment.active))
    hurries = fragment.leaving or gives
    trigger_ms = min(fragment.trigger_ms, HURRIED_MS) if hurries else fragment.trigger_ms
    may_be_nearer = hurries or waits_for_keys(fragment, actual_run.inputs)
    paced_ms = trigger_ms if actual_run.trigger_ms is None else actual_run.trigger_ms
    if paced_ms > trigger_ms or (paced_ms < trigger_ms and not may_be_nearer):
        opening.append(Repace(fragment.id, trigger_ms))
    if fragment.alternates != actual_run.alternates:
        opening.append(SwitchAlternates(fragment.id, fragment.alternates))
    if set(fragment.inputs) != set(actual_run.inputs) or _runs_otherwise(fragment, actual_run):
        closing.append(Restart(fragment))
    return opening + closing


def waits_for_keys(fragment: WantedFragment, inputs: Collection[Input]) -> bool:
    """True where one that reads these inputs does not yet read a channel in which keys go on that others had."""
    return any(item.after and item not in inputs for item in fragment.inputs)


def _runs_otherwise(fragment: WantedFragment, actual_run: Actual) -> bool:
    return fragment.threads != actual_run.threads or fragment.real_time != actual_run.real_time


def _routing(
    fragment: WantedFragment, actual_run: Actual, stopping: frozenset[str]
) -> tuple[list[Action], list[Action]]:
    """How streams are to be divided otherwise, and for whom no longer."""
    routing: list[Action] = []
    unrouting: list[Action] = []
    for position in sorted(set(fragment.routes) | set(actual_run.routes)):
        want, have = fragment.routes.get(position, {}), actual_run.routes.get(position, {})
        routing += [
            DivideStream(fragment.id, position, reader, how)
            for reader, how in sorted(want.items()) if have.get(reader) != how
        ]
        unrouting += [
            Unroute(fragment.id, position, reader)
            for reader, how in sorted(have.items())
            if reader not in want and not stopping.intersection(how.bundles)
        ]
    return routing, unrouting
