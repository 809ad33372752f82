"""Tables, JSON files and the machine's size: what every measurement prints."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from workers.engine.agents.node_files.atomic_files import write_atomically


def machine() -> dict[str, Any]:
    """What a figure was measured on."""
    return {
        "cores": os.cpu_count(), "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": platform.system(), "python": platform.python_version(),
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of equal keys as aligned text, numbers to the right."""
    columns = list(rows[0])
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    widths = [max(len(column), *(len(row[index]) for row in cells)) for index, column in enumerate(columns)]
    numeric = [all(isinstance(row[column], int | float | None) for row in rows) for column in columns]

    def line(values: Sequence[str]) -> str:
        aligned = zip(values, widths, numeric, strict=True)
        return "  ".join(v.rjust(width) if right else v.ljust(width) for v, width, right in aligned).rstrip()

    return "\n".join([line(columns), line(["-" * width for width in widths]), *map(line, cells)])


def median(values: Sequence[float | None]) -> float | None:
    """The median of what is there; None where nothing is."""
    present = [value for value in values if value is not None]
    return statistics.median(present) if present else None


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean."""
    return statistics.fmean(values)


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a result in place of an earlier one; who is ended meanwhile leaves that, for hours may be in it."""
    write_atomically(path, json.dumps(content, indent=2) + "\n")


def read(path: Path) -> dict[str, Any]:
    """A result that was written before."""
    return json.loads(path.read_text())


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
