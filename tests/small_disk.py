"""File systems of a few megabytes, to be filled: for root alone, since they are mounted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, *, megabytes: int) -> Iterator[Path]:
    """A file system of that size at a folder; skips the test where none can be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder))
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(("umount", "--lazy", str(folder)), check=True)


def fill(folder: Path) -> Path:
    """A file that takes all the room that is left; who deletes it makes room again."""
    path = folder / "ballast"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(descriptor, b"x" * 4096)
    except OSError:
        return path
    finally:
        os.close(descriptor)
