"""The pages of bills: what they show to whom, files, periods, and bad input."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from dashboard.bills.exports import exact
from dashboard.bills.models import UsageHour
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.services import choose_latency
from dashboard.pages.billing import money
from dashboard.pages.templatetags.bills import core_hours, gib_hours, price, traffic
from scheduler.model.latency_limits import LatencyLimit
from tests.cases import each
from tests.dashboard.building import World, document, running
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup, assert_sound


def charge(
    record: DataflowRecord | None, fingerprint: str, pays: int, alone: int, *, users: int = 1, hours_ago: int = 0
) -> None:
    """One hour's part of a dataflow in a running task."""
    hour = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours_ago)
    UsageHour.objects.create(
        hour=hour, dataflow=record, fingerprint=fingerprint, cpu_us=pays, memory_mb_s=100, traffic_bytes=1_500,
        cost_nanos=pays, alone_nanos=alone, needed_ms=1_000, user_ms=1_000 * users)


@pytest.fixture
def charged(world: World) -> dict[str, DataflowRecord]:
    """Two dataflows of two teams that share two tasks, and a private one; each was charged for every task."""
    records = {
        "traffic": running(world.carla, world.city, document("traffic"), world.ana),
        "jams": running(world.mo, world.mobility, document("jams", window=20), world.ben, world.ana),
        "hush": running(world.carla, world.city, document("hush", visibility="private", window=7), world.ana),
    }
    users = {}
    for record in records.values():
        for need in record.needs.all():
            users.setdefault(need.fingerprint, []).append(record)
    for fingerprint, users_of_task in users.items():
        for record in users_of_task:
            charge(record, fingerprint, 333_333_333 // len(users_of_task), 333_333_333, users=len(users_of_task))
    charge(None, "", 77_000_000_000, 77_000_000_000)
    return records


def test_a_team_sees_its_own_bill_and_no_other(world: World, client_of: ClientOf, charged) -> None:
    pages = {name: Markup(client_of(name).get("/bills/").text) for name in ("carla", "mo", "outsider", "root")}
    for name, seen in {
        "carla": {"traffic", "hush"}, "mo": {"jams"}, "outsider": set(), "root": {"traffic", "jams", "hush"},
    }.items():
        assert set(pages[name].values("data-bill")) == {str(charged[team].pk) for team in seen}
        assert ("used-for-nobody" in pages[name].notes) is (name == "root")
    assert "nothing-to-pay" in pages["outsider"].notes


@each("way", ["", "plots.json", "export.csv"])
def test_the_bill_of_another_team_is_not_there(client_of: ClientOf, charged, way: str) -> None:
    absent = "00000000-0000-4000-8000-000000000000"
    for name, of in (("mo", "traffic"), ("mo", "hush"), ("carla", "jams"), ("outsider", "traffic")):
        client = client_of(name)
        hidden = client.get(f"/bills/{charged[of].pk}/{way}", headers={"accept": "application/json"})
        missing = client.get(f"/bills/{absent}/{way}", headers={"accept": "application/json"})
        assert (hidden.status_code, hidden.json()) == (404, missing.json())
    assert client_of("root").get(f"/bills/{charged['hush'].pk}/{way}").status_code == 200


def test_nothing_of_a_private_dataflow_is_in_any_number_of_others(world: World, client_of: ClientOf, charged) -> None:
    addresses = ["/bills/", "/bills/export.csv", "/bills/plots.json", f"/bills/{charged['jams'].pk}/",
                 f"/bills/{charged['jams'].pk}/export.csv", "/api/bills", f"/api/bills/{charged['jams'].pk}"]
    client = client_of("mo")
    before = [client.get(address).text for address in addresses]
    for row in list(charged["hush"].usage.all()):
        UsageHour.objects.filter(pk=row.pk).update(cost_nanos=10**12, alone_nanos=10**12)
    other = running(world.carla, world.city, document("more", visibility="private", window=9), world.ana)
    charge(other, other.needs.first().fingerprint, 10**12, 10**12)
    after = [client.get(address).text for address in addresses]
    strip = lambda text: re.sub(r'<time.*?</time>|csrf\w*" value="\w+"', "", text)  # noqa: E731
    assert [strip(text) for text in before] == [strip(text) for text in after]


def test_a_share_and_who_shares_it(client_of: ClientOf, charged) -> None:
    def shares(name: str) -> list[tuple[str, bool]]:
        page = Markup(client_of("carla").get(f"/bills/{charged[name].pk}/").text)
        other = f"/dataflows/{charged['jams'].pk}/"
        return sorted((task.field("share"), task.links(other)) for task in page.having("data-task"))

    assert shares("traffic") == [("1 of 1", False), ("1 of 1", False), ("1 of 2", True), ("1 of 2", True)]
    assert shares("hush") == [("1 of 1", False)] * 4


def test_rows_add_up_to_what_stands_below_them(client_of: ClientOf, charged) -> None:
    page = Markup(client_of("carla").get(f"/bills/{charged['traffic'].pk}/").text)
    lines = [[round(row.number(name) * 10_000) for name in ("pays", "alone", "saved")]
             for row in (*page.having("data-task"), page.one("data-sum"))]
    assert len(lines) == 5
    assert [sum(column) for column in zip(*lines[:-1], strict=True)] == lines[-1]
    assert all(pays + saved == alone for pays, alone, saved in lines)


def test_what_is_for_latency_is_told_beside_what_is_paid_with_the_limit(
    world: World, client_of: ClientOf, charged
) -> None:
    record, client = charged["traffic"], client_of("carla")
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(0.3),))
    record.usage.update(
        batches_cpu_us=120_000_000, batches_nanos=160_000_000, limit_cpu_us=90_000_000, limit_nanos=125_000_000,
        limit_known_ms=1_000)
    first = record.usage.first()
    UsageHour.objects.filter(pk=first.pk).update(limit_known_ms=0, limit_nanos=0, limit_cpu_us=0)

    page = client.get(f"/bills/{record.pk}/").text
    rows = Markup(page).having("data-task")
    assert sorted(row.field("for_latency") for row in rows) == ["", "0.1250", "0.1250", "0.1250"]
    assert Markup(page).one("data-sum").field("for_latency") == "0.3750"
    assert "mean of at most 300 ms" in page and "measured for 75% of the time" in page
    assert "(38%)" in page and "not measured" in page

    listing = client.get("/bills/").text
    assert "mean of at most 300 ms" in listing
    by_dataflow = {row.attributes["data-bill"]: row.field("for_latency") for row in Markup(listing).having("data-bill")}
    assert by_dataflow == {str(record.pk): "0.3750", str(charged["hush"].pk): ""}

    answer = client.get(f"/api/bills/{record.pk}").json()
    assert answer["latency_limit"] == "mean of at most 300 ms"
    total = answer["total"]
    assert (total["latency_pays"], total["batches_pays"], total["latency_known"]) == (
        "0.375000000", "0.640000000", 0.75)
    assert total["latency_core_hours"] == pytest.approx(0.075)
    assert [row["latency_pays"] for row in answer["tasks"]].count(None) == 1
    dataflows = {row["name"]: row for row in client.get("/api/bills").json()["dataflows"]}
    assert dataflows["hush"]["latency_pays"] is dataflows["hush"]["batches_core_hours"] is None
    assert dataflows["hush"]["latency_known"] == 0.0
    rows = {row["dataflow"]: row for row in csv.DictReader(io.StringIO(client.get("/bills/export.csv").text))}
    assert (rows["traffic"]["latency_pays"], rows["hush"]["latency_pays"]) == ("0.375000000", "")
    assert rows["traffic"]["latency_limit"] == "mean of at most 300 ms"
    costs = [client_of(name).get(f"/api/dataflows/{record.pk}/cost").json() for name in ("carla", "mo")]
    assert [cost["latency_per_hour"] for cost in costs] == [1_350.0, None], "0.375 in the second for which it is known"
    for address in ("/bills/", f"/bills/{record.pk}/", f"/dataflows/{record.pk}/"):
        assert_sound(client.get(address), address)


