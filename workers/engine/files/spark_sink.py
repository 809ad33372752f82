"""Folders that Spark's own file sink wrote, in earlier versions: what of them counts, and going on where they ended.

That sink kept in ``_spark_metadata`` which files count, which grew with every file. Here what does not count is
removed once, and the folder's files are all of it from then on, for readers with Spark and without.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlparse

from . import disk
from .folder import META, FolderState, has_state, write_state

METADATA = "_spark_metadata"
_ASIDE = "spark_metadata"


def committed_files(folder: Path) -> frozenset[str]:
    """Names of the files that the sink's log lists; every other file is of a batch that did not end."""
    names: set[str] = set()
    for entry in (folder / METADATA).glob("[0-9]*"):
        for line in disk.text_of(entry).splitlines()[1:]:
            names.add(Path(unquote(urlparse(json.loads(line)["path"]).path)).name)
    return frozenset(names)


def clear_uncommitted(folder: Path) -> list[str]:
    """Delete what a killed writer left half done; only in a folder that nobody writes. Returns the names."""
    if not folder.is_dir():
        return []
    committed = committed_files(folder)
    stray = [path for path in folder.glob("part-*") if path.name not in committed]
    for path in stray:
        disk.remove(path)
        disk.remove(path.with_name(f".{path.name}.crc"))
    return sorted(path.name for path in stray)


def adopt(folder: Path) -> FolderState | None:
    """Go on where Spark's sink ended: its batches count as run 0. None where it never was here.

    Only with the folder's lock, and while nobody writes. Safe to repeat after an end at any moment.
    """
    metadata = folder / METADATA
    state = None
    if metadata.is_dir() and not has_state(folder):
        clear_uncommitted(folder)
        batches = [int(path.name.removesuffix(".compact")) for path in metadata.glob("[0-9]*")]
        state = FolderState(run=0, batch=max(batches, default=-1), runs=1)
        write_state(folder, state)
    aside = folder / META / _ASIDE
    if metadata.is_dir():
        disk.remove_folder(aside)
        disk.move(metadata, aside)  # at once: a reader with Spark must not find a part of it
    if aside.exists():
        disk.remove_folder(aside)
    return state
