"""Errors as HTTP, in one place: JSON for the API and live state, an HTML page otherwise.

Every error has the one shape of ``WeirError.as_dict``: code, message, remedy, facts (an invalid dataflow: problems).
"""

from __future__ import annotations

import errno
import re
import sqlite3
import sys
from collections.abc import Mapping
from http import HTTPStatus

import structlog
from django.core.exceptions import BadRequest, ObjectDoesNotExist, RequestDataTooBig, SuspiciousOperation
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.multipartparser import MultiPartParserError
from django.template.loader import select_template
from redis.exceptions import OutOfMemoryError

from scheduler.model.broker_memory import REMEDY
from scheduler.model.errors import NotFound, PermissionDenied, WeirError

log = structlog.get_logger(__name__)
JSON_PATHS = ("/api/", "/live/")
POSTGRESQL_DISK_FULL = "53100"
POSTGRESQL_BUSY = ("55P03", "40P01", "40001")  # no lock in time, deadlock, no serial order
# Its connection, its end, its start, and that of a standby that is no primary.
POSTGRESQL_AWAY = ("08", "57P", "25006")
BUSY_RETRY_AFTER_S = 5
_LOCKED = re.compile(r"database (table )?is locked")
# SQLite's words, those of C's library, and Redis's where it can save nothing.
_FULL = re.compile(r"database or disk is full|No space left on device|Disk quota exceeded|^MISCONF ")

# HTTP status by error code, for every error class of the code base; a test fails for a class that is missing here.
# A class without an entry has its nearest base's.
HTTP_STATUS: Mapping[str, HTTPStatus] = {
    code: status for status, codes in {
        HTTPStatus.BAD_REQUEST: ("error", "bad_input", "invalid_trial"),
        HTTPStatus.UNAUTHORIZED: ("login_required", "wrong_token"),
        HTTPStatus.FORBIDDEN: ("permission_denied",),
        HTTPStatus.NOT_FOUND: ("not_found",),
        HTTPStatus.METHOD_NOT_ALLOWED: ("method_not_allowed",),
        HTTPStatus.CONFLICT: (
            "already_reviewed", "already_submitted", "altered_plan", "digest_mismatch", "insufficient_slots",
            "invalid_transition", "key_used", "last_admin", "machine_bounds_reached", "missing_profile",
            "mixed_sweep", "name_taken", "no_exact_savepoint", "no_slots", "no_such_near_miss", "no_such_savepoint",
            "node_in_use", "node_reports", "not_approved", "not_enactable", "not_paused", "nothing_elsewhere",
            "nothing_to_change", "nothing_to_gain", "nothing_to_look_at", "other_dataflow", "rate_not_held",
            "savepoint_differs", "savepoint_name_taken", "secret_away", "secret_in_use", "slot_taken", "source_away",
            "source_refused", "sink_away", "sink_refused", "stale_plan", "team_is_frozen", "team_limit_reached",
            "too_many_keys", "too_many_readers", "too_many_simulations", "too_many_sweeps", "trial_failed",
            "unknown_task_type"),
        HTTPStatus.REQUEST_TIMEOUT: ("too_slow",),
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("document_too_large", "too_large"),
        HTTPStatus.UNPROCESSABLE_ENTITY: (
            "dry_run_too_long", "graph_not_editable", "host_not_allowed", "invalid_beginning", "invalid_choice",
            "invalid_condition", "invalid_config", "invalid_dataflow", "invalid_guard", "invalid_profile",
            "invalid_range", "invalid_request", "invalid_resources",
            "invalid_rules", "invalid_goals", "invalid_latency", "invalid_simulation", "invalid_value",
            "name_not_plain", "nothing_read", "prices_too_long", "wrong_columns"),
        HTTPStatus.TOO_MANY_REQUESTS: ("asked_too_often", "source_full", "too_many_logins"),
        HTTPStatus.INTERNAL_SERVER_ERROR: ("internal_error", "invalid_contract", "invalid_setting", "planning_failed"),
        HTTPStatus.SERVICE_UNAVAILABLE: (
            "broker_away", "broker_full", "database_away", "database_busy", "no_node_reports", "source_paused"),
        HTTPStatus.INSUFFICIENT_STORAGE: ("disk_full",),
    }.items() for code in codes
}


class TooLarge(WeirError):
    """The request is over the limit."""

    code = "too_large"


class TooSlow(WeirError):
    """The request did not come in time."""

    code = "too_slow"


class BadInput(WeirError):
    """The request cannot be read."""

    code = "bad_input"


class LoginRequired(WeirError):
    """The request comes from nobody who is logged in."""

    code = "login_required"


class MethodNotAllowed(WeirError):
    """The address is right, the method is not."""

    code = "method_not_allowed"


class DiskFull(WeirError):
    """A disk is too full for the request: a disk is full."""

    code = "disk_full"


class BrokerFull(WeirError):
    """The request needs the broker, whose memory is full."""

    code = "broker_full"