def test_of_hours_from_before_it_was_measured_it_is_said_so(client_of: ClientOf, charged) -> None:
    for address in ("/bills/", f"/bills/{charged['traffic'].pk}/"):
        page = client_of("carla").get(address).text
        assert "not measured then" in page
        assert Markup(page).one("data-sum").field("for_latency") == ""


def test_bills_link_to_dataflows_and_back(client_of: ClientOf, charged) -> None:
    record = charged["traffic"]
    for name, leads in (("carla", True), ("mo", False)):
        page = Markup(client_of(name).get(f"/dataflows/{record.pk}/").text)
        assert page.links(f"/bills/{record.pk}/") is leads
    assert Markup(client_of("carla").get(f"/bills/{record.pk}/").text).links(f"/dataflows/{record.pk}/")


def test_a_file_holds_exact_amounts_and_no_formula(world: World, client_of: ClientOf, charged) -> None:
    DataflowRecord.objects.filter(pk=charged["hush"].pk).update(name="＝HYPERLINK(1)")
    response = client_of("carla").get("/bills/export.csv")
    assert response.headers["Content-Type"].startswith("text/csv")
    assert re.search(r'filename="bills-\d{4}-\d\d-\d\d-\d{4}-\d\d-\d\d.csv"', response.headers["Content-Disposition"])
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert {row["dataflow"] for row in rows} == {"traffic", "'＝HYPERLINK(1)"}
    by_name = {row["dataflow"]: row for row in rows}
    assert by_name["traffic"]["pays"] == exact(2 * (333_333_333 // 2) + 2 * 333_333_333)
    assert by_name["traffic"]["alone"] == exact(4 * 333_333_333)


def test_a_period_holds_what_is_in_it(client_of: ClientOf, charged) -> None:
    client = client_of("carla")
    charge(charged["traffic"], charged["traffic"].needs.first().fingerprint, 5_000_000_000, 5_000_000_000,
           hours_ago=24 * 5)
    day = (timezone.now() - timedelta(days=5)).date()
    week, only = (client.get(f"/api/bills?{query}").json() for query in ("period=7d", f"from={day}&to={day}"))
    assert [row["name"] for row in only["dataflows"]] == ["traffic"]
    assert only["total"]["pays"] == "5.000000000"
    assert float(week["total"]["pays"]) > 5
    assert (only["from"], only["to"]) == (str(day), str(day))


@pytest.mark.parametrize(("query", "parameter"), [
    ("period=year", "period"), ("from=2026-02-30&to=2026-03-01", "from"),
    ("period=custom&from=2026-03-02&to=2026-03-01", "to"), ("from=2020-01-01&to=2026-01-01", "from"),
    ("from=2026-01-01", "to"), ("from=9999-12-31&to=9999-12-31", "from"),
])
def test_a_period_that_cannot_be_is_named(client_of: ClientOf, query: str, parameter: str) -> None:
    client = client_of("carla")
    page = client.get(f"/bills/?{query}")
    assert page.status_code == 400
    error = Markup(page.text).one("data-error").attributes
    assert (error["data-error"], error["data-parameter"]) == ("bad_input", parameter)
    assert_sound(page, query)
    answer = client.get(f"/api/bills?{query}")
    assert answer.status_code == 400 and answer.json()["remedy"]
    assert answer.json()["facts"]["parameter"] == parameter


def test_only_own_teams_can_be_chosen(client_of: ClientOf, charged) -> None:
    assert client_of("carla").get("/bills/?team=mobility").status_code == 404
    assert client_of("dev").get("/bills/?team=mobility").text.count("data-bill=") == 1


def test_charged_pages_are_sound_and_plots_have_what_was_charged(client_of: ClientOf, charged) -> None:
    for name in ("carla", "root"):
        for address in ("/bills/", f"/bills/{charged['traffic'].pk}/"):
            assert_sound(client_of(name).get(address), address)
    charge(charged["traffic"], charged["traffic"].needs.first().fingerprint, 10, 20, hours_ago=3)
    figure = json.loads(client_of("carla").get(f"/bills/{charged['traffic'].pk}/plots.json").text)["cost"]
    paid, alone, latency = figure["data"]
    assert len(paid["x"]) == 4 and paid["y"][1:3] == [0, 0]
    assert sum(alone["y"]) == pytest.approx(4 * 0.333333333 + 20e-9)
    assert latency["y"] == [None, 0, 0, None], "a gap where it was not measured"


def test_money_is_as_fine_as_it_must_be() -> None:
    assert [money(nanos) for nanos in (0, 84_600, 12_345_678, 3_210_987_654, 12_345_678_901, 1_234_000_000_000)] == [
        "0.00", "0.000085", "0.0123", "3.2110", "12.35", "1\u202f234.00"]
    assert [exact(nanos) for nanos in (0, 1, 1_500_000_000, -20)] == [
        "0.000000000", "0.000000001", "1.500000000", "-0.000000020"]


def test_amounts_are_shown_in_the_unit_that_suits_them() -> None:
    assert [core_hours(cpu_us) for cpu_us in (0, 1_500_000, 360_000_000, 9_000_000_000)] == [
        "0.0 s", "1.5 s", "0.100 h", "2.50 h"]
    assert [gib_hours(mb_s) for mb_s in (3_686_400, 36_864)] == ["1.00 GiB·h", "0.010 GiB·h"]
    assert [traffic(count) for count in (0, 999, 1_500, 2_000_000_000, 10**16)] == [
        "0 B", "999 B", "1.5 kB", "2.0 GB", "10000.0 TB"]
    assert [price(value) for value in (0.048, 1.0, 0.000012)] == ["0.048", "1", "0.000012"]


def test_many_dataflows_are_told_a_page_at_a_time_with_the_sum_of_all(world: World, client_of: ClientOf) -> None:
    DataflowRecord.objects.bulk_create(
        DataflowRecord(team=world.city, author=world.carla, name=f"flow {number}", visibility="shared", tasks=1)
        for number in range(120))
    for record in DataflowRecord.objects.all():
        charge(record, "x", 1_000_000_000, 2_000_000_000)
    first, last = (client_of("carla").get(f"/bills/?page={number}").text for number in (1, 3))
    for page, rows in ((Markup(first), 50), (Markup(last), 20)):
        assert len(page.having("data-bill")) == rows
        whole = page.one("data-sum")
        assert [whole.field(name) for name in ("pays", "alone", "dataflows")] == ["120.00", "240.00", "120"]
    assert_sound(client_of("carla").get("/bills/?page=2"), "page 2")
