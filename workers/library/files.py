"""Recorded files: where they may lie, and which formats a replay reads.

A config names files relative to the installation's replay folders (``WEIR_REPLAY_DIRS``, separated as in PATH; the
default is ``replay`` in the data folder), and nothing outside of them can be read, through links neither.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from .config import InvalidConfig

SUFFIXES = {
    ".senml": "senml", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".xml": "xml",
    ".parquet": "parquet",
}


def replay_folders(environment: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """The folders that replays may read, most wanted first."""
    env = os.environ if environment is None else environment
    named = [Path(part) for part in env.get("WEIR_REPLAY_DIRS", "").split(os.pathsep) if part]
    if named:
        return tuple(folder.resolve() for folder in named)
    return ((data_folder(env) / "replay").resolve(),)


def data_folder(environment: Mapping[str, str] | None = None) -> Path:
    """The installation's data folder."""
    env = os.environ if environment is None else environment
    root = Path(__file__).resolve().parent.parent.parent
    return Path(env.get("WEIR_DATA_DIR") or root / "data").resolve()


def replay_path(name: str, folders: tuple[Path, ...] | None = None) -> Path:
    """The file or folder of that name in a replay folder.

    Raises
    ------
    InvalidConfig
        The name leads out of the replay folders, nothing is there, or no file can have that name.
    """
    try:
        return _inside(name, replay_folders() if folders is None else tuple(folder.resolve() for folder in folders))
    except (OSError, ValueError, RuntimeError):  # too long, a NUL, links in a circle, a folder that may not be entered
        raise InvalidConfig(
            "There is no file of that name in the replay folder, and none can be read.",
            remedy="Name a file inside it, by a shorter path and without links in a circle.", path=name[:100]) from None


def _inside(name: str, searched: tuple[Path, ...]) -> Path:
    for folder in searched:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder):
            raise InvalidConfig(
                f"“{name}” leads out of the replay folder.",
                remedy="Name a file inside it, without “..” and not through a link to elsewhere.", path=name,
            )
        if path.exists():
            return path
    raise InvalidConfig(
        f"There is no “{name}” in the replay folder.",
        remedy="Put the file there (WEIR_REPLAY_DIRS says where: by default the folder “replay” of the data folder), "
        "on every node that may run the source.", path=name,
    )


def replay_files(path: Path) -> tuple[Path, ...]:
    """The file itself, or a folder's files in the order of their names; hidden files are left out."""
    if path.is_file():
        return (path,)
    root = path.resolve()
    files = sorted(
        file for file in path.rglob("*")
        if file.is_file() and not file.name.startswith((".", "_")) and file.resolve().is_relative_to(root)
    )
    if not files:
        raise InvalidConfig(f"The folder “{path.name}” holds no file.", remedy="Put the recorded files into it.",
                            path=path.name)
    return tuple(files)


def format_of(file: Path) -> str:
    """The format by the name's ending; SenML, which RIoTBench keeps in .csv files, is known by its first line.

    Raises
    ------
    InvalidConfig
        Neither tells.
    """
    kind = SUFFIXES.get(file.suffix.lower())
    if kind in ("senml", "json", "xml", "parquet"):
        return kind
    with open(file, encoding="utf-8", errors="replace") as lines:
        first = lines.readline()
    if re.match(r'\d*,?\s*\{\s*"e"\s*:', first):
        return "senml"
    if kind is None:
        raise InvalidConfig(
            f"The format of “{file.name}” cannot be told from its name or its first line.",
            remedy="Set format to senml, csv, json, xml or parquet.", path=file.name,
        )
    return kind
