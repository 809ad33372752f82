"""Numbers, states and moments as pages show them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from dashboard.approvals.lifecycle import LIFECYCLE as PROPOSALS
from dashboard.catalog.lifecycle import LIFECYCLE as DATAFLOWS
from dashboard.pages.event_table import event_table
from dashboard.pages.templatetags import weir
from dashboard.plans.models import PlanRecord


@pytest.mark.parametrize(("value", "shown"), [
    (None, "–"), ("", "–"), (0, "0/s"), (0.04, "0.0/s"), (3.14, "3.1/s"), (40.4, "40/s"), (1234, "1.2k/s"),
    (56789, "57k/s"), (2_500_000, "2.5M/s"),
])
def test_rates(value: float | None, shown: str) -> None:
    assert weir.rate(value) == shown


@pytest.mark.parametrize(("value", "shown"), [
    (None, "–"), (0.4, "<1 ms"), (33.4, "33 ms"), (1500, "1.5 s"), (120_000, "2 min")])
def test_latencies(value: float | None, shown: str) -> None:
    assert weir.latency(value) == shown


def test_commands_in_a_sentence_are_set_as_code_and_all_else_is_escaped() -> None:
    assert weir.code("Start it: `./weir agent --node <n1>`, or <wait>.") == (
        "Start it: <code>./weir agent --node &lt;n1&gt;</code>, or &lt;wait&gt;.")
    assert (weir.code(None), weir.code("One ` alone."), weir.code("`all`")) == ("", "One ` alone.", "<code>all</code>")


@pytest.mark.parametrize(("value", "shown"), [(None, "–"), (640.2, "640 MB"), (2048, "2.0 GB")])
def test_memory(value: float | None, shown: str) -> None:
    assert weir.memory(value) == shown


@pytest.mark.parametrize(("value", "shown"), [
    (None, "–"), (0, "0%"), (0.000004, "<0.01%"), (0.00142, "0.14%"), (0.02, "2%"), (0.0312, "3.1%"), (0.0996, "10%"),
    (0.834, "83%")])
def test_shares_of_a_slot(value: float | None, shown: str) -> None:
    assert weir.share(value) == shown


def test_who_holds_a_slot_is_told_without_the_id() -> None:
    held = "Slot n1/1 is reserved for measuring pi_viete (ac165431-5910-45e5-afb7-db753206567d)."
    assert weir.without_ids(held) == "Slot n1/1 is reserved for measuring pi_viete."
    assert weir.without_ids("measuring pi_viete (again)") == "measuring pi_viete (again)"
    assert weir.without_ids(None) == ""


def test_a_config_is_told_as_it_is_set() -> None:
    assert weir.config('{"fields":null,"schema":"urban"}') == weir.config({"schema": "urban", "fields": None})
    assert weir.config({"name": "π", "least": 0}) == '{"name": "π", "least": 0}'


def test_moments_and_decimals_of_events_stand_without_quotes() -> None:
    values = {"at": datetime(2026, 5, 1, 14, tzinfo=timezone(timedelta(hours=2))), "day": date(2026, 5, 1),
              "price": Decimal("1.50"), "name": "a", "list": ["b"], "_time": 1000}
    (row,) = event_table([values])["rows"]
    assert [weir.compact(value) for value in row] == [
        "2026-05-01 12:00:00", "2026-05-01", "1.50", "a", '["b"]', "00:00:01.000"]


def test_counts_are_parted_by_thousands() -> None:
    assert weir.count(1234567) == "1\u202f234\u202f567"


@pytest.mark.parametrize("status", sorted({*DATAFLOWS.states, *PROPOSALS.states}))
def test_every_state_has_a_chip_in_words(status: str) -> None:
    chip = weir.chip(status)
    assert f'data-status="{status}"' in chip
    assert "_" not in chip.split(">")[1]


def test_a_chip_escapes_what_it_is_given() -> None:
    assert "<b>" not in weir.chip("<b>")


def test_a_moment_is_machine_readable() -> None:
    html = weir.when(datetime(2026, 3, 1, 12, 0, tzinfo=UTC))
    assert 'datetime="2026-03-01T12:00:00+00:00"' in html
    assert "01 Mar 2026" in html


def test_the_water_stands_higher_before_the_weir() -> None:
    with_sharing, without = weir.weir_paths(10, 20), weir.weir_paths(20, 20)
    assert with_sharing["up"] == without["up"]
    assert with_sharing["down"] != without["down"]
    assert weir.weir_paths(0, 0)["line"].startswith("M0 80.0H190")


@pytest.mark.parametrize(("kind", "options", "shown"), [
    ("set", {"task": "work", "alternate": "few"}, "Switch"),
    ("set", {"task": "work", "policy": None}, "Set a policy of"),
    ("set", {"real_time": {"q": True}}, "Set the batches of"), ("pause", {}, "Pause")])
def test_a_plan_that_sets_something_is_titled_by_what_it_sets(
    kind: str, options: dict[str, object], shown: str
) -> None:
    assert weir.plan_verb(PlanRecord(kind=kind, options=options)) == shown
