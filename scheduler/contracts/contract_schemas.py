"""The JSON Schemas of the contracts, made from their values: `./weir docs` writes them into docs/made/contracts.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter

from scheduler.model.plan import Plan

from .copy_reports import COPY_REPORTS
from .desired import DESIRED_STATES, WANTED_FRAGMENTS
from .driver_pages import DRIVER_PAGE_ORDERS, DRIVER_PAGES
from .logs import LOG_ANSWERS, LOG_ORDERS
from .looks import LOOK_ORDERS, LOOK_STATES
from .qos import INTERVALS, QOS_REPORTS, QOS_SETUPS, QOS_WISHES
from .reports import NODE_REPORTS
from .savepoints import RESTORE_POINTS, SAVEPOINTS
from .trials import TRIAL_ORDERS, TRIAL_PROGRESS, TRIAL_RESULTS

CONTRACTS: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "Desired state of a node": (
        DESIRED_STATES.schema,
        "`weir:desired:<node>` in the broker, `nodes/<node>/told/desired.json` in the data folder."),
    "A fragment that a slot has started": (
        WANTED_FRAGMENTS.schema, "`nodes/<node>/slot-<n>/<fragment>.json` and `checkpoints/<fragment>.json`."),
    "Report of a node": (NODE_REPORTS.schema, "`weir:observed:<node>` in the broker, for 15 s."),
    "What a fragment leaves": (SAVEPOINTS.schema, "`checkpoints/<fragment>.ended`."),
    "What a fragment begins with": (RESTORE_POINTS.schema, "`checkpoints/<fragment>.begun`."),
    "Copy of a query's state": (COPY_REPORTS.schema, "`weir:copies:<fragment>` in the broker, by node."),
    "Set-up of a node's latency manager and reporter": (
        QOS_SETUPS.schema, "`weir:qos:<node>` in the broker, `nodes/<node>/qos.json` in the data folder."),
    "What a reporter tells a manager": (QOS_REPORTS.schema, "`weir:qos:<node>:reports` in the broker, for a minute."),
    "What a manager wishes": (QOS_WISHES.schema, "`weir:qos:<node>:wishes` in the broker, for ten minutes."),
    "Intervals that managers chose": (INTERVALS.schema, "`nodes/<node>/told/intervals.json` in the data folder."),
    "Order of a trial": (TRIAL_ORDERS.schema, "`weir:trial:<id>:order` in the broker, for ten minutes."),
    "Progress of a trial": (TRIAL_PROGRESS.schema, "`weir:trial:<id>:progress` in the broker, while it runs."),
    "Result of a trial": (TRIAL_RESULTS.schema, "`weir:trial:<id>:result` in the broker, for a day."),
    "Order of a look": (LOOK_ORDERS.schema, "`order` of `weir:look:<id>` in the broker, for a minute."),
    "State of a look": (LOOK_STATES.schema, "`state` of `weir:look:<id>` in the broker, for a minute."),
    "Order of lines of a log": (LOG_ORDERS.schema, "`weir:logs:<node>` in the broker, for ten seconds."),
    "Lines of a log": (LOG_ANSWERS.schema, "`weir:log:<order>` in the broker, for ten seconds."),
    "Order of a driver's page": (
        DRIVER_PAGE_ORDERS.schema, "`weir:driver-pages:<node>` in the broker, for ten seconds."),
    "A driver's page": (DRIVER_PAGES.schema, "`weir:driver-page:<order>` in the broker, for ten seconds."),
    "Plan": (  # frozen: its digest is over all of it, so a field that is not known is refused
        TypeAdapter(Plan).json_schema, "Rows of plans in the database, digest included."),
}


def described() -> str:
    """A page with the schemas, each with where its documents are."""
    parts = [
        f"## {title}\n\n{where}\n\n```json\n{json.dumps(schema(), indent=1, sort_keys=True)}\n```"
        for title, (schema, where) in CONTRACTS.items()]
    return "\n\n".join(["# Contracts as JSON Schemas", *parts])


if __name__ == "__main__":
    print(described())
