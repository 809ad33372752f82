"""docs/api.md against the API: every route and every error code that a caller can get stands there."""

from __future__ import annotations

import re

import dashboard.config.urls  # noqa: F401 - all of the site, with its errors
from dashboard.api.routes import api
from dashboard.config.environment import ROOT
from scheduler.model.errors import WeirError

DOCS = (ROOT / "docs" / "api.md").read_text()
# Of the system itself, of commands and of pages that have no route: no answer of the API holds them.
NEVER_ANSWERED = {
    "error", "invalid_config", "invalid_setting", "invalid_trial", "last_admin", "mixed_sweep", "node_in_use",
    "node_reports", "secret_away", "trial_failed",
}


def codes(kind: type[WeirError] = WeirError) -> set[str]:
    """The codes of an error and of all its kinds that the site has loaded."""
    ours = kind.__module__.split(".")[0] in ("dashboard", "scheduler", "workers")
    return ({kind.code} if ours else set()).union(*(codes(one) for one in kind.__subclasses__()))


def documented_routes() -> set[tuple[str, str]]:
    """Method and path of each route named, shortened ones (``…/pause``) in full."""
    found = set()
    for row in re.findall(r"^\| (`(?:GET|POST|PUT|DELETE)\b.*?) \|", DOCS, re.MULTILINE):
        methods, before, paired = [], "", False
        for word in re.findall(r"`([^`]*)`", row):
            named = re.match(r"(?:(GET|POST|PUT|DELETE)\b ?)?(/api\S*|…/\S+)?", word)
            if named[1]:
                methods, paired = ([] if paired else methods) + [named[1]], False
            path = (named[2] or "").partition("?")[0]
            if not path:
                continue
            before = path if path.startswith("/") else f"{before.rpartition('/')[0]}/{path[2:]}"
            found |= {(method, before) for method in methods}
            paired = True
    return found


def test_every_route_is_documented_and_every_documented_route_is_there() -> None:
    there = set()
    for path, operations in api.get_openapi_schema(path_prefix="/api/")["paths"].items():
        short = re.sub(r"\{(\w+?)(?:_id)?\}", lambda name: "{task}" if name[1] == "task" else f"{{{name[1]}}}", path)
        short = re.sub(r"\{(dataflow|proposal|profile|sweep|token)\}", "{id}", short)
        there |= {(method.upper(), short) for method in operations}
    # One row stands for pause, resume and cancel of a sweep.
    steering = {("POST", f"/api/sweeps/{{id}}/{way}") for way in ("pause", "resume", "cancel")}
    assert documented_routes() == there - {("POST", "/api/sweeps/{id}/{way}")} | steering


def test_every_code_is_documented() -> None:
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| \d{3} \|.*$", DOCS, re.MULTILINE))))
    assert named - {"Retry"} == codes() - NEVER_ANSWERED
