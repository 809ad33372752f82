"""Spark's own pages of a driver: which the site may ask a node's agent for, and what it is told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from .codec import Codec

# Paths, each with the parameters that it takes. Left out are settings and threads (`environment`, `threadDump`), which
# name paths of the machine, Spark's REST interface (`api`), and all that ends a job or a stage (`kill`).
SHOWN: Mapping[str, frozenset[str]] = MappingProxyType({
    "jobs/": frozenset(), "jobs/job/": frozenset({"id"}),
    "stages/": frozenset(), "stages/stage/": frozenset({"id", "attempt"}),
    "storage/": frozenset(), "storage/rdd/": frozenset({"id"}),
    "SQL/": frozenset(), "SQL/execution/": frozenset({"id"}),
    "StreamingQuery/": frozenset(), "StreamingQuery/statistics/": frozenset({"id"})})
FIRST = "StreamingQuery/"
MOST_BYTES = 1 << 20  # of a page; what is beyond is cut off
_VALUE = re.compile(r"[0-9a-f-]{1,36}", re.ASCII)  # a number, or the id of a run
NO_DRIVER, NO_ANSWER, REFUSED = "no_driver", "no_answer", "refused"


@dataclass(frozen=True, slots=True)
class DriverPageOrder:
    """An order to a node's agent: a page of the driver of a slot, by the slot's index."""

    id: str
    node: str
    slot: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DriverPage:
    """Spark's HTML, as it is; ``is_cut`` where it was longer than may be. ``failure`` says why there is none:
    ``no_driver`` (none runs, or it was started without its pages), ``no_answer``, or ``refused`` (it is no page that is
    shown)."""

    html: str = ""
    is_cut: bool = False
    failure: str = ""


DRIVER_PAGE_ORDERS = Codec(DriverPageOrder)
DRIVER_PAGES = Codec(DriverPage)


def is_shown(path: str, query: Mapping[str, str]) -> bool:
    """True if this is one of the pages that are shown, with no parameter but its own."""
    return path in SHOWN and query.keys() <= SHOWN[path] and all(map(_VALUE.fullmatch, query.values()))
