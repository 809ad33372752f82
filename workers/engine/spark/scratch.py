"""Folders that a driver keeps while it lives: scratch files, sockets, and a spare's. Imports nothing of Spark."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

SPARES = "spares"  # the folder of theirs, in the node's


def socket_dir(slot_dir: Path) -> Path:
    """A directory of this slot's own for Unix sockets, whose path must stay under 108 bytes; empty."""
    path = _socket_path(slot_dir)
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=0o700)
    return path


def spare_folder(node_folder: Path) -> Path:
    """A folder of this process's own, which waits to serve a slot."""
    folder = node_folder / SPARES / str(os.getpid())
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def clear_spares(node_folder: Path) -> None:
    """Remove what spares that are gone have left."""
    for folder in (node_folder / SPARES).glob("*"):
        if not Path("/proc", folder.name).exists():
            shutil.rmtree(_socket_path(folder), ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)


def _socket_path(slot_dir: Path) -> Path:
    digest = hashlib.sha256(str(slot_dir.resolve()).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"weir-{os.getuid()}-{digest}"
