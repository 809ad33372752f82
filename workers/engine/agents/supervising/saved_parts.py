"""The parts of named savepoints that lie on a node: found, told of, and deleted when nobody keeps the savepoint.

The name of a savepoint begins with its node's, for nodes of one machine may have their checkpoints in one folder. A
part is never replaced, so each is looked at once.
"""

from __future__ import annotations

import glob
import os
import re
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scheduler.contracts.desired import DesiredState
from scheduler.contracts.reports import SavedPartReport
from workers.engine.files.disk import opened, remove_anything

from ..reconciling.named_savepoints import kind_of

# A part has whole states, and may be large: its source's position is the last of its fields.
TAIL_BYTES = 1024
_POSITION = re.compile(rb'"ticks": \{[^{}]*"next": (\d{1,18})[^{}]*\}\}$')


@dataclass
class SavedParts:
    """The node's parts, by savepoint; the folder is looked through when other savepoints are kept than before."""

    data_dir: Path
    node: str
    _savepoint_names: frozenset[str] | None = None
    _parts: dict[str, tuple[Path, SavedPartReport]] = field(default_factory=dict)

    def report(self, desired: DesiredState) -> dict[str, Any] | None:
        """The parts of the savepoints that are kept; parts of others are deleted. None before it was told of any.

        A part that appears later is one that a query of the node was told to leave.
        """
        if desired.kept_savepoints is None:
            return None
        if (names := frozenset(desired.kept_savepoints)) != self._savepoint_names:
            self._look_through(names)
            self._savepoint_names = names
        for fragment in desired.wanted.values():
            for name in fragment.savepoints:
                if name in names and name not in self._parts:
                    self._note(name, self._folder / f"{fragment.id}.{kind_of(name)}")
        self._parts = {name: part for name, part in self._parts.items() if part[0].exists()}
        return {name: asdict(part) for name, (_, part) in sorted(self._parts.items())}

    @property
    def _folder(self) -> Path:
        return self.data_dir / "checkpoints"

    def _look_through(self, names: frozenset[str]) -> None:
        self._parts = {}
        # Names end in eight digits: those of another node, whose name begins alike, are longer.
        for path in self._folder.glob(f"*.{kind_of(glob.escape(self.node))}-{'?' * 8}"):
            name = path.name.partition(f".{kind_of('')}")[2]
            if name in names:
                self._note(name, path)
            else:
                remove_anything(path)

    def _note(self, name: str, path: Path) -> None:
        try:  # slots may write in the folder, so nothing there is followed or trusted
            with opened(path) as file:
                status = os.fstat(file.fileno())
                file.seek(max(0, status.st_size - TAIL_BYTES))
                position = _POSITION.search(file.read(TAIL_BYTES))
        except OSError:
            return
        fragment = path.name.partition(f".{kind_of('')}")[0]
        at_ms = min(max(0, status.st_mtime_ns), time.time_ns()) // 1_000_000  # whoever writes it dates it
        self._parts[name] = (path, SavedPartReport(
            fragment, status.st_size, at_ms, int(position[1]) if position else None))
