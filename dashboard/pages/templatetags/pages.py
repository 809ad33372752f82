"""What the frame of every page needs: where one is, and what waits for the viewer."""

from __future__ import annotations

from typing import Any

from django import template
from django.urls import reverse

from dashboard.alerts import selectors as alerts
from dashboard.approvals import selectors as approvals
from dashboard.approvals.comments import unseen_mentions
from dashboard.operations.live_view.live_documents import MOVING
from dashboard.profiles import selectors as profiles
from dashboard.teams.models import Role
from dashboard.teams.selectors import teams

register = template.Library()
_PLACES = (
    ("estate", "Estate"), ("problems", "Problems"), ("dataflows", "Dataflows"), ("proposals", "Proposals"),
    ("alerts", "Alerts"), ("bills", "Bills"), ("task_types", "Task types"), ("profiles", "Profiles"),
    ("controllers", "Controllers"), ("audit", "Audit"), ("help", "Help"),
)


@register.simple_tag
def moving_fields() -> str:
    """The fields of live documents that pages write in place, for the script that compares two of them."""
    return " ".join(sorted(MOVING))


@register.simple_tag(takes_context=True)
def nav_state(context: dict[str, Any]) -> dict[str, Any]:
    """The navigation's items, and the viewer's teams with the role in each."""
    request = context["request"]
    waiting, mentions = waiting_for_me(context), unseen_mentions(request.viewer).count()
    firing = sum(alerts.counts(request.viewer).values())
    suggested = profiles.suggested(request.viewer).count()
    counts = {"proposals": (waiting + mentions, _counted(waiting, mentions)),
              "profiles": (suggested, f"{suggested} wait to be measured again"),
              "alerts": (firing, f"{firing} fire, and nobody has acknowledged them")}
    items = []
    for name, title in _PLACES:
        url = reverse(name)
        current = request.path.startswith(url) if url != "/" else request.path == "/" or _of_estate(request.path)
        count, count_title = counts.get(name, (0, ""))
        items.append({"url": url, "place": name.replace("_", "-"), "title": title, "current": current,
                      "count": count, "count_title": count_title})
    memberships = [
        {"team": team.name, "role": Role(request.viewer.roles[team.pk]).label}
        for team in teams(request.viewer) if team.pk in request.viewer.roles
    ]
    return {"items": items, "memberships": memberships}


def _counted(waiting: int, mentions: int) -> str:
    """What the number beside *Proposals* counts, in words."""
    parts = [f"{waiting} wait for your review"] * bool(waiting) + [f"{mentions} mention you"] * bool(mentions)
    return ", ".join(parts)


def _of_estate(path: str) -> bool:
    return path.startswith("/estate/")


@register.simple_tag(takes_context=True)
def waiting_for_me(context: dict[str, Any]) -> int:
    """How many proposals wait for the viewer's review; counted once a page."""
    request = context["request"]
    if not hasattr(request, "_weir_waiting"):
        request._weir_waiting = approvals.awaiting(request.viewer).count()
    return request._weir_waiting
