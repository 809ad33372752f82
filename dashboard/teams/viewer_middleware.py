"""The viewer of a request: pages are for people who are logged in; ``request.viewer`` is what they may see and do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
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


class LogInFirst(LoginRequiredMiddleware):
    """Every address is for people who are logged in, unless ``urls.py`` says otherwise. The API asks by itself."""

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., HttpResponse], view_args: Any, view_kwargs: Any
    ) -> HttpResponse | None:
        if request.resolver_match.app_name == "ninja":
            return None
        return super().process_view(request, view_func, view_args, view_kwargs)
