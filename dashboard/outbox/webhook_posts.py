"""Posting JSON to an address that somebody gave: to hosts that the operator named, and nowhere else.

How it is asked, and which addresses a name may lead to, is ``workers/library/outbound.py``'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from django.conf import settings

from dashboard.connector_calls import Line, Unanswered, WrongAddress
from scheduler.model.errors import WeirError

USUAL_PORTS = {"http": 80, "https": 443}
MOST_READ = 2048


class HostNotAllowed(WeirError):
    """The operator has not named the host of an address, or it leads to where nothing may be sent."""

    code = "host_not_allowed"


class NotDelivered(Exception):
    """The receiver did not take it; what it says goes into the page."""


def require_allowed(url: str) -> None:
    """Raise ``HostNotAllowed`` where the operator does not let Weir post to an address."""
    _target(url)


def post_json(url: str, body: bytes, headers: Mapping[str, str], *, is_operators: bool = False) -> None:
    """Post once; ``NotDelivered`` unless the answer is a success, ``HostNotAllowed`` where it may not be asked.

    Parameters
    ----------
    url : str
        The address; its host is looked up in ``WEIR_WEBHOOK_HOSTS`` again.
    headers : mapping
        Besides the content type.
    is_operators : bool, optional
        The operator wrote the address into the settings: it needs no other leave.
    """
    scheme, host, port = _target(url, is_operators=is_operators)
    line = Line(scheme, host, port, is_trusted=is_operators)
    parts = urlsplit(url)
    try:
        answer = line.ask(
            "POST", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), body=body, most_bytes=MOST_READ,
            headers={"Content-Type": "application/json", **headers}, deadline_s=settings.DELIVERY_S)
    except WrongAddress as error:
        raise HostNotAllowed(
            f"{error}.", remedy="Where that is meant, ask the operator to name the address itself in "
            "WEIR_WEBHOOK_HOSTS, or to allow private ranges (WEIR_PRIVATE_ADDRESSES).", host=host) from None
    except Unanswered as error:
        raise NotDelivered(f"{host} did not answer: {error}.") from None
    finally:
        line.close()
    if 300 <= answer.status < 400:
        raise NotDelivered(f"{host} answered {answer.status}: redirects are not followed. Give the final address.")
    if not 200 <= answer.status < 300:
        text = answer.body[:MOST_READ].decode("utf-8", "replace").strip()
        raise NotDelivered(f"{host} answered {answer.status}. {text[:200]}".strip())


def _target(url: str, *, is_operators: bool = False) -> tuple[str, str, int]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    try:
        host, port = (parts.hostname or "").lower(), parts.port or USUAL_PORTS[parts.scheme]
    except (ValueError, KeyError):
        host, port = "", 0
    if not host or parts.username or parts.password or any(char in url for char in "\r\n\0 "):
        raise HostNotAllowed("The address cannot be read.", remedy="Write https://host/path, without a user.")
    written = f"[{host}]" if ":" in host else host
    allowed = {name.lower() for name in settings.WEBHOOK_HOSTS}
    if is_operators:
        return parts.scheme, host, port
    if f"{written}:{port}" not in allowed and (written not in allowed or port not in USUAL_PORTS.values()):
        raise HostNotAllowed(
            f"Weir may not post to {written}:{port}.",
            remedy=f"Ask the operator to name {written}:{port} in WEIR_WEBHOOK_HOSTS.", host=f"{written}:{port}")
    return parts.scheme, host, port
