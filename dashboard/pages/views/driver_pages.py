"""Spark's own pages of a slot's driver, written anew without scripts, forms or styles of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from dashboard.operations.live_view.driver_page_reading import driver_page as page_of_driver
from dashboard.pages.foreign_html import harmless
from scheduler.contracts.driver_pages import FIRST, NO_ANSWER, NO_DRIVER, REFUSED, is_shown

TABS = {"StreamingQuery/": "Streaming queries", "SQL/": "SQL", "jobs/": "Jobs", "stages/": "Stages",
        "storage/": "Storage"}
AWAY = "away"
WHY = {
    AWAY: ("The slot's node did not answer.", "Check on the node's page whether its agent runs."),
    NO_DRIVER: (
        "The slot's driver has no pages.", "It is starting, or its agent was started without WEIR_SPARK_PAGES=1."),
    NO_ANSWER: ("Spark did not answer with this page.", "Spark keeps only the newest: begin at the first page."),
    REFUSED: ("The slot's node does not show this page.", "Its agent may be of another version of Weir."),
}


@require_safe
def driver_page(request: HttpRequest, node: str, index: int, page: str = FIRST) -> HttpResponse:
    """A page of Spark, of the driver of a slot."""
    shown = page_of_driver(request.viewer, f"{node}/{index}", page, request.GET.dict())
    failure = AWAY if shown is None else shown.failure

    def link(path: str, query: Mapping[str, str]) -> str | None:
        path = f"{path.rstrip('/')}/"
        if not is_shown(path, query):
            return None
        return f"{reverse('driver_page', args=[node, index, path])}{'?' if query else ''}{urlencode(query)}"

    return render(request, "elements/driver_page.html", {
        "slot": f"{node}/{index}", "node": node, "index": index, "why": WHY.get(failure), "failure": failure,
        "is_cut": shown is not None and shown.is_cut,
        "body": "" if failure else SafeString(harmless(shown.html, link=link)),
        "tabs": [(link(path, {}), title, page.startswith(path)) for path, title in TABS.items()]})
