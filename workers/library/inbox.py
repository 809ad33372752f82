"""Folders in which files appear that live sources read: below those that the operator names (``WEIR_INBOX_DIRS``)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from .config import InvalidConfig

VARIABLE = "WEIR_INBOX_DIRS"


def inboxes(environment: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """The folders below which files may be read, most wanted first; by default none."""
    env = os.environ if environment is None else environment
    return tuple(Path(part).resolve() for part in env.get(VARIABLE, "").split(os.pathsep) if part)


def inbox_path(name: str) -> Path:
    """The folder of that name below an inbox: the first that exists, else its place in the first inbox.

    Raises
    ------
    InvalidConfig
        The operator names no inbox, or the name leads out of it.
    """
    folders = inboxes()
    if not folders:
        raise InvalidConfig("No folder may be read.", remedy=f"Ask the operator to name one in {VARIABLE}.")
    if "\0" in name or name.startswith("/") or ".." in PurePosixPath(name).parts:
        raise InvalidConfig(f"“{name[:100]}” leads out of the inbox.", remedy="Name a folder inside it, without “..”.")
    try:
        paths = [(folder, (folder / name).resolve()) for folder in folders]
        inside = [path for folder, path in paths if path.is_relative_to(folder)]
        existing = [path for path in inside if path.is_dir()]
    except (OSError, RuntimeError):  # too long, or links in a circle
        inside = existing = []
    if not inside:
        raise InvalidConfig(f"“{name[:100]}” leads out of the inbox.", remedy="Name a folder inside it.")
    return (existing or inside)[0]
