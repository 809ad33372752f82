"""One source: every number and every verdict that stands on two pages is the same there, also while things go wrong."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.test import Client

from dashboard import jobs
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.diagnosis.health import verdict_of
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.selectors import live_dataflow, live_estate
from dashboard.pages.templatetags import weir
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.reports import Reports
from tests.dashboard.alerting import alert_of
from tests.dashboard.building import World, document, running
from tests.dashboard.test_verdict import late
from tests.pages.conftest import ClientOf
from tests.pages.markup import Element, Markup, Scope
from workers.engine.observed import Flows, StreamFlow, TaskFlow

AT_MS = 1_800_000_000_000
FEW, MANY = 5, 200
# Numbers that are told otherwise if they are rounded twice, or not in the same place.
RATES = (0.04, 9.96, 1234.5, 99.96, 0.0, 12.34)
LATENCIES_MS = (0.4, 999.6, 59_960.0, 12.5, 340.0)
FORMATS: dict[str, Callable[[Any], str]] = {
    name: getattr(weir, name) for name in ("rate", "count", "latency", "percent", "share", "memory", "big")} | {
    "text": lambda value: weir.NONE if value in (None, "") else str(value)}
LABELLED = {
    "streams": {"Rate": ("rate_per_s", "rate"), "In the channel, p50": ("channel_p50_ms", "latency"),
                "In the channel, p99": ("channel_p99_ms", "latency"),
                "Wait for a batch, p50": ("wait_p50_ms", "latency")}}
Fact = tuple[str, str, str]  # of what kind of thing, which one, and what of it


@dataclass
class Told:
    """What pages tell: by fact what is shown, with the pages that show it; and figures beside their source."""

    facts: dict[Fact, dict[str, list[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    figures: list[tuple[str, str, str, str]] = field(default_factory=list)  # page, path, shown, what its source says

    def take(self, page: str, facts: Iterable[tuple[Fact, str]]) -> None:
        """Note what a page tells."""
        for fact, shown in facts:
            self.facts[fact][shown].append(page)

    @property
    def contradictions(self) -> dict[Fact, dict[str, list[str]]]:
        """Facts that are told in two ways."""
        return {fact: {shown: pages[:3] for shown, pages in by_shown.items()}
                for fact, by_shown in self.facts.items() if len(by_shown) > 1}


class Walk:
    """A walk through the pages, as the administrator."""

    def __init__(self, world: World, client: Client) -> None:
        self.client, self.viewer = client, viewer_of(world.root)
        self.estate = load_estate()
        self.document = live_estate(self.viewer)
        self.dataflows = {key: live_dataflow(self.viewer, key) for key in self.document["dataflows"]}
        self.told = Told()

    def addresses(self) -> Iterator[str]:
        """Every page of what runs, and all that tell of it."""
        yield from ("/", "/wall/", "/problems/", "/dataflows/", "/estate/slots", "/proposals/", "/estate/nodes/n1",
                    "/alerts/", "/fragmentation/", "/estate/deployment/")
        pages = -(-len(self.dataflows) // 25)
        yield from (f"/dataflows/?page={number}" for number in range(2, pages + 1))
        for key, dataflow in self.dataflows.items():
            yield from (f"/dataflows/{key}/", f"/dataflows/{key}/tasks/", f"/bills/{key}/",
                        f"/dataflows/{key}/schedule/outcome")
            yield from (f"/dataflows/{key}/tasks/{task}" for task in dataflow["tasks"])
        yield from (f"/estate/tasks/{task}" for task in self.estate.tasks)
        yield from (f"/estate/streams/{parent}/{task.id}" for task in self.estate.tasks.values()
                    for parent in task.parents)
        yield from (f"/estate/slots/{slot.name}" for slot in self.estate.slots)
        yield from (f"/estate/queries/{bundle.id}" for fragment in self.estate.fragments.values()
                    for bundle in fragment.queries)

    def go(self) -> Told:
        """Look at all of them."""
        for address in self.addresses():
            response = self.client.get(address)
            assert response.status_code == 200, address
            page = Markup(response.text)
            self.told.figures += self._figures(address, page)
            self.told.take(address, [*self._verdicts(address, page), *_states(address, page), *_findings(page)])
        return self.told

    @property
    def wrong_figures(self) -> list[str]:
        """Figures that are not as their source says, in a line each; spaces are read as markup has them."""
        return ["{}: {} is {}, not {}".format(*figure) for figure in self.told.figures
                if figure[2] != " ".join(figure[3].split())]

    def _figures(self, address: str, page: Markup) -> Iterator[tuple[str, str, str, str]]:
        """Figures that stand beside their place in a live document, and those that their label names."""
        matched = re.match(r"/dataflows/([0-9a-f-]{36})/", address)
        topic = f"dataflow:{matched[1]}" if matched else next(iter(page.every("body"))).attributes.get("data-live")
        source = self.document if topic == "estate" else self.dataflows.get((topic or "").partition(":")[2])
        for element in page.having("data-live"):
            path, shape = element.attributes["data-live"] or "", element.attributes.get("data-format", "text")
            if element.tag == "body":
                continue
            value: Any = source
            for name in path.split("|"):
                value = value[name]
            shown = str(float(element.attributes["value"] or 0)) if shape == "meter" else element.text
            yield address, path, shown, str(float(value or 0)) if shape == "meter" else FORMATS[shape](value)
        if stream := re.match(r"/estate/streams/(\w+)/(\w+)", address):
            stream_figures = next(
                dataflow["streams"][f"{names[stream[1]]}>{names[stream[2]]}"] for dataflow in self.dataflows.values()
                if {stream[1], stream[2]} <= (
                    names := {task["running"]: name for name, task in dataflow["tasks"].items()}).keys())
            for label, shown in _by_label(page):
                if label in LABELLED["streams"]:
                    name, shape = LABELLED["streams"][label]
                    yield address, label, shown, FORMATS[shape](stream_figures[name])

    def _verdicts(self, address: str, page: Markup) -> Iterator[tuple[Fact, str]]:
        yield from ((("estate", "", "verdict"), value) for value in page.values("data-health"))
        if address in ("/", "/problems/", "/wall/"):
            words = str(verdict_of(self.document))
            yield ("estate", "", "words of the verdict"), words if words in page.every("main")[0].text else address
        if address == "/":
            rows = {key: row for row in page.every("tr") if (key := (row.attributes.get("id") or "")[4:])}
            yield from ((("dataflow", key, "late limit"), _late_limit(row.values("data-limit"))) for key, row in
                        rows.items())
        if matched := re.fullmatch(r"/dataflows/([0-9a-f-]{36})/", address):
            shown = _within(page, "latency-state")
            yield ("dataflow", matched[1], "late limit"), _late_limit(shown.statuses)


def _late_limit(states: Iterable[str]) -> str:
    return " ".join(state for state in states if state in ("missed", "impossible"))


def _within(page: Scope, name: str) -> Element:
    return page.one("id", name)


def _by_label(page: Markup) -> Iterator[tuple[str, str]]:
    """Terms with their descriptions."""
    names, values = page.every("dt"), page.every("dd")
    yield from ((name.text, value.text) for name, value in zip(names, values, strict=True))


def _states(address: str, page: Markup) -> Iterator[tuple[Fact, str]]:
    """States of dataflows, slots, queries and running tasks."""
    if matched := re.fullmatch(r"/(?:dataflows|bills)/([0-9a-f-]{36})/(?:schedule/outcome)?", address):
        yield ("dataflow", matched[1], "state"), _within(page, "head").statuses[0]
    if matched := re.match(r"/estate/(slots|queries)/([\w/-]+)", address):
        kind, place = {"slots": ("slot", "slot-head"), "queries": ("query", "query-head")}[matched[1]]
        yield (kind, matched[2], "state"), _within(page, place).statuses[0]
    if matched := re.match(r"/estate/tasks/(\w+)", address):
        yield ("task", matched[1], "state"), _within(page, "task-state").statuses[0]
    if re.match(r"/dataflows/[0-9a-f-]{36}/tasks/.", address):
        running_task = next(link for link in page.values("href") if link.startswith("/estate/tasks/"))
        yield ("task", running_task.rpartition("/")[2], "state"), page.every("header")[0].statuses[0]
    for row in page.every("tr", "article", "li"):
        links = [link for link in row.values("href") if link.startswith(("/dataflows/", "/estate/"))]
        href = links[0] if links and row.statuses and not row.having("data-finding") else ""
        if row.having("data-past") or "data-finding" in row.attributes or "data-problem" in row.attributes:
            continue
        if matched := re.fullmatch(r"/dataflows/([0-9a-f-]{36})/", href):
            if row.tag == "tr":
                yield ("dataflow", matched[1], "state"), row.statuses[0]
        elif matched := re.fullmatch(r"/estate/(slots|queries)/([\w/-]+)", href):
            yield ({"slots": "slot", "queries": "query"}[matched[1]], matched[2], "state"), row.statuses[0]
    for name, cell in page.by("data-slot").items():
        if cell.attributes.get("data-use", "silent") != "silent":
            yield ("slot", name, "state"), next(iter(cell.every("summary")[0].statuses), "running")


def _findings(page: Markup) -> Iterator[tuple[Fact, str]]:
    """How bad each finding is: by what it says of itself, or by the look of its note."""
    for element in [*page.having("data-finding"), *page.having("data-problem")]:
        key = element.attributes.get("data-finding") or element.attributes["data-problem"] or ""
        look = re.search(r"note-(bad|warn|note)", element.attributes.get("class") or "")
        severity = element.attributes.get("data-severity") or (look[1] if look else "")
        yield ("finding", key, "severity"), severity
        if key.startswith("slot/") and element.statuses:
            yield ("slot", key.removeprefix("slot/"), "state"), element.statuses[0]


def observed(
    monkeypatch: pytest.MonkeyPatch, *, killed: str = "", returning: str = "", failing: str = "", full: str = ""
) -> None:
    """Node n1 reports figures that are awkward to round; a driver has ended, another starts again, a query fails, a
    channel is full."""
    estate = load_estate()
    slots: dict[str, dict[str, Any]] = {
        slot.name.rpartition("/")[2]: {
            "state": "running", "cpu": 0.004 + 0.3 * number, "memory_mb": 812.5, "since_ms": AT_MS - 60_000,
            "restarts": number, "fragments": {}}
        for number, slot in enumerate(estate.slots)}
    for fragment in estate.fragments.values():
        for bundle in fragment.queries:
            report: dict[str, Any] = {
                "state": "running", "batch": 7, "batch_ms": 480, "trigger_ms": 500, "rate_per_s": 9.96, "cpu": 0.0996,
                "memory": 0.02, "batches": 3, "since_ms": AT_MS - 50_000, "active": fragment.active}
            if bundle.id == failing:
                report |= {"state": "backoff", "error": "no such column", "failures": 2, "batch": None}
            if bundle.id == full:
                report |= {"throttled_by": f"{fragment.id}.0"}
            slots[bundle.slot.rpartition("/")[2]]["fragments"][bundle.id] = report
    if killed:
        slots[killed.rpartition("/")[2]] |= {"state": "backoff", "restarts": 2, "error": "Killed.", "fragments": {}}
    if returning:
        slots[returning.rpartition("/")[2]] |= {"state": "starting", "restarts": 1, "fragments": {}}
    tasks = sorted(estate.tasks)
    flows = Flows(
        tasks={task: TaskFlow(RATES[number % len(RATES)], 1000 * number, LATENCIES_MS[number % len(LATENCIES_MS)],
                              2 * LATENCIES_MS[number % len(LATENCIES_MS)], late=number % 3)
               for number, task in enumerate(tasks)},
        streams={(parent, task): StreamFlow(RATES[number % len(RATES)], 0.6, 12.5, 499.5, 999.6)
                 for number, task in enumerate(tasks) for parent in estate.tasks[task].parents})
    reports = Reports(Reports.of({"n1": {"at_ms": AT_MS, "cores": 2, "memory_mb": 8192, "slots": slots}}),
                      ages_ms={"n1": 0})
    reading = jobs.LiveReading(reports=reports, flows=flows, measured=True)
    monkeypatch.setattr(jobs, "read_live", lambda *_: reading)
    monkeypatch.setattr(jobs, "event_bytes", lambda channels: dict.fromkeys(channels, 50.0))
    monkeypatch.setattr(jobs, "waiting_events", lambda *_: {})


def filled(world: World, count: int) -> list[DataflowRecord]:
    """So many dataflows of two teams, which share where they begin alike."""
    return [
        running(world.carla, world.city, document(f"flow-{number}", window=5 + number), world.ana) if number % 2 == 0
        else running(world.mo, world.mobility, document(f"flow-{number}", window=5 + number), world.ben, world.ana)
        for number in range(count)]


def things_go_wrong(world: World, records: list[DataflowRecord], monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver was killed, another starts again, a query fails, a channel is full; limits are missed, for long, for a
    moment, for ever; an alert fires."""
    fragments = list(load_estate().fragments.values())
    dead = fragments[-1].queries[0].slot
    alive = [bundle for fragment in fragments for bundle in fragment.queries if bundle.slot != dead]
    failing, full = (alive[-1] if len(alive) > 1 else None), (alive[0] if alive else None)
    busy = {dead, *(bundle.slot for bundle in (failing, full) if bundle)}
    returning = next((slot.name for slot in load_estate().slots if slot.name not in busy), "")
    observed(monkeypatch, killed=dead, returning=returning, failing=failing.id if failing else "",
             full=full.id if full else "")
    late(records[0], "missed")
    late(records[1], "missed", for_s=0.1)
    late(records[2], "impossible")
    alert_of(world.city, kind="drift", dataflow=records[4], severity="critical")


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
@pytest.mark.parametrize(  # what is well is told by the pages on which something else is wrong, too
    "is_well", [pytest.param(True, marks=pytest.mark.long), False], ids=["well", "wrong"])
