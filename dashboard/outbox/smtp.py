"""Mail by SMTP with one deadline for all of a delivery: a server that sends a byte every now and then is ended."""

from __future__ import annotations

import smtplib
import socket
import threading
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.mail.backends.smtp import EmailBackend


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


class _Cut:
    """Shuts the socket down at the deadline: also where it has become TLS's."""

    _watch: threading.Timer | None = None

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
