"""Mail by SMTP with one deadline for all of a delivery, and a bound for all replies.

A server that sends a byte every now and then, or without end, is cut off.
"""

from __future__ import annotations

import smtplib
import socket
import threading
from contextlib import suppress
from typing import Any, BinaryIO

from django.conf import settings
from django.core.mail.backends.smtp import EmailBackend

REPLY_BYTES = 1 << 20  # of a connection


class TimedBackend(EmailBackend):
    """Django's backend, whose connection is cut off at the deadline."""

    @property
    def connection_class(self) -> Any:
        """The connection that speaks SMTP."""
        return _TimedTls if self.use_ssl else _Timed

    def send_messages(self, email_messages: Any) -> int:
        """Send messages; whatever is awaited when the deadline comes ends as a server that has gone."""
        self.timeout = min(self.timeout or settings.DELIVERY_S, settings.DELIVERY_S)
        return super().send_messages(email_messages)


class _Replies:
    """Replies of a server, up to the bound: smtplib keeps all lines of a reply until its last one."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._remaining_bytes = file, REPLY_BYTES

    def readline(self, size: int) -> bytes:
        """The next line, or so much of it; ``OSError`` beyond the bound."""
        line = self._file.readline(size)
        self._remaining_bytes -= len(line)
        if self._remaining_bytes < 0:
            raise OSError(f"the server's replies are over {REPLY_BYTES:,} bytes")
        return line

    def close(self) -> None:
        self._file.close()


class _Cut:
    """Shuts the socket down at the deadline, also where it has become TLS's, and reads no more than the bound."""

    _watch: threading.Timer | None = None

    def getreply(self) -> tuple[int, bytes]:
        """The next reply, as smtplib gives it."""
        if self.file is None:  # type: ignore[has-type]
            self.file = _Replies(self.sock.makefile("rb"))  # type: ignore[attr-defined]
        return super().getreply()  # type: ignore[misc,no-any-return]

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        # Plainly, not by TLS's own: the handshake is part of what the deadline is for.
        made = smtplib.SMTP._get_socket(self, host, port, timeout)  # type: ignore[arg-type]
        self._socket_copy = made.dup()
        self._watch = threading.Timer(settings.DELIVERY_S, self._cut)
        self._watch.daemon = True
        self._watch.start()
        return made

    def _cut(self) -> None:
        with suppress(OSError):
            self._socket_copy.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        super().close()  # type: ignore[misc]
        if self._watch is not None:
            self._watch.cancel()
            self._socket_copy.close()


class _Timed(_Cut, smtplib.SMTP):
    pass


class _TimedTls(_Cut, smtplib.SMTP_SSL):
    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return self.context.wrap_socket(super()._get_socket(host, port, timeout), server_hostname=self._host)
