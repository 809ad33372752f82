"""The node's local store: what it should run and what its slots have started, in files that survive everything else.

    <data-dir>/nodes/<node>/desired.json              the newest desired state that reached the node
    <data-dir>/nodes/<node>/slot-<n>/<fragment>.json  a fragment that the slot has started and not yet removed
    <data-dir>/checkpoints/<fragment>/                its checkpoint (Spark's), and beside it <fragment>.json (the chain
                                                      that made it), <fragment>.lock (held by who runs it) and
                                                      <fragment>.removed (all this may be deleted later)
    <data-dir>/outputs/                               what file sinks write
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .wanted import Desired, WantedFragment, fragment_document, parse_desired, parse_fragment


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's content so that a reader sees the old or the new, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


@dataclass(frozen=True, slots=True)
class NodeStore:
    """Where a node keeps what it was told."""

    data_dir: Path
    node: str

    @property
    def folder(self) -> Path:
        return self.data_dir / "nodes" / self.node

    @property
    def desired_path(self) -> Path:
        return self.folder / "desired.json"

    def slot_dir(self, slot: str) -> Path:
        """A slot's own folder."""
        return self.folder / f"slot-{slot}"

    def read_desired(self) -> Desired:
        """The newest desired state that reached the node; version 0 before the first."""
        try:
            return parse_desired(json.loads(self.desired_path.read_text()))
        except FileNotFoundError:
            return Desired()

    def write_desired(self, document: Mapping[str, Any]) -> bool:
        """Keep a desired state; False where it says what is kept already, or is older."""
        kept = json.loads(self.desired_path.read_text()) if self.desired_path.exists() else {"version": -1}
        if document["version"] < kept["version"] or document == kept:
            return False
        write_atomically(self.desired_path, json.dumps(document, sort_keys=True))
        return True


@dataclass(frozen=True, slots=True)
class SlotStore:
    """Where a slot keeps what it has started, and the checkpoints of that."""

    data_dir: Path
    folder: Path

    def records(self) -> dict[str, WantedFragment]:
        """Every fragment that the slot has started and not yet removed."""
        fragments = (parse_fragment(json.loads(path.read_text())) for path in sorted(self.folder.glob("*.json")))
        return {fragment.id: fragment for fragment in fragments}

    def record(self, fragment: WantedFragment) -> None:
        """Remember that the fragment is about to be started."""
        text = json.dumps(fragment_document(fragment), sort_keys=True)
        self._beside(fragment.id, "removed").unlink(missing_ok=True)
        write_atomically(self._beside(fragment.id, "json"), text)
        write_atomically(self.folder / f"{fragment.id}.json", text)

    def known(self, fragment_id: str) -> WantedFragment | None:
        """The fragment that made the checkpoint, as it last started, on whatever slot; None for a new one."""
        try:
            return parse_fragment(json.loads(self._beside(fragment_id, "json").read_text()))
        except FileNotFoundError:
            return None

    def remove_checkpoint(self, fragment_id: str) -> None:
        """Delete a checkpoint that nobody will go on from; not there is fine."""
        shutil.rmtree(self.checkpoint(fragment_id), ignore_errors=True)
        self._beside(fragment_id, "json").unlink(missing_ok=True)

    def forget(self, fragment_id: str) -> None:
        """The fragment is no longer this slot's."""
        (self.folder / f"{fragment_id}.json").unlink(missing_ok=True)

    def checkpoint(self, fragment_id: str) -> Path:
        """The fragment's checkpoint folder."""
        return self.data_dir / "checkpoints" / fragment_id

    def has_begun(self, fragment_id: str) -> bool:
        """Whether the fragment ever planned a batch: without one it starts from the beginning."""
        offsets = self.checkpoint(fragment_id) / "offsets"
        return offsets.is_dir() and any(path.name.isdigit() for path in offsets.iterdir())

    def mark_removed(self, fragment_id: str) -> None:
        """Nobody wants the fragment any more: its checkpoint may go once the time for second thoughts is over."""
        mark = self._beside(fragment_id, "removed")
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()

    def sweep(self, *, now_s: float, grace_s: float) -> list[str]:
        """Delete the checkpoints of fragments that were removed longer than ``grace_s`` ago; their ids."""
        swept = []
        for mark in sorted((self.data_dir / "checkpoints").glob("*.removed")):
            lock = self.lock(mark.stem)
            if now_s - mark.stat().st_mtime < grace_s or not lock.acquire():
                continue
            if mark.exists():
                self.remove_checkpoint(mark.stem)
                mark.unlink()
                swept.append(mark.stem)
            lock.release(remove=True)
        return swept

    def lock(self, fragment_id: str) -> FileLock:
        """Who holds it may run the fragment on this machine; the kernel frees it when its holder dies."""
        return FileLock(self._beside(fragment_id, "lock"))

    def _beside(self, fragment_id: str, what: str) -> Path:
        return self.data_dir / "checkpoints" / f"{fragment_id}.{what}"


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
