"""Folders that Spark's file sink writes: what of them counts, and clearing away what does not."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlparse

METADATA = "_spark_metadata"


def committed_files(folder: Path) -> frozenset[str]:
    """Names of the files that the sink's log lists; every other file is of a batch that did not come to its end."""
    names: set[str] = set()
    for entry in (folder / METADATA).glob("[0-9]*"):
        for line in entry.read_text().splitlines()[1:]:
            names.add(Path(unquote(urlparse(json.loads(line)["path"]).path)).name)
    return frozenset(names)


def clear_uncommitted(folder: Path) -> list[str]:
    """Delete what a killed writer left half done, so that whoever reads the folder without Spark reads each event once.

    Only for a folder that nobody writes at the moment. Returns the names that were deleted.
    """
    if not folder.is_dir():
        return []
    committed = committed_files(folder)
    stray = [path for path in folder.glob("part-*") if path.name not in committed]
    for path in stray:
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return sorted(path.name for path in stray)
