"""The viewers of live connections, looked up anew while they last: of many at once, in three queries."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from dashboard.teams.models import Membership, Role, User
from dashboard.teams.permissions import NOBODY, Viewer

MOST_AT_ONCE = 200  # sessions of one batch: what is asked about them takes some milliseconds


class Sessions:
    """Asks who sessions belong to; those who ask while an answer is awaited are asked about together."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Future[Viewer]]] = {}
        self._asking: asyncio.Task | None = None
        # Threads of its own: whoever builds documents keeps nobody waiting for who may read them.
        self._threads = ThreadPoolExecutor(1, "live-sessions")

    async def viewer(self, session_key: str | None) -> Viewer:
        """The viewer of the session now; nothing once it ended. Raises what the database raises."""
        if not session_key:
            return NOBODY
        answer = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(session_key, []).append(answer)
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await answer

    async def _ask(self) -> None:
        ask = database_sync_to_async(viewers_of_sessions, thread_sensitive=False, executor=self._threads)
        while self._waiting:
            keys = list(self._waiting)[:MOST_AT_ONCE]
            futures = {key: self._waiting.pop(key) for key in keys}
            try:
                viewers = await ask(keys)
            except Exception as error:
                viewers = error
            for key, answers in futures.items():
                for answer in answers:
                    if answer.done():  # whoever asked has gone
                        continue
                    if isinstance(viewers, Exception):
                        answer.set_exception(viewers)
                    else:
                        answer.set_result(viewers.get(key, NOBODY))


def viewers_of_sessions(session_keys: Collection[str]) -> dict[str, Viewer]:
    """The viewers of sessions now; a session that ended, or whose user may not log in, is left out."""
    rows = Session.objects.filter(session_key__in=session_keys, expire_date__gt=timezone.now())
    contents = {row.session_key: SessionStore().decode(row.session_data) for row in rows}
    users = User.objects.in_bulk({content[SESSION_KEY] for content in contents.values() if SESSION_KEY in content})
    by_id = {str(user.pk): user for user in users.values() if user.is_active}
    owners = {
        key: user for key, content in contents.items()
        if (user := by_id.get(content.get(SESSION_KEY, ""))) is not None and _is_of(content, user)}
    roles: defaultdict[int, dict[int, Role]] = defaultdict(dict)
    memberships = Membership.objects.filter(user__in={user.pk for user in owners.values()})
    for user_id, team_id, role in memberships.values_list("user", "team", "role"):
        roles[user_id][team_id] = Role(role)
    return {
        key: Viewer(user_id=user.pk, roles=MappingProxyType(roles[user.pk]), superuser=user.is_superuser)
        for key, user in owners.items()}


def _is_of(content: Mapping[str, Any], user: User) -> bool:
    """True if a session is still its user's, as ``django.contrib.auth.get_user`` has it: a new password ends it."""
    if content.get(BACKEND_SESSION_KEY) not in settings.AUTHENTICATION_BACKENDS:
        return False
    digest = content.get(HASH_SESSION_KEY) or ""
    digests = (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    return any(constant_time_compare(digest, session_digest) for session_digest in digests)
