"""Connections to PostgreSQL whose server says no more at a time than there is room for.

libpq keeps what a server sends until it is a whole answer, and a server that is nobody's friend, or a table with large
values, sends without end. What has come is told by the kernel, also under TLS; of a Unix socket it tells nothing.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Generator
from contextlib import suppress
from typing import Any, Self

import psycopg

_RECEIVED = struct.Struct("=128xQ")  # `tcpi_bytes_received` of Linux's `struct tcp_info`


class AnswerTooLarge(psycopg.OperationalError):
    """A server's answer is larger than there is room for; the connection is closed."""


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that ends if an answer is larger than its bound; in a stream each row is an answer.

    ``most_bytes`` is set for all connections of a class: see `bounded_by`.
    """

    most_bytes: int

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> Generator[Any, Any, Self]:
        # A server may say much before anybody has asked it, and of that no less is kept.
        return (yield from _counted(super()._connect_gen(conninfo), cls.most_bytes))

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait for an answer, as long as there is room for what comes of it."""
        try:
            return super().wait(_counted(gen, self.most_bytes, self.pgconn.socket), *args, **options)
        except AnswerTooLarge:
            self.pgconn.finish()
            raise


def bounded_by(most_bytes: int) -> type[BoundedConnection]:
    """Connections of which an answer has so many bytes at most, as they come over the network."""
    return type("BoundedConnection", (BoundedConnection,), {"most_bytes": most_bytes})


def _counted(steps: Generator[Any, Any, Any], most_bytes: int, fileno: int = -1) -> Generator[Any, Any, Any]:
    """The steps of an exchange, which end with the first behind which too much has come."""
    begun: dict[int, int] = {}
    try:
        request = next(steps)
        while True:
            # While it connects, steps say of which socket.
            number = request[0] if isinstance(request, tuple) else fileno
            received = _received(number)
            if received - begun.setdefault(number, received) > most_bytes:
                steps.close()
                raise AnswerTooLarge(f"the server's answer has more than {most_bytes:,} bytes")
            request = steps.send((yield request))
    except StopIteration as end:
        return end.value


def _received(fileno: int) -> int:
    """How many bytes have come on a socket; 0 where nobody knows."""
    with suppress(OSError, struct.error), socket.socket(fileno=fileno) as connection:
        try:
            return _RECEIVED.unpack_from(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.size))[0]
        finally:
            connection.detach()
    return 0