def test_what_two_pages_tell_is_the_same(
    world: World, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch, is_well: bool, count: int
) -> None:
    records = filled(world, count)
    if is_well:
        observed(monkeypatch)
    else:
        things_go_wrong(world, records, monkeypatch)

    walk = Walk(world, client_of("root"))
    walked = walk.go()

    assert not walk.wrong_figures, "\n".join(walk.wrong_figures)
    assert not walked.contradictions, "\n".join(map(str, walked.contradictions.items()))
    assert walked.facts["estate", "", "verdict"].keys() == {"well" if is_well else "bad"}
    shared = [fact for fact, shown in walked.facts.items() if len(next(iter(shown.values()))) > 1]
    kinds = {kind for kind, _, _ in shared}
    assert {"estate", "dataflow", "slot", "query", "task"} <= kinds and len(walked.figures) > 10 * count
    if not is_well:
        assert "finding" in kinds
        concerned = {key: row for key, row in walk.document["health"].items() if row["severity"] != "note"}
        for key, row in concerned.items():
            pages = {page for shown in walked.facts["finding", key, "severity"].values() for page in shown}
            assert {"/", "/problems/"} <= pages
            links = {f"/dataflows/{user['id']}/" for user in row["dataflows"]}
            assert links <= pages or row["part"] == "query", "its own page says so, too; of a query with more detail"


