"""Ingest: events that somebody posts to an address of a team, into the live sources that read it."""

from __future__ import annotations

import hmac
from dataclasses import replace

from django.conf import settings

from dashboard import connector_calls, jobs
from dashboard.core.http_errors import TooLarge
from dashboard.operations.models import RunningTaskRow
from dashboard.teams.models import Secret
from scheduler.model.errors import WeirError
from scheduler.model.secrets import SECRET, TEAM

FORMATS = {
    "application/json": "json", "application/x-ndjson": "ndjson", "application/jsonl": "ndjson", "text/csv": "csv",
    "application/vnd.apache.arrow.stream": "arrow"}


class NotTheToken(WeirError):
    """The token opens no such address; whether there is one is not told."""

    code = "wrong_token"


class TooFull(WeirError):
    """Readers are behind: who posts must wait."""

    code = "source_full"


class AtRest(WeirError):
    """The source has no reader now: its dataflows are paused, or just start."""

    code = "source_paused"


class TooMany(TooLarge):
    """The posted data decode to more than the limit."""


class OtherBody(WeirError):
    """The idempotency key was taken by another body."""

    code = "key_used"


class NothingRead(WeirError):
    """Not one event could be read."""

    code = "nothing_read"


def ingest(address: str, *, token: str, body: bytes, content_type: str, key: str) -> connector_calls.Pushed:
    """Take in what was posted to an address, ``team/name``, once for each live source that reads it.

    Parameters
    ----------
    content_type : str
        The form in which they are written; one that says nothing leaves it to the source's config.
    key : str
        The idempotency key, empty for none.

    Raises
    ------
    NotTheToken, TooMany, TooFull, AtRest, OtherBody, NothingRead
        In the last case what came is kept as dead letters, and the key is free.
    """
    sources = _sources(address, token)
    if not sources:
        raise NotTheToken(
            "There is no such address, or the token is not its own.",
            remedy="See the address on the dataflow's page while it runs, and send “Authorization: Bearer …” with the "
            "secret that its source names as token.")
    format = FORMATS.get(content_type.partition(";")[0].strip().lower())
    post = connector_calls.Post(body, format=format, key=key)
    if len(sources) > 1:
        sources = _that_take_it(sources, post)
    results = [_pushed(row, post) for row in sources]
    read = [result for result in results if not result.is_refused]
    if not read:
        reasons = results[0].reasons
        raise NothingRead(
            "Not one event could be read.", remedy=f"The first: {reasons[0]}.", reasons=list(reasons))
    return replace(read[0], again=all(result.again for result in read))


def opens(address: str, token: str) -> bool:
    """True if a token opens an address: that of a source that is pushed to."""
    return bool(token) and bool(_sources(address, token))


def _sources(address: str, token: str) -> list[RunningTaskRow]:
    team, _, name = address.partition("/")
    pushed_to = [task_type.name for task_type in jobs.task_types().values() if task_type.connector == ""]
    rows = RunningTaskRow.objects.filter(type__in=pushed_to, config__name=name, config__token__team=team)
    return [row for row in rows.order_by("pk") if _opens(token, row)]


def _opens(token: str, row: RunningTaskRow) -> bool:
    reference = row.config["token"]
    secret = Secret.objects.filter(team__slug=reference[TEAM], name=reference[SECRET]).first()
    value = jobs.unseal(secret.sealed) if secret is not None else ""
    return bool(value) and hmac.compare_digest(value.encode(), token.encode())


def _that_take_it(sources: list[RunningTaskRow], post: connector_calls.Post) -> list[RunningTaskRow]:
    """The active readers, if every one has room. A caller who hears that one is full posts to all of them again."""
    try:
        room = connector_calls.room_in([row.pk for row in sources], post)
    except connector_calls.KeyUsed:
        raise _other_body() from None
    if "full" in room.values():
        raise TooFull("The readers of this source are behind.", remedy="Post it again after a second.")
    return [row for row in sources if not room[row.pk]] or sources


def _other_body() -> OtherBody:
    return OtherBody(
        "This Idempotency-Key was taken by another body within the last day. Nothing of this one was taken.",
        remedy="Post it under a key of its own.")


def _pushed(row: RunningTaskRow, post: connector_calls.Post) -> connector_calls.Pushed:
    try:
        return connector_calls.push(row.pk, row.config, post)
    except connector_calls.KeyUsed:
        raise _other_body() from None
    except connector_calls.TooMuch as much:
        raise TooMany(
            f"What was posted {much}.",
            remedy=f"Post less at a time; the operator's setting for events is WEIR_INGEST_EVENTS, now "
            f"{settings.INGEST_EVENTS:,}.") from None
    except connector_calls.NotTaken as refusal:
        if refusal.at_rest:
            raise AtRest(
                "Nobody reads this source now: its dataflows are paused, or are just starting.",
                remedy="Post it again when they run.") from None
        raise TooFull("The readers of this source are behind.", remedy="Post it again after a second.") from None