class DatabaseBusy(WeirError):
    """The database could not store the request in time: others write."""

    code = "database_busy"

    def __init__(self) -> None:
        super().__init__(
            "The database is busy with what others write. Nothing was changed.",
            remedy=f"Try again in {BUSY_RETRY_AFTER_S} seconds.", retry_after_s=BUSY_RETRY_AFTER_S)


class DatabaseAway(WeirError):
    """The database does not answer, or only a standby that takes nothing in."""

    code = "database_away"

    def __init__(self) -> None:
        super().__init__(
            "The database does not answer. Running dataflows go on.",
            remedy=f"Try again in {BUSY_RETRY_AFTER_S} seconds. Of a change that you sent, see first if it is stored.",
            retry_after_s=BUSY_RETRY_AFTER_S)


class InternalError(WeirError):
    """A defect of Weir."""

    code = "internal_error"


def http_status(error: WeirError) -> int:
    """The HTTP status of an error: its class's, or that of the nearest base class in ``HTTP_STATUS``."""
    return next(int(HTTP_STATUS[kind.code]) for kind in type(error).__mro__ if kind.code in HTTP_STATUS)


def as_weir_error(error: Exception) -> WeirError:
    """The error as one that a user can act on; what is no user's doing becomes ``InternalError``."""
    if isinstance(error, WeirError):
        return error
    if isinstance(error, Http404 | ObjectDoesNotExist):
        return NotFound("There is nothing at this address.", remedy="Check the address, or start from the estate page.")
    if isinstance(error, DjangoPermissionDenied):
        return PermissionDenied("Your role does not allow this.", remedy="Ask an admin of the team.")
    if isinstance(error, RequestDataTooBig):
        return TooLarge("The request is over 1 MiB.", remedy="Send a smaller document.", limit_bytes=1024 * 1024)
    if isinstance(error, SuspiciousOperation | BadRequest | MultiPartParserError | UnicodeError):
        return BadInput("The request cannot be read.", remedy="Check its encoding and its parameters.")
    if is_disk_full(error):
        return DiskFull(
            "A disk is full, so nothing can be stored. Nothing was changed.",
            remedy="Make room on the file system of the data folder or the database, and try again.")
    if isinstance(error, OutOfMemoryError):
        return BrokerFull("The memory of the broker is full.", remedy=REMEDY)
    if is_database_busy(error):
        return DatabaseBusy()
    if is_database_away(error):
        return DatabaseAway()
    return InternalError("Weir failed on this request.", remedy="The log says why; try again, or tell the operator.")


def is_disk_full(error: BaseException | None) -> bool:
    """True if an error, or what caused it, is that of a full disk: of a file, SQLite, PostgreSQL or Redis."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if getattr(error, "sqlstate", None) == POSTGRESQL_DISK_FULL or _FULL.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_database_busy(error: BaseException | None) -> bool:
    """True if an error, or what caused it, is that of a writer that has waited for others long enough."""
    while error is not None:
        if getattr(error, "sqlstate", None) in POSTGRESQL_BUSY or (
                isinstance(error, sqlite3.OperationalError) and _LOCKED.search(str(error))):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_database_away(error: BaseException | None) -> bool:
    """True if an error, or what caused it, is that of a PostgreSQL that ended, is not reached, or is no primary."""
    while error is not None:
        if type(error).__module__.startswith("psycopg"):
            state = getattr(error, "sqlstate", None)
            if state.startswith(POSTGRESQL_AWAY) if state else type(error).__name__ == "OperationalError":
                return True
        error = error.__cause__ or error.__context__
    return False


def response_for(request: HttpRequest, error: WeirError) -> HttpResponse:
    """The HTTP response for an error: JSON or a page."""
    status = http_status(error)
    if wants_json(request):
        response: HttpResponse = JsonResponse(error.as_dict(), status=status)
    else:
        context = {
            "status": status, "title": HTTPStatus(status).phrase, "code": error.code, "message": error.message,
            "remedy": error.remedy, "facts": error.facts}
        # Without the request: no session, user or database is asked for, because they may be what failed.
        text = select_template([f"{status}.html", "error.html"]).render(context)
        response = HttpResponse(text, status=status)
    if "retry_after_s" in error.facts:
        response["Retry-After"] = str(error.facts["retry_after_s"])
    return response


def wants_json(request: HttpRequest) -> bool:
    """True if the client is a program rather than a person at a browser."""
    return request.path.startswith(JSON_PATHS) or request.headers.get("accept", "").startswith("application/json")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler400."""
    return response_for(request, as_weir_error(exception))


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler403."""
    return response_for(request, as_weir_error(exception))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler404."""
    return response_for(request, as_weir_error(Http404()))


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler500."""
    error = sys.exc_info()[1]  # what middleware raised, such as a session that could not be stored
    return response_for(request, as_weir_error(error if isinstance(error, Exception) else Exception()))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without its token: most often a page that was open for very long."""
    return response_for(request, PermissionDenied(
        "The form's protection against forgery did not fit.", remedy="Reload the page and send the form again.",
        reason=reason))
