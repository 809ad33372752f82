"""Fetches Spark's own pages of a slot's driver for the site, where `WEIR_SPARK_PAGES` is set.

A driver answers this machine alone, and nobody without its key. What is fetched is one of a few pages, by GET, with no
header but the key's, within a time and a size.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import redis

from scheduler.contracts.driver_pages import (
    MOST_BYTES,
    NO_ANSWER,
    NO_DRIVER,
    REFUSED,
    DriverPage,
    DriverPageOrder,
    is_shown,
)
from workers.engine.driver_page_store import PAGES_OF_DRIVERS
from workers.engine.sealed_secrets import redacted
from workers.engine.worker_settings import Settings

from ..agent_logs import logger
from .order_answers import OrderAnswers

if TYPE_CHECKING:
    from .supervision import SlotProcess

ANSWERS_S = 5.0
TOKEN_S = 30
_SAID = re.compile(r"(\d{1,5}):([A-Za-z0-9_-]{40,100})", re.ASCII)


@dataclass(frozen=True, slots=True)
class PageAddress:
    """The address of a driver's pages on its machine, and the key for them."""

    port: int
    key: str

    @classmethod
    def read(cls, text: object) -> PageAddress | None:
        """The address that a slot reports of its pages (``<port>:<key>``); None where that is nothing of the kind."""
        matched = _SAID.fullmatch(text) if isinstance(text, str) else None
        return cls(int(matched[1]), matched[2]) if matched and 0 < int(matched[1]) < 65_536 else None

    def token(self, *, now_s: float) -> str:
        """A token that opens the pages for half a minute (a JSON Web Signature with HS256, RFC 7515)."""
        parts = [{"alg": "HS256", "typ": "JWT"}, {"exp": int(now_s) + TOKEN_S}]
        signed = ".".join(_base64(json.dumps(part, separators=(",", ":")).encode()) for part in parts)
        key = base64.urlsafe_b64decode(self.key + "=" * (-len(self.key) % 4))
        return f"{signed}.{_base64(hmac.digest(key, signed.encode(), hashlib.sha256))}"


class DriverPages(OrderAnswers):
    """Answers what the site asks of the drivers' pages."""

    def __init__(
        self, broker: redis.Redis, settings: Settings, *, slots: Callable[[], Sequence[SlotProcess]],
    ) -> None:
        super().__init__(broker, settings.node, PAGES_OF_DRIVERS, self.read, name="driver_pages")
        self._data_folder, self._slots = str(settings.data_dir), slots

    def read(self, order: DriverPageOrder) -> DriverPage:
        """A page, without the secrets that this agent has opened, or why there is none."""
        if not is_shown(order.path, order.query):
            return DriverPage(failure=REFUSED)
        text = next((slot.report.get("spark_page") for slot in self._slots() if slot.name == order.slot), None)
        address = PageAddress.read(text)
        if address is None:
            return DriverPage(failure=NO_DRIVER)
        try:
            content = fetch(address, order.path, query=urlencode(order.query), within_s=ANSWERS_S)
        except (OSError, http.client.HTTPException) as error:
            logger().warning("a driver's page did not come", slot=order.slot, path=order.path, error=str(error)[:200])
            return DriverPage(failure=NO_ANSWER)
        html = redacted(content[:MOST_BYTES].decode(errors="replace")).replace(self._data_folder, "<data folder>")
        return DriverPage(html, len(content) > MOST_BYTES)


def driver_pages_thread(
    broker: redis.Redis, settings: Settings, *, slots: Callable[[], Sequence[SlotProcess]],
) -> tuple[DriverPages, ...]:
    """The thread, where pages are to be shown: then drivers on this machine have some."""
    return (DriverPages(broker, settings, slots=slots),) if settings.spark_pages and not settings.spark_master else ()


def fetch(address: PageAddress, path: str, *, query: str = "", within_s: float) -> bytes:
    """The answer of a driver: a page of HTML, one byte longer than may be where it is longer.

    Raises
    ------
    OSError, http.client.HTTPException
        It does not answer in time, or with something else; a redirect is not followed.
    """
    connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=within_s)
    connection.connect()
    is_late = threading.Event()
    timer = threading.Timer(within_s, _hang_up, (connection.sock, is_late))
    timer.daemon = True
    timer.start()
    try:
        token = address.token(now_s=time.time())
        connection.request("GET", f"/{path}{'?' if query else ''}{query}", headers={
            "Authorization": f"Bearer {token}", "Accept": "text/html", "Connection": "close"})
        answer = connection.getresponse()
        kind = answer.headers.get_content_type()
        if answer.status != 200 or kind != "text/html":
            raise http.client.HTTPException(f"it answered {answer.status} {kind}")
        content = answer.read(MOST_BYTES + 1)
        if is_late.is_set():
            raise TimeoutError("it answers too slowly")
        return content
    finally:
        timer.cancel()
        connection.close()


def _hang_up(sock: socket.socket, is_late: threading.Event) -> None:
    """End a connection, however little still comes on it."""
    is_late.set()
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
