"""Files that are there whole or not at all, whatever is killed while they are written."""

from __future__ import annotations

import os
from pathlib import Path

from workers.engine.files.disk import created


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace a file's content so that a reader sees the old or the new, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with created(temporary) as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def names_in(folder: Path) -> frozenset[str]:
    """The names that a folder of marks has."""
    return frozenset(path.name for path in folder.iterdir() if path.name[0] != ".") if folder.is_dir() else frozenset()
