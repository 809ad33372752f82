"""The room that whatever writes files leaves on a node's disk, for the checkpoints and states of all teams there."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

DISK_LEFT_BYTES = 256 << 20
SMALL_PART = 20  # of a small disk it is this part


def require_room(folder: Path) -> None:
    """Raise the error of a full disk where less than `DISK_LEFT_BYTES` are left at a folder, or a twentieth of a small
    disk: who writes waits then, and the others go on."""
    usage = shutil.disk_usage(folder)
    if usage.free < min(DISK_LEFT_BYTES, usage.total // SMALL_PART):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
