"""Messages on the wire: bodies in Weir's and Slack's shape, and the signature."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from dashboard.outbox.models import SLACK

SIGNATURE, TIMESTAMP, IDEMPOTENCY = "X-Weir-Signature", "X-Weir-Timestamp", "Idempotency-Key"
_MARKS = {"critical": ":red_circle:", "warning": ":large_orange_circle:", "info": ":large_blue_circle:"}


def body_of(format: str, payload: Mapping[str, Any]) -> bytes:
    """A payload as JSON, or as a message that Slack takes; what lists hold keeps its order."""
    shaped = slack_message(payload) if format == SLACK else payload
    return json.dumps(shaped, ensure_ascii=False, separators=(",", ":")).encode()


def slack_message(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A notice as Slack's blocks, with the plain text that notifications show."""
    title, link = _escaped(payload["title"]), payload.get("link", "")
    emoji = ":white_check_mark:" if payload.get("what") == "over" else _MARKS.get(payload.get("severity", ""), "")
    lines = [
        f"• *{_escaped(alert['title'])}* {_escaped(alert['text'])}"[:600] for alert in payload.get("alerts", ())[:20]]
    lines += [f"• {_linked(message['title'], message['link'])}"[:600] for message in payload.get("messages", ())[:20]]
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": f"{emoji} *{title}*".strip()}}]
    if lines:
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": "\n".join(lines)[:2900]}})
    if link.startswith("http"):
        blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": f"<{link}|Open in Weir>"}]})
    return {"text": f"{emoji} {title}".strip(), "blocks": blocks}


def signature(secret: str, body: bytes, *, at_s: int) -> str:
    """``v1=`` and the HMAC-SHA256, in hex, of the timestamp, a full stop and the body."""
    signed = hmac.new(secret.encode(), f"{at_s}.".encode() + body, hashlib.sha256)
    return f"v1={signed.hexdigest()}"


def headers_of(secret: str, body: bytes, *, at_s: int, idempotency_id: str) -> dict[str, str]:
    """The headers of one attempt: the signature is of its own time, the id is the message's.

    Parameters
    ----------
    at_s : int
        Now, in seconds since the epoch.
    """
    return {TIMESTAMP: str(at_s), SIGNATURE: signature(secret, body, at_s=at_s), IDEMPOTENCY: idempotency_id,
            "User-Agent": "Weir"}


def _linked(title: str, link: str) -> str:
    return f"<{link}|{_escaped(title)[:200]}>" if link.startswith("http") else _escaped(title)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
