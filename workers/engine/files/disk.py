"""The few changes of a disk that files of sinks are made of, each whole or not at all, and durable once it returns.

Everything that changes a sink's folder goes through here, so that tests can end a process between any two of them.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO


def write(path: Path, fill: Callable[[IO[bytes]], None]) -> None:
    """Write a new file; where that fails, as on a full disk, nothing of it stays."""
    try:
        with created(path) as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            path.unlink()
        raise


def created(path: Path) -> IO[bytes]:
    """A new file in the place of what is there, open to be written; a link that is there leads nowhere.

    An agent that is root writes where processes of another user do, which may be hostile.
    """
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb")


def opened(path: Path) -> IO[bytes]:
    """A file that is there, open to be read.

    Raises
    ------
    OSError
        It is not there, or something else is: no link is followed, and no pipe waited for.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no file")
    return os.fdopen(descriptor, "rb")


def text_of(path: Path, *, most_bytes: int = 64 << 20) -> str:
    """The text of a file that somebody hostile may have written.

    Raises
    ------
    OSError
        As of `opened`, or it is longer.
    ValueError
        It is no text.
    """
    with opened(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(f"{path} has more than {most_bytes:,} bytes")
    return content.decode()


def move(path: Path, target: Path) -> None:
    """Move a file or folder, in one step, to where nothing else reads it half."""
    path.replace(target)
    sync(target.parent)
    if path.parent != target.parent:
        sync(path.parent)


def replace_text(path: Path, text: str) -> None:
    """Replace a small file's content in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    write(temporary, lambda file: file.write(text.encode()))
    move(temporary, path)


def remove(path: Path) -> None:
    """Remove a file; not there is fine."""
    path.unlink(missing_ok=True)


def remove_anything(path: Path) -> None:
    """Remove a file, or a folder with its content, if it exists."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Remove a folder and what it holds; not there is fine."""
    shutil.rmtree(path, ignore_errors=True)


def give_to_owner_of(folder: Path, *paths: Path) -> None:
    """Let what is in a folder be its owner's, who goes on with it: an agent that is root is another one."""
    owner = folder.stat()
    for path in paths if os.geteuid() == 0 else ():
        if path.lstat().st_uid != owner.st_uid:
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def sync(folder: Path) -> None:
    """Make the names in a folder outlive the machine."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
