"""Messages to the agent: one JSON a line, whichever thread has something to say."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, TextIO


class LineWriter:
    """Writes whole lines, one after the other."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    def __call__(self, message: Mapping[str, Any]) -> None:
        """Write one message."""
        with self._lock:
            self._file.write(json.dumps(message) + "\n")
            self._file.flush()
