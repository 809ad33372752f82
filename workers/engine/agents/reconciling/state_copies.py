"""Copies of queries' state on other nodes, for when a machine is lost: one slot's side of sending and of holding them.

The agent says which fragments have copies where, and whose this node holds (``supervising/copy_holders.py``). A copy is
made between two batches, as one that goes ahead of a handover, and goes the same way: first all, then what is new. A
batch may last longer than a slot holds a query for it. Then no batch is planned behind that one until the copy is made.
A copy counts once all of it is on the holder's disk (``<fragment>--<node>.held``). Inputs and ranges are freed behind
the oldest copy (``scheduler/elasticity/query_copies.py``). A paused query has one last copy, made at rest, for which
channels keep nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

import redis

from scheduler.contracts.copy_reports import COPY_REPORTS, CopyReport, copies_told
from scheduler.contracts.desired import DesiredState, WantedFragment
from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint
from scheduler.elasticity.copied_queries import CHANGING_HANDS, NO_BATCH, UNDONE, why_fewer, why_not_copied
from scheduler.elasticity.query_copies import BatchCopy, copied_places, counting_copies, lacked_batches
from workers.engine.channels import keys
from workers.engine.channels.batch_ranges import TICKS, entry_of, forget_ranges, free_to, kept_from, place_of
from workers.engine.channels.channel_info import texts
from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.control import forget_before
from workers.engine.slot_values import UNREADABLE
from workers.engine.worker_settings import Settings
from workers.library.registry import task_types

from ..node_files.checkpoint import CheckpointProgress
from ..node_files.node_store import CopyWishes, NodeStore
from ..transport.ahead import LIMITS, Sent
from ..transport.copies_ahead import CopyReceiver, CopySender
from ..transport.copy_pace import CopyPace
from ..transport.copy_takeover import HELD
from ..transport.news import AHEAD, COPY, NEWER, Broken, News
from ..transport.parcels import PIECE_BYTES, Manifests, Parcels
from .inputs import channels_of
from .kept_inputs import KeptInputs
from .reconcile import Actual, CopyState, FragmentState

LOOK_MS = 500
FIRST_SLOT = "0"  # holds what comes from other nodes


class QueryCopies:
    """A slot's side of the copies of its queries' states."""

    def __init__(
        self, broker: redis.Redis, store: Any, node_store: NodeStore, settings: Settings, *, slot: str,
        clock_ms: Callable[[], int],
    ) -> None:
        self._broker, self._channels, self._store, self._node_store = broker, Channels(broker), store, node_store
        self._slot, self._clock_ms, self._every_ms = slot, clock_ms, round(settings.copy_s * 1000)
        self._task_types, self._most, self._pace = task_types(), settings.copies, CopyPace()
        news = News(store, most_share=LIMITS.most_share, keeps_stores=not settings.spark_master)
        self._news, self._manifests = news, Manifests()
        self._sender = CopySender(broker, store, news, Parcels(store.files, piece_bytes=PIECE_BYTES), limits=LIMITS)
        self._receiver = CopyReceiver(broker, store, news, self._manifests)
        self._orders: dict[str, tuple[int, int]] = {}  # by copy: when the last one was asked for, and after which batch
        # Fragments that plan no batch until a copy is made of the one under way; whether one is due, by the last look.
        self._rests: dict[str, bool] = {}
        self._facts: dict[str, dict[str, Any]] = {}  # by fragment
        self._lacked_ms: dict[str, dict[int, int]] = {}  # by fragment: batches that its oldest copy lacks
        self._inputs = KeptInputs(self._channels)
        self._without_copies: set[str] = set()  # fragments of which nothing is kept for copies
        self._bases: dict[str, tuple[int, int]] = {}  # by fragment: when what it began with was written, and batches
        self._looked_at: set[str] = set()  # fragments whose copies here were looked at, whether they are there
        self._look_at_ms = 0

    def turn(
        self, desired: DesiredState, actual: Mapping[str, Actual], busy: Collection[str]
    ) -> tuple[CopyState, ...]:
        """Send and take what is on its way; the copies that are due of fragments that run.

        While the broker is away none is.

        Parameters
        ----------
        busy : collection of str
            Fragments for which something else is to be done first.
        """
        now_ms = self._clock_ms()
        if now_ms < self._look_at_ms and not self._is_any_at_rest():
            return ()
        self._look_at_ms = now_ms + LOOK_MS
        self._rests = dict.fromkeys(self._rests, False)
        due = self._due(desired, actual, busy, now_ms)
        self._resume(actual)
        return due

    def _due(
        self, desired: DesiredState, actual: Mapping[str, Actual], busy: Collection[str], now_ms: int
    ) -> tuple[CopyState, ...]:
        wishes = self._node_store.read_copy_wishes()
        due: list[CopyState] = []
        if wishes is None:
            return ()
        with suppress(redis.RedisError):
            for fragment in desired.of_slot(self._slot):
                run = actual.get(fragment.id)
                is_at_rest = fragment.paused and self._store.has(fragment.id, "paused")
                if run is None or (run.state is not FragmentState.RUNNING and not is_at_rest):
                    continue
                with suppress(*UNREADABLE):  # slots write there, also of other nodes: what is none is this one's alone
                    if is_at_rest:
                        due += self._look_after_at_rest(fragment, run, wishes)
                        continue
                    due += self._look_after(desired, fragment, run, wishes, now_ms, is_busy=fragment.id in busy)
            self._drop(desired, wishes)
            if self._slot == FIRST_SLOT:
                self._hold(desired, wishes)
        return tuple(due)

    def is_awaited(self, fragment_id: str) -> bool:
        """True where a copy is to be made as soon as the batch of a fragment that is under way has ended."""
        return fragment_id in self._rests

    def facts_of(self, fragment_id: str) -> Mapping[str, Any]:
        """The part of reports about the copies of a fragment's state, where any are asked for: fields of
        `QueryReport`."""
        return self._pace.with_times(fragment_id, self._facts.get(fragment_id, {})) if self._most else {}

    # -- the node whose state it is ------------------------------------------------------------------------------------

    def _look_after(
        self, desired: DesiredState, fragment: WantedFragment, run: Actual, wishes: CopyWishes, now_ms: int, *,
        is_busy: bool,
    ) -> list[CopyState]:
        """Send what is next of a fragment's copies, and let go of what these need no more: the copies that are due."""
        nodes, due = wishes.own.get(fragment.id, ()), []
        never = "" if nodes else why_not_copied(fragment, self._task_types)
        reason = never or self._why_without(fragment, nodes, wishes.living)
        if reason:
            self._facts[fragment.id] = {"survives": 0, "copies": 0 if never else self._most, "not_copied": reason}
            self._keep_nothing(fragment)
        elif not run.busy:
            self._without_copies.discard(fragment.id)
            lacking = self._send(fragment, nodes, now_ms)
            if not is_busy and (holders := self._ask(fragment, lacking, now_ms)):
                due.append(CopyState(fragment, holders=holders))
            self._free(fragment, nodes, wishes.living, read={item.channel for item in run.inputs})
            if self._is_changing_hands(desired, fragment):
                self._facts[fragment.id] = {
                    "copies": self._most, **self._facts.get(fragment.id, {}), "survives": 0,
                    "not_copied": CHANGING_HANDS}
        return due

    def _look_after_at_rest(self, fragment: WantedFragment, run: Actual, wishes: CopyWishes) -> list[CopyState]:
        """Send the next part of the last copies of a paused fragment, until each holder has one.
        Channels keep nothing for them, and older copies no longer count."""
        nodes = wishes.own.get(fragment.id, ())
        reports = copies_told(texts(self._broker.hgetall(keys.copies(fragment.id))))
        counting = counting_copies(
            [BatchCopy(node, report.batch, report.places) for node, report in reports.items()],
            set(wishes.living) - {self._node_store.node}, kept_from=kept_from(self._broker, fragment.id))
        progress = self._store.progress(fragment.id)
        is_undone = not progress.is_done and any(map(keys.is_intake, progress.offsets))
        never = UNDONE if is_undone else "" if nodes else why_not_copied(fragment, self._task_types)
        lacking = {"not_copied": never or self._why_fewer(nodes, wishes.living)} if len(counting) < self._most else {}
        self._facts[fragment.id] = {
            "survives": len(counting), "copies": 0 if never else self._most, "held_by": tuple(counting),
            "copied_at_ms": min((reports[node].at_ms for node in counting), default=None), **lacking}
        batches = self._batches_before(fragment.id) + progress.batch + 1
        due = tuple(
            node for node in nodes if not is_undone and (node not in reports or reports[node].batch < batches)
            and not self._send_next(keys.copy_name(fragment.id, node)).is_on_its_way)
        for node in set(due) - reports.keys():
            self._sender.drop(keys.copy_name(fragment.id, node))  # if it was there it is gone: all goes again
        if due:
            self._let_go(fragment, needed=())
        return [CopyState(fragment, holders=due)] if due and not run.busy else []

    def _send_next(self, name: str) -> Sent:
        """Send what is next of a copy: what has come of it then."""
        sent = self._pace.noted(name, self._sender.send(name), at_ms=self._clock_ms())
        if sent.is_refused:
            self._sender.drop(name)
        return sent

    def _send(self, fragment: WantedFragment, nodes: Collection[str], now_ms: int) -> tuple[str, ...]:
        """Send what is next of a fragment's copies: the nodes for which new ones are due."""
        whole = self._broker.hkeys(keys.copies(fragment.id))
        progress = self._store.progress(fragment.id)
        return tuple(
            node for node in nodes
            if progress.batch >= 0 and self._is_due(
                keys.copy_name(fragment.id, node), progress, now_ms, is_whole=node.encode() in whole))

    def _is_due(self, name: str, progress: CheckpointProgress, now_ms: int, *, is_whole: bool) -> bool:
        sent = self._send_next(name)
        if sent.is_on_its_way:
            return False
        made_ms, made_of = self._orders.get(name, (0, -1))
        if not (is_whole and sent.is_stored) or self._has_outlasted(name, progress):
            return True
        return now_ms - made_ms >= self._every_ms and made_of != progress.batch

    def _has_outlasted(self, name: str, progress: CheckpointProgress) -> bool:
        """Whether the batch under way has lasted longer than the slot held its query for a copy, so that none was made.
        """
        return not progress.is_done and name in self._orders and self._orders[name][1] == progress.batch

    def _ask(self, fragment: WantedFragment, due: tuple[str, ...], now_ms: int) -> tuple[str, ...]:
        """The nodes that a copy is to be made for now, of those that are due.

        After a batch that outlasted the slot's hold no copy is planned: it is tried again when that batch has ended.
        """
        progress = self._store.progress(fragment.id)
        names = [keys.copy_name(fragment.id, node) for node in due]
        is_resting = fragment.id in self._rests
        if due and not progress.is_done and (
                is_resting or any(self._has_outlasted(name, progress) for name in names)):
            self._rests[fragment.id] = True
            for name in names:
                self._orders.pop(name, None)
            self._channels.pause(fragment.id)
            return ()
        if due and is_resting:
            self._rests[fragment.id] = True
        self._orders.update(dict.fromkeys(names, (now_ms, progress.batch)))
        return due

    def _is_any_at_rest(self) -> bool:
        """Whether a query stands still until a copy of its state is made."""
        with suppress(*UNREADABLE):  # the next look in turn says whose checkpoint is none
            return any(self._store.progress(fragment_id).is_done for fragment_id in self._rests)
        return False

    def _resume(self, actual: Mapping[str, Actual]) -> None:
        """Let fragments plan batches again for which no copy is due any more; one that is started anew does so itself.
        """
        for fragment_id in [name for name, is_due in self._rests.items() if not is_due]:
            run = actual.get(fragment_id)
            if run is not None and run.busy:
                continue  # it may rest for what is done with it
            with suppress(redis.RedisError):  # the next look does it
                if run is not None and run.state is FragmentState.RUNNING:
                    self._channels.resume(fragment_id)
                del self._rests[fragment_id]

    def _is_changing_hands(self, desired: DesiredState, fragment: WantedFragment) -> bool:
        """Whether others are to take keys of it, and have not begun: these have no copy yet."""
        return any(
            fragment.id in heir.taken and not self._store.has(heir.id, "begun") for heir in desired.wanted.values())

    def _free(
        self, fragment: WantedFragment, nodes: Collection[str], living: Collection[str], *, read: Collection[str]
    ) -> None:
        """Let go of what neither the copies nor the query itself, which reads these channels, need any more."""
        reports = copies_told(texts(self._broker.hgetall(keys.copies(fragment.id))))
        progress = self._store.progress(fragment.id)
        done = progress.offsets if progress.is_done else progress.start_offsets
        places = {channel: entry_of(offset) for channel, offset in done.items()}
        if progress.source_offset is not None and progress.is_done:
            places[TICKS] = (progress.source_offset["next"], 0)
        reason = self._why_fewer(nodes, living)
        if not reports:
            is_new = progress.batch < 0 and not fragment.inherits
            self._facts[fragment.id] = {
                "survives": 0, "copies": 0 if is_new else self._most, "not_copied": NO_BATCH if is_new else reason}
        if not reports or not places:
            return
        copies = [BatchCopy(node, report.batch, report.places) for node, report in reports.items()]
        begun = self._batches_before(fragment.id) + progress.batch + 1
        query = BatchCopy(self._node_store.node, begun - (not progress.is_done), places)
        oldest = kept_from(self._broker, fragment.id)
        stand = copied_places(query, copies, living, kept_from=oldest)
        age = {"copied_at_ms": None}
        if stand.holders:
            whole_ms = min(reports[holder].at_ms for holder in stand.holders)
            lacked_ms = self._lacked_ms[fragment.id] = lacked_batches(
                self._lacked_ms.get(fragment.id), begun=begun, whole_ms=whole_ms, now_ms=self._clock_ms(),
                copied=min(reports[holder].batch for holder in stand.holders))
            age = {"copied_at_ms": min(lacked_ms.values(), default=whole_ms), "lacks_none": not lacked_ms}
        lacking = {"not_copied": reason} if stand.survives < self._most else {}
        self._facts[fragment.id] = {
            "survives": stand.survives, "copies": self._most, "held_by": stand.holders, **age, **lacking}
        if stand.survives:
            free_to(
                self._broker, self._channels, fragment.id, stand.freed_to, kept_from=stand.kept_from,
                needed=stand.needed)
            if stand.kept_from > oldest:
                forget_before(self._broker, fragment.id, stand.kept_from - self._batches_before(fragment.id))
            self._let_go(fragment, needed=stand.needed.union(read))
            for channel in fragment.written:
                bases = [report.bases.get(channel, 0) for report in reports.values()]
                if self._broker.exists(keys.meta(channel)):
                    self._broker.hset(keys.meta(channel), keys.COPIED, min(bases))

    def _batches_before(self, fragment_id: str) -> int:
        """How many batches those had done whose work a fragment goes on with; read once, for the file may be large."""
        path = self._store.begun_path(fragment_id)
        written_ns = path.stat().st_mtime_ns if path.exists() else 0
        if self._bases.get(fragment_id, (None, 0))[0] != written_ns:
            begun = self._store.begun(fragment_id)
            bases = begun.batch_bases.values() if begun is not None else ()
            self._bases[fragment_id] = written_ns, max(bases, default=0)
        return self._bases[fragment_id][1]

    def _let_go(self, fragment: WantedFragment, *, needed: Collection[str]) -> None:
        """Keep nothing in channels that the query and all copies have left out, at their end."""
        reader, recorded = keys.copies_reader(fragment.id), self._store.known_fragment(fragment.id)
        names = channels_of((*fragment.inputs, *(recorded.inputs if recorded is not None else ())))
        infos, _ = self._channels.look([name for name in names if name not in needed])
        for name, info in infos.items():
            if reader in info.readers:
                self._channels.unregister(name, reader)

    def _why_without(self, fragment: WantedFragment, nodes: Collection[str], living: Collection[str]) -> str:
        """Why there is no copy of a fragment's state for now; empty where there is to be one."""
        if not nodes:
            return self._why_fewer(nodes, living)
        return self._inputs.why_not_kept(fragment, now_ms=self._clock_ms())

    def _why_fewer(self, nodes: Collection[str], living: Collection[str]) -> str:
        others = len({*living} - {self._node_store.node})
        return why_fewer(self._most, chosen=len(nodes), others=others)

    def _keep_nothing(self, fragment: WantedFragment) -> None:
        """Nobody is to hold its state: nothing is kept for copies, once it repeats no batch of another."""
        if fragment.id in self._without_copies:
            return
        names = channels_of(fragment.inputs)
        progress = self._store.progress(fragment.id)
        place = place_of(Savepoint(progress.source_offset, progress.offsets))
        if forget_ranges(self._broker, self._channels, fragment.id, names, place=place):
            for channel in fragment.written:
                self._broker.hdel(keys.meta(channel), keys.COPIED)
            self._without_copies.add(fragment.id)

    def _drop(self, desired: DesiredState, wishes: CopyWishes) -> None:
        """What is here of copies that no node is to have any more goes; ranges go with fragments (``removal.py``)."""
        fragment_ids = {fragment.id for fragment in desired.of_slot(self._slot)}
        self._facts = {fragment_id: facts for fragment_id, facts in self._facts.items() if fragment_id in fragment_ids}
        self._lacked_ms = {name: lacked for name, lacked in self._lacked_ms.items() if name in fragment_ids}
        self._pace.keep({keys.copy_name(name, node) for name, nodes in wishes.own.items() for node in nodes})
        gifts = {keys.gift_name(giver, taker.id) for taker in desired.takers for giver in taker.taken}
        for name in self._store.files.names(AHEAD):
            fragment_id, is_copy, node = name.partition(keys.COPY_MARK)
            is_mine = fragment_id in fragment_ids or (self._slot == FIRST_SLOT and fragment_id not in desired.wanted)
            if not is_copy or name in gifts or not is_mine or node in wishes.own.get(fragment_id, ()):
                continue
            self._orders.pop(name, None)
            with suppress(redis.exceptions.NoPermissionError):  # of one that was removed; what is in the broker expires
                self._sender.drop(name)

    # -- the node that holds it ----------------------------------------------------------------------------------------

    def _hold(self, desired: DesiredState, wishes: CopyWishes) -> None:
        node = self._node_store.node
        self._looked_at &= wishes.held.keys()
        for fragment_id in wishes.held:
            name = keys.copy_name(fragment_id, node)
            is_new = fragment_id not in self._looked_at
            self._looked_at.add(fragment_id)
            with suppress(*UNREADABLE):  # a slot of another node wrote there: what is none is this one's alone
                if is_new and self._store.files.size(name, HELD) is None:
                    self._broker.hdel(keys.copies(fragment_id), node)  # what was told of one is gone with a disk
                self._receiver.turn(
                    name, note=lambda *_: 0,
                    on_taking=lambda name=name: self._store.files.drop(name, HELD),  # its stores change
                    on_taken=lambda check, of=fragment_id: self._keep(of, check))
        for name in self._store.files.names(HELD):
            if name.partition(keys.COPY_MARK)[0] not in wishes.held:
                self._store.files.drop(name, HELD, COPY, NEWER)

    def _keep(self, fragment_id: str, check: str) -> None:
        """A copy is whole: it counts from now on, and none before it."""
        node = self._node_store.node
        name = keys.copy_name(fragment_id, node)
        record = self._news.record(name, check)
        if record is None:
            return
        try:
            report = report_of(SAVEPOINTS.loads(record), at_ms=self._clock_ms())
        except UNREADABLE as error:
            raise Broken("its places are none") from error
        self._store.files.write(name, HELD, record)
        self._broker.hset(keys.copies(fragment_id), node, COPY_REPORTS.dumps(report))


def report_of(saved: Savepoint, *, at_ms: int) -> CopyReport:
    """The report for others about a copy that was whole then."""
    places = {channel: entry_of(offset) for channel, offset in saved.offsets.items()}
    if saved.source_offset is not None and not places:
        places[TICKS] = (saved.source_offset["next"], 0)
    return CopyReport(max(saved.batch_bases.values(), default=0), places, saved.batch_bases, at_ms)
