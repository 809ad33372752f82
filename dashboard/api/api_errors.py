"""The API's errors: one JSON shape for all of them, and the statuses that each operation documents."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.renderers import JSONRenderer
from ninja.responses import NinjaJSONEncoder

from dashboard import connector_calls
from dashboard.api.answers.common import Error
from dashboard.core.http_errors import BadInput, LoginRequired, as_weir_error, response_for
from scheduler.model.errors import PermissionDenied, WeirError


class InvalidRequest(WeirError):
    """Fields of the request are missing or of the wrong type."""

    code = "invalid_request"


class _Encoder(NinjaJSONEncoder):
    """Bytes of an event are base64, as sinks write them."""

    def default(self, o: Any) -> Any:
        return base64.b64encode(o).decode() if isinstance(o, bytes) else super().default(o)


class _Renderer(JSONRenderer):
    """Answers as JSON: NaN and infinite numbers are text, as in events."""

    encoder_class = _Encoder

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> str:
        try:
            return json.dumps(data, cls=_Encoder, allow_nan=False)
        except ValueError:
            return json.dumps(connector_calls.json_ready(data), cls=_Encoder, allow_nan=False)


class WeirAPI(NinjaAPI):
    """The API, whose OpenAPI document names the errors of every operation."""

    def __init__(self, **options: Any) -> None:
        super().__init__(renderer=_Renderer(), **options)

    def get_openapi_schema(self, **options: Any) -> Any:
        document = super().get_openapi_schema(**options)
        definitions = Error.model_json_schema(ref_template="#/components/schemas/{model}")
        nested = definitions.pop("$defs", {})
        document["components"].setdefault("schemas", {}).update({"Error": definitions, **nested})
        for address, operations in document["paths"].items():
            for method, operation in operations.items():
                for status in error_statuses(method, address, operation):
                    operation["responses"].setdefault(int(status), {
                        "description": status.phrase,
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}})
        return document


def error_statuses(method: str, address: str, operation: Mapping[str, Any]) -> list[HTTPStatus]:
    """The statuses with which an operation may fail, by what it takes and does."""
    statuses = [HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.METHOD_NOT_ALLOWED,
                HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE,
                HTTPStatus.INSUFFICIENT_STORAGE]
    if "{" in address or operation.get("parameters") or "requestBody" in operation:
        statuses += [HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY]
    if method != "get":
        statuses += [HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE]
    elif "{" in address or operation.get("parameters"):
        statuses += [HTTPStatus.CONFLICT]
    return sorted(statuses)


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
        {"field": ".".join(str(part) for part in problem["loc"][1:]), "message": problem["msg"]}
        for problem in error.errors
    ]
    return response_for(request, InvalidRequest(
        "The request lacks something or holds something of the wrong type.", remedy="See docs/api.md.", fields=fields))


def _http(request: HttpRequest, error: HttpError) -> HttpResponse:
    if error.status_code == 400:
        return response_for(request, BadInput("The body cannot be read.", remedy="Send JSON in UTF-8."))
    if error.status_code == 403:
        return response_for(request, PermissionDenied(
            "The request lacks its protection against forgery.", remedy="Send the cookie's value as X-CSRFToken."))
    return response_for(request, as_weir_error(error))
