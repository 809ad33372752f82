"""What one debugs has one page and one history: a query that was moved and moved back is found by any of its
ids."""

from __future__ import annotations

import math

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import move_query, prepare_proposal, roll_back_proposal
from dashboard.history import query_lines
from dashboard.history.history_store import DatabaseHistory
from dashboard.history.models import QueryLine
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_view.chart_marks import marks_of
from dashboard.operations.live_view.estate_history import Range, history_of
from dashboard.teams.permissions import viewer_of
from scheduler.history.series import QUERY, SECOND, Annotation, Series
from scheduler.model.errors import NotFound
from tests.dashboard.building import World, approved, document, enacted, running

NOW_S = int(timezone.now().timestamp())


@pytest.fixture(autouse=True)
def nothing_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    from dashboard import jobs

    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading())


def only_query() -> str:
    [query] = [bundle.id for fragment in load_estate().fragments.values() for bundle in fragment.queries]
    return query


def moved(world: World, record: object, slot: str) -> Proposal:
    proposal = move_query(actor=world.carla, dataflow_id=record.pk, query=only_query(), slot=slot)
    return enacted(approved(prepare_proposal(proposal_id=proposal.pk), world.ana))


def away() -> str:
    [fragment] = load_estate().fragments.values()
    return "n1/1" if fragment.slot == "n1/0" else "n1/0"


def test_a_query_is_found_by_all_the_ids_that_it_had_and_has_one_history(world: World, client: Client) -> None:
    record = running(world.carla, world.city, document("line", visibility="private"), world.ana)
    history, ids, worked = DatabaseHistory(), [only_query()], {}
    moved(world, record, away())
    ids.append(only_query())
    back = moved(world, record, away())
    ids.append(only_query())
    enacted(roll_back_proposal(actor=world.ana, proposal_id=back.pk))
    ids.append(only_query())
    assert len(set(ids)) == len(ids)
    for number, query in enumerate(ids):  # each worked for ten seconds; two, for two of them, at once
        for at_s in range(NOW_S - 50 + 10 * number, NOW_S - 38 + 10 * number):
            worked.setdefault(at_s, {})[Series(QUERY, query, "cpu")] = float(number)
    for at_s, values in sorted(worked.items()):
        history.append(at_s, values)
    history.annotate([Annotation(NOW_S - 45, "fragment_failed", QUERY, ids[0], "It failed.")])
    history.flush()

    viewer = viewer_of(world.carla)
    for query in ids:
        client.force_login(world.carla)
        page = client.get(f"/estate/queries/{query}")
        assert page.status_code == 200 and ids[-1] in page.content.decode()
        past = history_of(viewer, QUERY, query, Range(NOW_S - 60, NOW_S + 20, SECOND))
        shown = dict(zip(past.times_s, past.values["cpu"], strict=True))
        for at_s, values in worked.items():
            assert shown[at_s] == max(values.values()), "the newer one's, while two worked"
        assert all(value is None or math.isfinite(value) for value in shown.values())
        marks = marks_of(viewer, QUERY, query, begin_s=NOW_S - 60, end_s=NOW_S + 20)
        assert "fragment_failed" in {mark.what for mark in marks}
        for stranger in (world.mo, world.outsider):
            client.force_login(stranger)
            assert client.get(f"/estate/queries/{query}").status_code == 404
            with pytest.raises(NotFound):
                history_of(viewer_of(stranger), QUERY, query, Range(NOW_S - 60, NOW_S + 20, SECOND))


def test_lines_are_bounded_and_forgotten(db: None) -> None:
    for number in range(3 * query_lines.LONGEST):
        query_lines.store({f"f{number + 1}-0": [f"f{number}-0"]}, at_s=1000 + number)
    last = 3 * query_lines.LONGEST
    expected = [f"f{last - distance}-0" for distance in range(1, query_lines.LONGEST + 1)]
    assert query_lines.before([f"f{last}-0"]) == expected
    assert query_lines.before([f"f{last}-0"], since_s=1000 + last - 3) == expected[:3]
    assert query_lines.after(f"f{last - query_lines.LONGEST}-0")[-1] == f"f{last}-0"
    query_lines.store({"g": ["side", f"f{last}-0"]}, at_s=2000)
    assert query_lines.before(["g"]) == ["side"], "what was fused with it has a line of its own"
    assert query_lines.after(expected[0])[-1] == "g", "and leads to it"
    query_lines.forget(1500)
    assert set(QueryLine.objects.values_list("former", flat=True)) == {"side", f"f{last}-0"}
