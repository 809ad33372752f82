"""The node's local store: what its slots have started, in files that survive everything else. What it should run is in
``node_store``.

    <data-dir>/nodes/<node>/slot-<n>/<fragment>.json  a fragment that the slot has started and not yet removed
    <data-dir>/checkpoints/<fragment>/                its checkpoint (Spark's), and beside it <fragment>.json (the chain
                                                      that made it), <fragment>.lock (held by who runs it) and
                                                      <fragment>.removed (all this may be deleted later); where it
                                                      goes on with the work of others, or had a pause, <fragment>.begun
                                                      (what it began with); <fragment>.ended (what it left for others),
                                                      <giver>--<fragment>.ended (the states of keys given to it),
                                                      <fragment>--<heir>.gift (that as it goes to another node),
                                                      <giver>--<fragment>.near (no more goes ahead of that),
                                                      <fragment>.paused, <fragment>.left (a bundle that is done),
                                                      <fragment>.standby (its query waits for its turn),
                                                      <fragment>.received (what came for it from another node),
                                                      <fragment>.copy and <fragment>.coming-* (what comes ahead of that,
                                                      and what has come so far), <fragment>.ahead,
                                                      <fragment>--<node>.copy and <fragment>--<node>.held (the state of
                                                      another node's, in case that is lost, and its record),
                                                      <fragment>.newer and <fragment>.difference (sent to one of
                                                      another node),
                                                      and <fragment>.folds (of each of its tasks)
    <data-dir>/folds/<fragment>.<…>.fold              state by key that a fold of it made (``fold_stores``)
    <data-dir>/checkpoints/handover.lock              held while a fragment takes over
    <data-dir>/outputs/                               what file sinks write
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scheduler.contracts.desired import WANTED_FRAGMENTS, WantedFragment
from scheduler.contracts.savepoints import RESTORE_POINTS, SAVEPOINTS, RestorePoint, Savepoint
from workers.engine.channels import open_streams
from workers.engine.spark import fold_files

from ..node_files.atomic_files import names_in, write_atomically
from ..node_files.checkpoint import CheckpointProgress, read_progress
from ..node_files.fold_stores import FoldStores
from ..node_files.node_store import TAKEN, VOID
from ..transport.parcels import COMING, FilesBeside


@dataclass(frozen=True, slots=True)
class SlotStore:
    """The records of the fragments that a slot has started, and their checkpoints."""

    data_dir: Path
    folder: Path

    def records(self) -> dict[str, WantedFragment]:
        """Every fragment that the slot has started and not yet removed."""
        fragments = (WANTED_FRAGMENTS.loads(path.read_text()) for path in sorted(self.folder.glob("*.json")))
        return {fragment.id: fragment for fragment in fragments}

    def own_fragment(self, fragment_id: str) -> WantedFragment | None:
        """The slot's own record of a fragment, until it is forgotten; None where it has none."""
        try:
            return WANTED_FRAGMENTS.loads(self._own_path(fragment_id).read_text())
        except FileNotFoundError:
            return None

    def record(self, fragment: WantedFragment) -> None:
        """Remember that the fragment is about to be started."""
        self._beside(fragment.id, "removed").unlink(missing_ok=True)
        write_atomically(self._beside(fragment.id, "json"), _text_of(fragment))
        write_atomically(self._own_path(fragment.id), _text_of(fragment))

    def take_on(self, fragment: WantedFragment) -> None:
        """Remember that what the fragment leaves is this slot's to clear away, though it may never be started here."""
        if not self._own_path(fragment.id).exists():
            write_atomically(self._own_path(fragment.id), _text_of(fragment))

    def known_fragment(self, fragment_id: str) -> WantedFragment | None:
        """The fragment that made the checkpoint, as it last started, on whatever slot; None for a new one."""
        try:
            return WANTED_FRAGMENTS.loads(self._beside(fragment_id, "json").read_text())
        except FileNotFoundError:
            return None

    def remove_checkpoint(self, fragment_id: str) -> None:
        """Delete a checkpoint that nobody will go on from; not there is fine."""
        shutil.rmtree(self.checkpoint(fragment_id), ignore_errors=True)
        for record in ("json", "begun", "ended", "paused", "left", "folds", "standby", "received"):
            self._beside(fragment_id, record).unlink(missing_ok=True)
        self.files.drop(fragment_id, "copy", *self.files.kinds(fragment_id, COMING))
        for pattern in (*(f"*--{fragment_id}.{kind}" for kind in ("ended", "near", "copy")),
                        *(f"{fragment_id}--*.{kind}" for kind in ("ended", "gift"))):
            for gift in (self.data_dir / "checkpoints").glob(pattern):
                gift.unlink(missing_ok=True)

    def clear_checkpoint(self, fragment_id: str) -> None:
        """Delete Spark's part of a checkpoint alone: the fragment goes on from what is recorded beside it."""
        shutil.rmtree(self.checkpoint(fragment_id), ignore_errors=True)

    def forget(self, fragment_id: str) -> None:
        """The fragment is no longer this slot's."""
        self._own_path(fragment_id).unlink(missing_ok=True)

    def checkpoint(self, fragment_id: str) -> Path:
        """The fragment's checkpoint folder."""
        return self.data_dir / "checkpoints" / fragment_id

    def has_begun(self, fragment_id: str) -> bool:
        """True where the fragment ever planned a batch: without one it starts from the beginning."""
        offsets = self.checkpoint(fragment_id) / "offsets"
        if open_streams.journal(self.checkpoint(fragment_id)) is not None:
            return True
        return offsets.is_dir() and any(path.name.isdigit() for path in offsets.iterdir())

    def progress(self, fragment_id: str) -> CheckpointProgress:
        """The progress of the fragment's checkpoint."""
        return read_progress(self.checkpoint(fragment_id))

    # -- what passes from one fragment to another ----------------------------------------------------------------

    def begun(self, fragment_id: str) -> RestorePoint | None:
        """The restore point that the fragment began from; None where it began with nothing, or did not begin."""
        document = self._read(fragment_id, "begun")
        return None if document is None else RESTORE_POINTS.read(document)

    def ended(self, fragment_id: str) -> Savepoint | None:
        """The savepoint that the fragment left when it ended for others; None while it has not."""
        document = self._read(fragment_id, "ended")
        return None if document is None else SAVEPOINTS.read(document)

    def ended_ms(self, fragment_id: str) -> int | None:
        """The time at which the fragment ended for others, in ms since the epoch; None while it has not."""
        try:
            return self._beside(fragment_id, "ended").stat().st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return None

    def received_ms(self, heir: str) -> int | None:
        """The time at which the savepoint from another node was left there, by that node's clock; None while none has
        come."""
        try:
            return self._beside(heir, "received").stat().st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return None

    def having(self, record: str) -> frozenset[str]:
        """The fragments with a record of that kind: ``begun``, ``ended``, ``paused``, ``left``, ``standby``."""
        return frozenset(path.stem for path in (self.data_dir / "checkpoints").glob(f"*.{record}"))

    def has(self, fragment_id: str, record: str) -> bool:
        """True where the fragment has a record of that kind."""
        return self._beside(fragment_id, record).exists()

    def begun_path(self, fragment_id: str) -> Path:
        """The file with what the fragment began with; its folds read their first state there."""
        return self._beside(fragment_id, "begun")

    def record_begun(self, fragment_id: str, begun: RestorePoint) -> None:
        """From now on the fragment has begun, with this."""
        write_atomically(self.begun_path(fragment_id), RESTORE_POINTS.dumps(begun))

    def record_ended(self, fragment_id: str, ended: Savepoint | None) -> None:
        """From now on the fragment has ended, and this is what it leaves; with None it goes on after all."""
        if ended is None:
            self._beside(fragment_id, "ended").unlink(missing_ok=True)
        else:
            write_atomically(self._beside(fragment_id, "ended"), SAVEPOINTS.dumps(ended))

    def make_whole(self, fragment_id: str) -> None:
        """Let what the fragment left have all state itself, for another node; what it says is the same."""
        ended, at_ms = self.ended(fragment_id), self.ended_ms(fragment_id)
        if ended is not None and at_ms is not None:
            whole = replace(ended, states=self.fold_stores.whole(ended.states))
            if whole != ended:
                self.record_ended(fragment_id, whole)
                self.files.date(fragment_id, "ended", at_ms)

    def received(self, heir: str) -> Savepoint | None:
        """The savepoint from another node that a fragment is to begin with; None while none has come."""
        document = self._read(heir, "received")
        return None if document is None else SAVEPOINTS.read(document)

    @property
    def files(self) -> FilesBeside:
        """Files beside checkpoints that go to other nodes, or come from there."""
        return FilesBeside(self.data_dir / "checkpoints")

    @property
    def fold_stores(self) -> FoldStores:
        """The node's stores of state by key."""
        return FoldStores(self.data_dir)

    def state_bytes(self, fragment_id: str) -> int:
        """About what the state of a fragment's folds takes on disk: stores, and the largest batch's that Spark has kept
        of the others, or what it began with. Of those a batch writes all, or nothing where it has no event."""
        sizes = [
            max((path.stat().st_size for path in store.glob("*.changelog")), default=0)
            for store in self.checkpoint(fragment_id).glob("state/*/*/")]
        on_disk = sum(sizes) + fold_files.size(self.checkpoint(fragment_id))
        return max(on_disk, self.files.size(fragment_id, "begun") or 0) + self.fold_stores.bytes_of(fragment_id)

    def taken(self) -> frozenset[str]:
        """The fragments of other nodes that have begun with what one of this node left."""
        return names_in(self.folder.parent / TAKEN)

    def is_recorded(self, fragment_id: str) -> bool:
        """True where any slot of the node has a record of its own of the fragment."""
        return any(self.folder.parent.glob(f"slot-*/{fragment_id}.json"))

    def record_taken(self, heir: str) -> None:
        """From now on a fragment of another node has begun with what one of this node left."""
        write_atomically(self.folder.parent / TAKEN / heir, "")

    def record_void(self, heir: str) -> None:
        """From now on the fragment does not wait for the last that it goes on with, which has never begun."""
        write_atomically(self.folder.parent / VOID / heir, "")

    def record_standby(self, fragment_id: str, channels: Sequence[str] | None) -> None:
        """From now on the fragment stands by, with these channels opened for that; with None it does not."""
        if channels is None:
            self._beside(fragment_id, "standby").unlink(missing_ok=True)
        else:
            write_atomically(self._beside(fragment_id, "standby"), json.dumps(channels))

    def standby(self, fragment_id: str) -> tuple[str, ...] | None:
        """The channels that were opened for a fragment that stands by; None where it does not."""
        channels = self._read(fragment_id, "standby")
        return None if channels is None else tuple(channels)

    def standing(self) -> frozenset[str]:
        """The fragments that stand by and have done their empty batch."""
        return frozenset(
            name for name in self.having("standby") if (self.checkpoint(name) / "commits" / "0").exists())

    def record_pause(self, fragment_id: str, *, paused: bool) -> None:
        """The fragment rests, with what it has; or goes on."""
        self._mark(fragment_id, "paused", paused)

    def record_left(self, fragment_id: str, *, has_left: bool) -> None:
        """Record that the bundle has done all its work, or that it goes on after all."""
        self._mark(fragment_id, "left", has_left)

    def record_folds(self, fragment_id: str, folds: Sequence[tuple[str, int]]) -> None:
        """Remember how many folds each of the fragment's tasks has, upstream first."""
        write_atomically(self._beside(fragment_id, "folds"), json.dumps(folds))

    def folds(self, fragment_id: str) -> tuple[tuple[str, int], ...]:
        """The number of folds of each of the fragment's tasks, upstream first; empty before its first start."""
        return tuple((task, count) for task, count in self._read(fragment_id, "folds") or ())

    def handover_lock(self) -> FileLock:
        """Held by who takes over: two that want the same fragment's work must not both begin."""
        return FileLock(self.data_dir / "checkpoints" / "handover.lock")

    def _mark(self, fragment_id: str, record: str, is_so: bool) -> None:
        if is_so:
            write_atomically(self._beside(fragment_id, record), "")
        else:
            self._beside(fragment_id, record).unlink(missing_ok=True)

    def _read(self, fragment_id: str, record: str) -> Any:
        try:
            return json.loads(self._beside(fragment_id, record).read_text())
        except FileNotFoundError:
            return None

    def mark_removed(self, fragment_id: str) -> None:
        """Nobody wants the fragment any more: its checkpoint may go once the time for second thoughts is over."""
        write_atomically(self._beside(fragment_id, "removed"), "")

    def sweep(self, *, now_s: float, grace_s: float) -> list[str]:
        """Delete the checkpoints of fragments that were removed longer than ``grace_s`` ago; their ids.

        Checkpoints of fragments that stood by for so long, and are on no slot any more, are deleted too.
        """
        swept = []
        folder = self.data_dir / "checkpoints"
        for marker in (*sorted(folder.glob("*.removed")), *sorted(folder.glob("*.standby"))):
            lock = self.lock(marker.stem)
            if now_s - marker.stat().st_mtime < grace_s or not lock.acquire():
                continue
            if marker.exists():
                self.remove_checkpoint(marker.stem)
                marker.unlink(missing_ok=True)
                swept.append(marker.stem)
            lock.release(remove=True)
        for kind in ("ahead", "newer", "difference", "copy", f"{COMING}-*"):  # without them whole records are sent
            for path in folder.glob(f"*.{kind}"):
                is_held = path.with_suffix(".held").exists()
                if now_s - path.stat().st_mtime >= grace_s and not is_held:
                    path.unlink(missing_ok=True)
        self.fold_stores.sweep(now_s=now_s, grace_s=grace_s)
        return swept

    def lock(self, fragment_id: str) -> FileLock:
        """The lock that lets its holder run the fragment on this machine; the kernel frees it when its holder dies."""
        return FileLock(self._beside(fragment_id, "lock"))

    def _own_path(self, fragment_id: str) -> Path:
        return self.folder / f"{fragment_id}.json"

    def _beside(self, fragment_id: str, record: str) -> Path:
        return self.data_dir / "checkpoints" / f"{fragment_id}.{record}"


def _text_of(fragment: WantedFragment) -> str:
    return WANTED_FRAGMENTS.dumps(fragment)


class FileLock:
    """An exclusive lock on a file, held by an open descriptor."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock at once, or say False; a lock that is held already stays held."""
        if self._descriptor is not None:
            return True
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def release(self, *, remove: bool = False) -> None:
        """Free the lock; ``remove`` the file where nobody will want it again."""
        if self._descriptor is None:
            return
        if remove:
            self._path.unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = None
