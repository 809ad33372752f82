"""The node's fold stores (``workers.library.state_store``), as records of fragments point to them.

A store stays with the node when a fragment hands over: whoever goes on with its work goes on with the store, at the
version that the record says. It is there as long as the checkpoint of the fragment that made it, or a record that
names it. What leaves the node leaves by rows (``store_copies``), or as a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scheduler.contracts.savepoints import States
from workers.library.state_store import SUFFIX, Pointer, read_whole
from workers.library.store_files import remove

FOLDER = "folds"
_NAME = re.compile(rb"[\w.-]+" + re.escape(SUFFIX).encode() + rb'(?=\\*")')
_MOST_READ = 8 << 20  # bytes of a record: one that has more has large states itself
_RECORDS = ("held", "ended", "received", "begun")  # in the order in which a name goes from one to the next


@dataclass(frozen=True, slots=True)
class FoldStores:
    """The stores of a data folder."""

    data_dir: Path

    @property
    def folder(self) -> Path:
        """Where they are."""
        return self.data_dir / FOLDER

    def bytes_of(self, fragment_id: str) -> int:
        """About what those take on disk that a fragment works with: its own, and those that it began with."""
        begun = self._checkpoints / f"{fragment_id}.begun"
        names = {path.name for path in self.folder.glob(f"{fragment_id}.*{SUFFIX}")}
        if begun.is_file() and begun.stat().st_size < _MOST_READ:
            names |= set(_names(begun))
        return sum((self.folder / name).stat().st_size for name in names if (self.folder / name).is_file())

    def whole(self, states: States) -> States:
        """The states of a record without pointers."""
        return {task: [self._whole(text) for text in texts] for task, texts in states.items()}

    def sweep(self, *, now_s: float, grace_s: float) -> None:
        """Delete the stores that nobody goes on with."""
        old = [
            path for path in self.folder.glob(f"*{SUFFIX}")
            if now_s - max(_changed_s(path), _changed_s(path.with_name(f"{path.name}-wal"))) >= grace_s
            and not (self._checkpoints / path.name.split(".")[0]).is_dir()]
        if not old:
            return
        named = {name for kind in _RECORDS for file in self._checkpoints.glob(f"*.{kind}") for name in _names(file)}
        for path in old:
            if path.name not in named:
                remove(path)

    def _whole(self, text: str | None) -> str | None:
        pointer = None if text is None else Pointer.read(text)
        return text if pointer is None else read_whole(self.folder, pointer)

    @property
    def _checkpoints(self) -> Path:
        return self.data_dir / "checkpoints"


def _names(record: Path) -> Iterator[str]:
    try:
        text = record.read_bytes()
    except FileNotFoundError:
        return
    yield from (name.decode() for name in _NAME.findall(text))


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
