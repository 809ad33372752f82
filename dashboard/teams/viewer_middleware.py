"""``request.viewer``: what the user of a request may see and do."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.functional import SimpleLazyObject

from dashboard.teams.permissions import viewer_of


class CurrentViewer:
    """Sets ``request.viewer``; the database is asked when it is first used."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.viewer = SimpleLazyObject(lambda: viewer_of(request.user))
        return self.get_response(request)
