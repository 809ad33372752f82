"""Suspicions about the queries of a slot, or the sources and sinks of a connector host, in a file that outlives
both."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from workers.engine.slot_values import UNREADABLE

from ..agent_logs import logger
from ..blame import Suspicion
from ..node_files.atomic_files import write_atomically

Record = TypeVar("Record")


class KeptSuspicion:
    """The suspicion of now, as the file has it; where that cannot be read, nobody is suspected.

    Parameters
    ----------
    event : str
        The event that is logged whenever the suspicion changes.
    """

    def __init__(self, path: Path, *, event: str) -> None:
        self._path, self._event = path, event
        self.now = read_record(path, Suspicion.of) or Suspicion()

    def keep(self, suspicion: Suspicion) -> None:
        """Let this be the one from now on."""
        if suspicion != self.now:
            self.now = suspicion
            write_atomically(self._path, json.dumps(suspicion.document()))
            logger().warning(self._event, **suspicion.document())


def read_record(path: Path, read: Callable[[Any], Record]) -> Record | None:
    """The record in a JSON file; None for a missing file or another content."""
    try:
        return read(json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except UNREADABLE as error:
        logger().warning("unreadable file", path=path.name, why=str(error)[:200])
        return None
