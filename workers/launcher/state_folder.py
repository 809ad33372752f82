"""The state folder: one supervisor at a time, and the surroundings that every process of Weir gets from it."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parents[2]
DATA_DIR_HELP = "folder of all state (WEIR_DATA_DIR, else data next to the launcher)"
PASSED_THROUGH = 0o010  # what the node agent lets the group of its slots do with the data folder
WEIRS = frozenset({
    "broker", "checkpoints", "lock", "logs", "machines", "nodes", "outputs", "replay", "secret_key", "secrets_key",
    "spark-cluster"})


class CannotStart(Exception):
    """Something that the user must settle first; its message is one line."""


def data_dir_of(variables: Mapping[str, str]) -> Path:
    """The state folder that the environment names, or ``data`` next to the launcher."""
    return Path(variables.get("WEIR_DATA_DIR", "").strip() or ROOT / "data").expanduser().resolve()


def take_data_dir(arguments: Sequence[str], variables: MutableMapping[str, str]) -> list[str]:
    """The arguments without ``--data-dir``, which every command has; what it names becomes the state folder."""
    if "bench" in arguments[1:2]:  # a measurement has its own
        return list(arguments)
    remaining_words = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*remaining_words, word, *words]
        if word == "--data-dir":
            folder = next(words, "")
        elif word.startswith("--data-dir="):
            folder = word.partition("=")[2]
        else:
            remaining_words.append(word)
            continue
        if not folder or not Path(folder).expanduser().is_dir():
            raise CannotStart(f"--data-dir names {folder!r}, where there is no folder: name that of `./weir up`.")
        variables["WEIR_DATA_DIR"] = folder
    return remaining_words


@contextmanager
def full_disk_named(data_dir: Path) -> Iterator[None]:
    """A context in which a full disk is a reason not to start, in a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise CannotStart(
            f"The disk of the data folder {data_dir} is full: make room there, or name another folder with --data-dir."
        ) from None


def surroundings(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables for a process outside the supervisor: the state folder, and its embedded broker unless told another."""
    data_dir = data_dir_of(variables)
    settings = {"WEIR_DATA_DIR": str(data_dir)}
    if not variables.get("REDIS_URL", "").strip() and (url := broker_url_file(data_dir)).is_file():
        settings["REDIS_URL"] = url.read_text().strip()
    return settings


def keep_private(variables: Mapping[str, str]) -> None:
    """Close new files of this process, and an existing state folder, to other users.

    Raises ``CannotStart`` if the folder holds files that are not Weir's, as `lock` does.
    """
    os.umask(0o077)
    data_dir = data_dir_of(variables)
    if data_dir.is_dir():
        _close_to_others(data_dir)


def broker_url_file(data_dir: Path) -> Path:
    """The file with the embedded broker's address, password included; readable by its owner alone."""
    return data_dir / "broker" / "url"


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read; whole or not at all."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    new.replace(path)


def lock(data_dir: Path) -> TextIO:
    """Lock the folder for this process, and make it if it is missing; keep the result open while the folder is in use.

    The kernel drops the lock with the process, so one that was killed leaves nothing to clear up.
    """
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        _close_to_others(data_dir)
        file = (data_dir / "lock").open("a+")
    except OSError as error:
        raise CannotStart(
            f"The data folder {data_dir} cannot be used: {error.strerror}. Name another folder with --data-dir."
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read().strip() or "unknown"
        file.close()
        raise CannotStart(
            f"The data folder {data_dir} is in use by another `weir up` (process {owner}): stop it or name another "
            "folder with --data-dir."
        ) from None
    file.seek(0)
    file.truncate()
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def _close_to_others(data_dir: Path) -> None:
    """Take other users' rights in the folder away: it holds the database and the broker's password.

    An existing folder is changed if it is empty or Weir's; else the user decides. Slots behind the second wall are
    another user, and pass through it to their own folders: that right stays.
    """
    mode = stat.S_IMODE(data_dir.stat().st_mode)
    if mode & 0o077 in (0, PASSED_THROUGH):
        return
    names = {path.name for path in data_dir.iterdir()}
    if mode & stat.S_ISVTX or (names and not names & WEIRS):
        raise CannotStart(
            f"Other users may read the data folder {data_dir}, which holds files that are not Weir's: name another "
            "folder with --data-dir, or close it to others (chmod 700).")
    try:
        data_dir.chmod(mode & 0o700)
    except PermissionError:
        raise CannotStart(
            f"Other users may read the data folder {data_dir}, and it is not this user's to close: name another folder "
            "with --data-dir, or have its owner close it (chmod 700).") from None
