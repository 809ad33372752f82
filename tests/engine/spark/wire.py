"""The network between a node and the broker, as a thing that a test can cut."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit


class Wire:
    """Passes bytes between a port of its own and the broker; what is sent while it is cut arrives when it is mended.

    As on a network that loses its way for a while: connections stay up, and nobody is told that nothing arrives.
    """

    def __init__(self, broker_url: str) -> None:
        parts = urlsplit(broker_url)
        self._broker = (parts.hostname, parts.port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = parts._replace(
            netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{self._server.getsockname()[1]}").geturl()
        self._whole = threading.Event()
        self._whole.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Let nothing through."""
        self._whole.clear()

    def mend(self) -> None:
        """Let everything through, what was held back first."""
        self._whole.set()

    def close(self) -> None:
        """Take no more connections."""
        self._server.close()
        self._whole.set()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                node, _ = self._server.accept()
                threading.Thread(target=self._connect, args=(node,), daemon=True).start()

    def _connect(self, node: socket.socket) -> None:
        self._whole.wait()
        try:
            broker = socket.create_connection(self._broker)
        except OSError:
            node.close()
            return
        for end in (node, broker):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=self._pass_on, args=(broker, node), daemon=True).start()
        self._pass_on(node, broker)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._whole.wait()
                target.sendall(data)
        for stream in (source, target):
            with suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
