"""The process at the other end of a Unix socket.

Landlock does not keep a process from connecting to a socket by its path, and ``/proc/net/unix`` names the paths. So
who takes code from a socket asks the kernel who sends it: drivers of one node are one user. Imports nothing of Spark.
"""

from __future__ import annotations

import socket
import struct

_CREDENTIALS = struct.Struct("3i")  # process, user, group


def is_from(connection: socket.socket, process: int) -> bool:
    """True where a process, by its number, opened a connection; where the kernel does not tell (not Linux), True."""
    if connection.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
        return True
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(peer)[0] == process
