"""The parts of a data folder that a back-up holds, and those that are made again without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

DATABASE, BROKER, KEYS = "weir.sqlite3", "broker.keys", "keys.sealed"
# In the archive these stand beside what is copied as it is.
TABLES = "database"
COLUMNS = f"{TABLES}/tables.json"

STREAMING = ("checkpoints", "folds", "nodes", "spill", "outputs", "tables")  # copied while the broker takes nothing in
BEHIND_DATABASE = ("audit", "replay", "secrets.json")  # copied after the database: what it no longer has is here
SECRET = ("secret_key", "secrets_key", "logins.json")  # only sealed with a passphrase
ARCHIVED = frozenset({DATABASE, BROKER, KEYS, TABLES, *STREAMING, *BEHIND_DATABASE})  # what a back-up may bring
FILES = frozenset({DATABASE, BROKER, KEYS, "secrets.json"})  # of these; the others are folders
MADE_AGAIN = frozenset({
    "broker", "feeds", "jvm", "lock", "logs", "recordings", "static", "backup.lock", "weir.sqlite3", "weir.sqlite3-shm",
    "weir.sqlite3-wal"})
_OF_NODE = ("told/desired.json", "desired.json", "connectors/sinks.json", "sinks.json")
_OF_SLOT = ("*.json", "base_*")


def files_below(folder: Path) -> Iterator[Path]:
    """Every file below a folder, or it itself; what goes away meanwhile is left out, as are half written files."""
    if folder.is_file():
        yield folder
        return
    try:
        entries = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_symlink() or (entry.name.startswith(".") and entry.name.endswith(".tmp")):
            continue
        if entry.is_dir():
            yield from files_below(entry)
        elif entry.is_file() and not _is_lock(entry):
            yield entry


def commits(data_dir: Path) -> Iterator[Path]:
    """Files that say which batches are done."""
    for checkpoint in _checkpoints(data_dir):
        yield from _files_within(checkpoint / "commits")


def states(data_dir: Path) -> Iterator[Path]:
    """Everything of checkpoints between the plans of batches and their ends: the state of operators, and metadata."""
    for checkpoint in _checkpoints(data_dir):
        for entry in sorted(checkpoint.iterdir()) if checkpoint.is_dir() else ():
            if entry.name not in ("commits", "offsets"):
                yield from _files_within(entry)


def fold_stores(data_dir: Path) -> Iterator[Path]:
    """State by key: files that are changed in place."""
    yield from (path for path in sorted((data_dir / "folds").glob("*.fold")) if not path.is_symlink())


def offsets(data_dir: Path) -> Iterator[Path]:
    """Files that say which batches were planned, and of what."""
    for checkpoint in _checkpoints(data_dir):
        yield from _files_within(checkpoint / "offsets")


def records(data_dir: Path) -> Iterator[Path]:
    """Records of nodes and slots about fragments, beside checkpoints and in their own folders."""
    folder = data_dir / "checkpoints"
    if folder.is_dir():
        yield from (
            path for path in sorted(folder.iterdir())
            if path.is_file() and not _is_lock(path) and not path.name.startswith("."))
    for node in sorted(path for path in (data_dir / "nodes").glob("*") if path.is_dir()):
        yield from (node / name for name in _OF_NODE if (node / name).is_file())
        for slot in sorted(node.glob("slot-*")):
            for pattern in _OF_SLOT:
                yield from (path for path in sorted(slot.glob(pattern)) if path.is_file())


def sink_folders(data_dir: Path) -> Iterator[Path]:
    """The folders that queries stage files in, below ``outputs``."""
    metas = sorted((data_dir / "outputs").rglob(".weir"))
    yield from (meta.parent for meta in metas if meta.is_dir() and not meta.is_symlink())


def unknown(data_dir: Path) -> list[str]:
    """Names in the folder that are neither copied nor known to be made again: somebody else's."""
    names = {*STREAMING, *BEHIND_DATABASE, *SECRET, *MADE_AGAIN}
    return sorted(path.name for path in data_dir.iterdir() if path.name not in names and not path.name.startswith("."))


def _files_within(path: Path) -> Iterator[Path]:
    """As ``files_below``, where slots write: no link of theirs is followed."""
    if not path.is_symlink():
        yield from files_below(path)


def _checkpoints(data_dir: Path) -> list[Path]:
    folder = data_dir / "checkpoints"
    # A trial is not gone on with: the next one begins anew.
    return [
        path for path in sorted(folder.iterdir())
        if path.is_dir() and not path.is_symlink() and not path.name.startswith("trial-")] if folder.is_dir() else []


def _is_lock(path: Path) -> bool:
    return path.suffix == ".lock" or (path.name == "lock" and path.parent.name == ".weir")
