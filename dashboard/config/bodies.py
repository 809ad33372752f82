"""Bodies of requests, counted and timed before Django keeps any of them.

An anonymous request may send little. A request with a session, an API token, or a source's token at its own address may
send what its route needs. The caller is looked up only if the body is larger than anonymous ones may be.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from http.cookies import CookieError, SimpleCookie
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings

from dashboard.core.http_errors import JSON_PATHS, TooLarge, TooSlow, http_status
from dashboard.core.middleware import policy
from dashboard.live.live_sessions import viewers_of_sessions
from dashboard.operations.live_view.ingest import opens
from dashboard.teams.selectors import good_token
from scheduler.model.bounds import REQUEST_BODY
from scheduler.model.errors import WeirError

INGEST = "/ingest/"
DRAINED_S = 2.0  # for which what is refused is read and thrown away: who sends all first reads the answer then
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
_lookups = ThreadPoolExecutor(1, "callers")  # of its own: a page that takes long keeps no caller waiting


class BoundedBodies:
    """An ASGI application whose requests have bodies within their bounds."""

    def __init__(self, application: Callable[..., Awaitable[None]]) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        body = _Body(scope, receive, send)
        await self._application(scope, body.receive, body.send)


class _Body:
    """The body of one request on its way to the application, and the answer on its way back."""

    def __init__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        self._received_bytes, self._limit = 0, settings.ANONYMOUS_BYTES
        self._is_known = self._is_whole = self._is_refused = False
        self._until_s = asyncio.get_running_loop().time() + settings.BODY_WAIT_S

    async def receive(self) -> dict[str, Any]:
        if self._is_whole or self._is_refused:
            return await self._receive()
        length = self._headers.get(b"content-length", "")
        try:
            async with asyncio.timeout_at(self._until_s):
                error = await self._excess_of(int(length)) if length.isdecimal() and not self._received_bytes else None
                if error is None:
                    message = await self._receive()
                    self._received_bytes += len(message.get("body", b""))
                    self._is_whole = not message.get("more_body", False)
                    error = await self._excess_of(self._received_bytes)
        except TimeoutError:
            error = TooSlow(
                f"The request was not there within {settings.BODY_WAIT_S:g} s.",
                remedy="Send it faster, or less at a time; the operator's setting is WEIR_BODY_WAIT_S.")
        if error is None:
            return message
        await self._refuse(error)
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        if not self._is_refused:
            await self._send(message)

    async def _excess_of(self, size: int) -> WeirError | None:
        """The reason why so many bytes are refused; None where they are not."""
        if size > self._limit and not self._is_known:
            lookup = database_sync_to_async(_limit_of, thread_sensitive=False, executor=_lookups)
            self._limit, self._is_known = await lookup(self._scope["path"], self._headers), True
        if size <= self._limit:
            return None
        if self._limit == settings.ANONYMOUS_BYTES:
            return TooLarge(
                f"The request is over {self._limit >> 10} KiB, and nobody that is known here sent it.",
                remedy="Log in, or send a token that is good; the operator's setting is WEIR_ANONYMOUS_KB.",
                limit_bytes=self._limit, setting="WEIR_ANONYMOUS_KB")
        if self._scope["path"].startswith(INGEST):
            return TooLarge(
                f"The request is over {self._limit >> 20} MiB.",
                remedy="Post fewer events at a time; the operator's setting is WEIR_INGEST_MB.",
                limit_bytes=self._limit, setting="WEIR_INGEST_MB")
        return TooLarge("The request is over 1 MiB.", remedy="Send a smaller document.",
                        limit_bytes=settings.DOCUMENT_LIMIT_BYTES)

    async def _refuse(self, error: WeirError) -> None:
        self._is_refused = True
        try:
            async with asyncio.timeout(DRAINED_S):
                while not self._is_whole:
                    self._is_whole = not (await self._receive()).get("more_body", False)
        except TimeoutError:
            pass
        is_json = self._scope["path"].startswith((*JSON_PATHS, INGEST)) or self._headers.get(
            b"accept", "").startswith("application/json")
        text = json.dumps(error.as_dict()) if is_json else error.full_message
        kind = "application/json" if is_json else "text/plain; charset=utf-8"
        headers = {"content-type": kind, "connection": "close", "cache-control": "no-store",
                   "x-content-type-options": "nosniff", "content-security-policy": policy()}
        await self._send({"type": "http.response.start", "status": http_status(error), "headers": [
            (name.encode(), value.encode()) for name, value in headers.items()]})
        await self._send({"type": "http.response.body", "body": text.encode()})


def _limit_of(path: str, headers: dict[bytes, str]) -> int:
    """The limit of bytes that the caller may send to an address."""
    scheme, _, token = headers.get(b"authorization", "").partition(" ")
    token = token.strip() if scheme.lower() == "bearer" else ""
    if path.startswith(INGEST):
        return settings.INGEST_LIMIT_BYTES if opens(path.removeprefix(INGEST), token) else settings.ANONYMOUS_BYTES
    is_token = bool(token) and good_token(token) is not None
    return REQUEST_BODY.most if is_token or _has_session(headers) else settings.ANONYMOUS_BYTES


def _has_session(headers: dict[bytes, str]) -> bool:
    try:
        morsel = SimpleCookie(headers.get(b"cookie", "")).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return False
    return morsel is not None and bool(viewers_of_sessions([morsel.value]))
