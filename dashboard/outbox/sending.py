"""Sending what waits: claimed, sent, marked; tried again further and further apart, and dead after the last attempt.

What fails puts off all that waits for the same receiver: whoever has many messages for one that does not answer keeps
nobody else's waiting behind them.

A message is claimed for a while before it is sent. A worker that is killed in between leaves it claimed, and it is sent
again when that is over, under the same id: at least once, and whoever receives it can tell.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from smtplib import SMTPDataError, SMTPRecipientsRefused
from urllib.parse import urlsplit

import structlog
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction

from dashboard import jobs
from dashboard.outbox import digests
from dashboard.outbox.messages import IDEMPOTENCY, body_of, headers_of
from dashboard.outbox.models import DEAD, EMAIL, LINEAGE, SENT, WAITING, WEBHOOK, Delivery
from dashboard.outbox.webhook_posts import HostNotAllowed, NotDelivered, post_json
from scheduler.alerting.retrying import next_attempt_s
from scheduler.model.errors import PermissionDenied, WeirError
from scheduler.model.names import one_line

log = structlog.get_logger(__name__)
CLAIM_S = 60  # longer than one attempt may take
AT_ONCE = 50
LONGEST_SUBJECT = 200
BUDGET_S = 45.0  # of one run: the next one goes on
OF_ONE_MAIL = (SMTPRecipientsRefused, SMTPDataError)  # the server answers: it is nothing to mail for others
_LOCK, _BUSY = threading.Lock(), set[str]()
SENT_FOR, DEAD_FOR = timedelta(days=30), timedelta(days=90)


def enqueue(deliveries: Collection[Delivery]) -> None:
    """Store messages, each once; sent by whoever is next. The caller's transaction holds what they are about."""
    Delivery.objects.bulk_create(deliveries, ignore_conflicts=True)


def is_any_due(*, now: Callable[[], float] = time.time) -> bool:
    """True if a message is to be sent now."""
    now_s = int(now())
    return Delivery.objects.filter(state=WAITING, next_s__lte=now_s).exists() or digests.is_any_due(now_s)


def send_due(*, now: Callable[[], float] = time.time) -> int:
    """Send what is due, the oldest first; how many messages arrived."""
    digests.gather_due(int(now()))
    begun_s, arrived, failed_at = time.monotonic(), 0, set[str]()
    due = Delivery.objects.filter(state=WAITING, next_s__lte=int(now())).order_by("next_s", "created")
    for pk, channel, endpoint, url in list(due.values_list("pk", "channel", "endpoint_id", "endpoint__url")[:AT_ONCE]):
        if time.monotonic() - begun_s > BUDGET_S:
            break
        host = urlsplit(url).netloc.lower() if url else channel
        receiver = str(endpoint or channel)
        if receiver in failed_at:  # it keeps nobody else waiting
            continue
        with _alone_with(host) as is_alone:
            delivery = _claimed(pk, now()) if is_alone else None
            if delivery is None:
                continue
            failure = _attempt(delivery, now())
            if failure is None:
                arrived += 1
            elif isinstance(failure, NotDelivered | OSError) and not isinstance(failure, OF_ONE_MAIL):
                failed_at.add(receiver)
                _put_off(delivery, now())
    return arrived


@contextmanager
def _alone_with(host: str) -> Iterator[bool]:
    """True if nobody else of this process sends something to a host: one at a time, and the others go elsewhere."""
    with _LOCK:
        is_alone = host not in _BUSY
        if is_alone:
            _BUSY.add(host)
    try:
        yield is_alone
    finally:
        if is_alone:
            with _LOCK:
                _BUSY.discard(host)


def forget_deliveries(at: datetime) -> int:
    """Drop messages that arrived or died long ago, or have waited for so long; how many there were."""
    sent = Delivery.objects.filter(state=SENT, created__lt=at - SENT_FOR).delete()[0]
    return sent + Delivery.objects.exclude(state=SENT).filter(created__lt=at - DEAD_FOR).delete()[0]


