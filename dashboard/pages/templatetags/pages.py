"""The frame of every page: the present section, and what waits for the viewer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from dashboard.alerts import selectors as alerts
from dashboard.approvals import selectors as approvals
from dashboard.approvals.comments import unseen_mentions
from dashboard.catalog.lifecycle import RUNNING
from dashboard.catalog.models import DataflowRecord
from dashboard.operations import selectors as operations
from dashboard.operations.live_view.live_documents import MOVING
from dashboard.pages.sections import PEOPLE, SECTIONS, Section, page_at, section_at
from dashboard.pages.templatetags.weir import chip
from dashboard.profiles import selectors as profiles
from dashboard.teams import selectors as membership_selectors
from dashboard.teams.models import Role

register = template.Library()
URGENT = ("proposals", "alerts")  # what waits there is counted at its section, too



@register.simple_tag
def moving_fields() -> str:
    """The fields of live documents that pages write in place, for the script that compares two of them."""
    return " ".join(sorted(MOVING))


@register.simple_tag(takes_context=True)
def nav_state(context: dict[str, Any]) -> dict[str, Any]:
    """The sections with their pages and what waits there, where one is, and the viewer's teams with their roles."""
    request = context["request"]
    waiting, mentions = waiting_for_me(context), unseen_mentions(request.viewer).count()
    firing = sum(alerts.counts(request.viewer).values())
    suggested = profiles.suggested(request.viewer).count()
    counts = {"proposals": (waiting + mentions, _counted(waiting, mentions)),
              "profiles": (suggested, f"{suggested} to measure again"),
              "alerts": (firing, f"{firing} to acknowledge")}
    here = section_at(request.path)
    shown = [_section_context(section, here, request, counts) for section in SECTIONS]
    memberships = [
        {"team": team.name, "role": Role(request.viewer.roles[team.pk]).label}
        for team in membership_selectors.teams(request.viewer) if team.pk in request.viewer.roles
    ]
    return {"sections": shown, "here": next((section for section in shown if section["current"]), None),
            "memberships": memberships}


def _section_context(
    section: Section, here: Section | None, request: HttpRequest, counts: Mapping[str, tuple[int, str]]
) -> dict[str, Any]:
    pages = [page for page in section.pages if page is not PEOPLE or request.user.is_superuser]
    at = page_at(request.path, pages)
    items = [{"url": reverse(page.name), "key": page.key, "title": page.title, "current": page is at,
              "count": counts.get(page.name, (0, ""))[0], "count_title": counts.get(page.name, (0, ""))[1]}
             for page in pages]
    urgent = next((item for item in items if item["count"] and item["key"] in URGENT), None)
    return {"key": section.key, "title": section.title, "url": items[0]["url"], "pages": items,
            "current": section is here,
            "counted": urgent or {"count": 0, "count_title": ""},
            "counts": next((item["key"] for item in items if item["key"] in URGENT), "")}


def _counted(waiting: int, mentions: int) -> str:
    """The items that the number beside *Proposals* counts, in words."""
    parts = [f"{waiting} to review"] * bool(waiting) + [f"mentions of you: {mentions}"] * bool(mentions)
    return ", ".join(parts)


@register.simple_tag(takes_context=True)
def waiting_for_me(context: dict[str, Any]) -> int:
    """The number of proposals that wait for the viewer's review; counted once a page."""
    request = context["request"]
    if not hasattr(request, "_weir_waiting"):
        request._weir_waiting = approvals.awaiting(request.viewer).count()
    return request._weir_waiting


@register.simple_tag(takes_context=True)
def may_submit(context: dict[str, Any]) -> bool:
    """True if the viewer may submit a dataflow for some team."""
    return context["request"].viewer.has_role_anywhere(Role.ENGINEER)


@register.simple_tag(takes_context=True)
def admins_to_ask(context: dict[str, Any]) -> list[str]:
    """The people who may give the viewer another role."""
    return membership_selectors.admins_to_ask(context["request"].viewer)


@register.simple_tag(takes_context=True)
def dataflow_chip(context: dict[str, Any], record: DataflowRecord) -> SafeString:
    """The state of a dataflow as its own page shows it."""
    if record.status != RUNNING:
        return chip(record.status)
    return chip(operations.live_dataflow(context["request"].viewer, record.pk)["totals"]["state"])
