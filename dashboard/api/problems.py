"""The API's errors: one JSON shape for all of them."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from dashboard.core.errors import BadInput, LoginRequired, as_weir_error, response_for
from scheduler.model.errors import PermissionDenied, WeirError


class InvalidRequest(WeirError):
    """Fields of the request are missing or of the wrong type."""

    code = "invalid_request"


def install(api: NinjaAPI) -> None:
    """Answer every kind of failure in the one shape."""
    api.add_exception_handler(WeirError, response_for)
    api.add_exception_handler(AuthenticationError, _not_logged_in)
    api.add_exception_handler(ValidationError, _invalid)
    api.add_exception_handler(HttpError, _http)


def _not_logged_in(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    return response_for(request, LoginRequired(
        "Nobody is logged in.", remedy="Log in, or send a token: Authorization: Bearer weir_…"))


def _invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    fields = [
        {"field": ".".join(str(part) for part in found["loc"][1:]), "message": found["msg"]} for found in error.errors]
    return response_for(request, InvalidRequest(
        "The request lacks something or holds something of the wrong type.", remedy="See docs/api.md.", fields=fields))


def _http(request: HttpRequest, error: HttpError) -> HttpResponse:
    if error.status_code == 400:
        return response_for(request, BadInput("The body cannot be read.", remedy="Send JSON in UTF-8."))
    if error.status_code == 403:
        return response_for(request, PermissionDenied(
            "The request lacks its protection against forgery.", remedy="Send the cookie's value as X-CSRFToken."))
    return response_for(request, as_weir_error(error))