def _claimed(pk: object, now_s: float) -> Delivery | None:
    """The message, for this process alone; None where another one has it."""
    with transaction.atomic():
        delivery = Delivery.objects.select_for_update(of=("self",)).select_related("endpoint__user", "user").filter(
            pk=pk, state=WAITING, next_s__lte=int(now_s)).first()
        if delivery is not None:
            delivery.attempts += 1
            delivery.next_s = int(now_s) + CLAIM_S
            delivery.save(update_fields=["attempts", "next_s"])
        return delivery


def _attempt(delivery: Delivery, now_s: float) -> Exception | None:
    """Send it, and note what became of it: None, or why it did not arrive."""
    try:
        _require_active(delivery)
        _SENDERS[delivery.channel](delivery, int(now_s))
    except Exception as error:  # whatever it is: a message that cannot be sent keeps no other waiting
        if not isinstance(error, NotDelivered | WeirError | OSError | ValueError):  # smtplib's errors are OSErrors
            log.exception("delivery_failed", delivery=str(delivery.pk))
        is_final = isinstance(error, HostNotAllowed | PermissionDenied)
        _failed(delivery, str(error) or type(error).__name__, now_s, for_good=is_final)
        return error
    Delivery.objects.filter(pk=delivery.pk).update(
        state=SENT, error="", sent_at=datetime.fromtimestamp(now_s).astimezone())
    return None


def _require_active(delivery: Delivery) -> None:
    """Raise if its receiver was deactivated since it was stored."""
    person = delivery.user or (delivery.endpoint.user if delivery.endpoint else None)
    if person is not None and not person.is_active:
        raise PermissionDenied(f"{person.username} is deactivated.", remedy="Nothing is sent to them any more.")


def _failed(delivery: Delivery, reason: str, now_s: float, *, for_good: bool) -> None:
    again_s = None if for_good else next_attempt_s(delivery.attempts, now_s)
    log.warning("not_delivered", channel=delivery.channel, delivery=str(delivery.pk), attempts=delivery.attempts)
    Delivery.objects.filter(pk=delivery.pk).update(
        state=DEAD if again_s is None else WAITING, error=reason[:500], next_s=int(again_s or 0))


def _put_off(delivery: Delivery, now_s: float) -> None:
    """Let all else for a receiver that does not answer wait behind what is for others."""
    soonest_s = int(next_attempt_s(1, now_s) or 0)
    Delivery.objects.filter(
        channel=delivery.channel, endpoint=delivery.endpoint_id, state=WAITING, next_s__lt=soonest_s,
    ).update(next_s=soonest_s)


def _email(delivery: Delivery, at_s: int) -> None:
    EmailMessage(
        one_line(delivery.subject, most=LONGEST_SUBJECT), delivery.payload["text"], settings.DEFAULT_FROM_EMAIL,
        [delivery.to],
        headers={
            "Message-ID": f"<{delivery.pk}@weir>", "X-Weir-Id": str(delivery.pk), "Auto-Submitted": "auto-generated"},
    ).send()


def _webhook(delivery: Delivery, at_s: int) -> None:
    endpoint = delivery.endpoint
    body = body_of(endpoint.format, delivery.payload)
    post_json(endpoint.url, body, headers_of(
        jobs.unseal(endpoint.sealed), body, at_s=at_s, idempotency_id=str(delivery.pk)))


def _lineage(delivery: Delivery, at_s: int) -> None:
    if not settings.OPENLINEAGE_URL:
        raise NotDelivered("Nobody is named to send this to: WEIR_OPENLINEAGE_URL is empty.")
    headers = {IDEMPOTENCY: str(delivery.pk)}
    if settings.OPENLINEAGE_KEY:
        headers["Authorization"] = f"Bearer {settings.OPENLINEAGE_KEY}"
    post_json(settings.OPENLINEAGE_URL, json.dumps(delivery.payload).encode(), headers, is_operators=True)


_SENDERS = {EMAIL: _email, WEBHOOK: _webhook, LINEAGE: _lineage}