def test_a_finding_leads_to_its_cause_from_every_list(
    world: World, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    things_go_wrong(world, filled(world, FEW), monkeypatch)
    client = client_of("root")
    slots = [slot.name for slot in load_estate().slots]

    def leads(path: str) -> dict[str, str]:
        """The first link of each finding of a page."""
        return {element.attributes["data-finding"] or "": (element.values("href") or [""])[0]
                for element in Markup(client.get(path).text).having("data-finding")}

    on_estate = leads("/")
    assert {key.partition("/")[0] for key in on_estate} >= {"slot", "channel", "limit"}, on_estate
    for key, link in on_estate.items():
        part, _, name = key.partition("/")
        assert part != "alert" or link == f"/alerts/#alert-{name}"
        assert part in ("worker", "broker") or client.get(link).status_code == 200, key
    for path in ("/estate/nodes/n1", *(f"/estate/slots/{name}" for name in slots)):
        assert (on_page := leads(path)).items() <= on_estate.items() and on_page, path


def test_the_documents_tell_the_same_of_what_they_share(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = filled(world, FEW)
    things_go_wrong(world, records, monkeypatch)
    viewer = viewer_of(world.root)
    estate, by_task = live_estate(viewer), {}
    for key, row in estate["dataflows"].items():
        live = live_dataflow(viewer, key)
        assert live["totals"] == {name: row[name] for name in live["totals"]}
        for task in live["tasks"].values():
            figures = {name: value for name, value in task.items() if name not in ("shared_with", "error")}
            assert by_task.setdefault(task["running"], figures) == figures
        assert live["health"] == {
            name: row for name, row in estate["health"].items()
            if key in {user["id"] for user in row["dataflows"]}}
