"""Digests: what was held back for a receiver becomes one message, once a day."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from django.conf import settings
from django.db import transaction
from django.urls import reverse

from dashboard.outbox.models import EMAIL, HELD, Delivery

LISTED = 100  # messages in one digest; the others are counted
AT_ONCE = 2_000  # held messages that one run gathers: the next one goes on


def is_any_due(now_s: int) -> bool:
    """True if a digest is to be made now."""
    return Delivery.objects.filter(state=HELD, next_s__lte=now_s).exists()


def gather_due(now_s: int) -> int:
    """Replace the held messages of each receiver that are due by one message; how many digests there were."""
    with transaction.atomic():
        held_messages = list(Delivery.objects.select_for_update(of=("self",)).filter(
            state=HELD, next_s__lte=now_s).order_by("channel", "endpoint_id", "user_id", "created", "pk")[:AT_ONCE])
        digests = [
            _digest(list(messages)) for _, messages in groupby(
                held_messages, key=lambda delivery: (delivery.channel, delivery.endpoint_id, delivery.user_id))]
        Delivery.objects.filter(pk__in=[message.pk for message in held_messages]).delete()
        Delivery.objects.bulk_create(digests)
    return len(digests)


def _digest(messages: list[Delivery]) -> Delivery:
    first = messages[0]
    title = "1 message since the last digest" if len(messages) == 1 else (
        f"{len(messages)} messages since the last digest")
    listed = [{
        "title": message.subject.removeprefix("[Weir] "), "link": message.payload["link"],
        "at": message.created.isoformat()} for message in messages[:LISTED]]
    payload: dict[str, Any] = {
        "event": "digest", "what": "digest", "severity": "info", "team": None, "title": title, "cause": "digest",
        "count": len(messages), "link": f"{settings.SITE_URL}{reverse('notifications')}", "messages": listed}
    if first.channel == EMAIL:
        payload = {"link": payload["link"], "text": _text(title, listed, len(messages))}
        title = f"[Weir] {title}"
    return Delivery(
        key=f"digest:{first.pk}", channel=first.channel, endpoint_id=first.endpoint_id, user_id=first.user_id,
        to=first.to, subject=title, payload=payload)


def _text(title: str, listed: list[dict[str, str]], count: int) -> str:
    lines = [f"{title}:", ""]
    for message in listed:
        at = datetime.fromisoformat(message["at"]).astimezone(UTC)
        lines += [f"- {at:%d %b %H:%M} UTC: {message['title']}", f"  {message['link']}"]
    if count > len(listed):
        lines.append(f"- and {count - len(listed)} more")
    return "\n".join([*lines, "", "Choose your notifications, and when they come, under Alerts, Notifications."])
