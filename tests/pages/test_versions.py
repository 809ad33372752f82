"""A dataflow's versions: each has a page with its text, what it changed, and the proposals for it."""

from __future__ import annotations

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from dashboard.catalog.models import DataflowVersion
from dashboard.pages.line_changes import MOST_SHOWN, line_changes
from tests.dashboard.building import World, document, planned
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup, assert_sound


def test_a_version_leads_to_its_text_and_its_proposals(world: World, client_of: ClientOf) -> None:
    proposal = planned(world.carla, world.city, document("traffic"))
    record = proposal.dataflow
    address = reverse("dataflow_version", args=[record.pk, 1])
    assert Markup(client_of("vera").get(f"/dataflows/{record.pk}/").text).links(address)
    page = client_of("vera").get(address)
    assert_sound(page, address)
    markup = Markup(page.text)
    assert "urban_sensing" in markup.every("pre")[0].text
    assert markup.links(reverse("proposal", args=[proposal.pk])) and not markup.having("data-change")
    assert client_of("vera").get(reverse("dataflow_version", args=[record.pk, 2])).status_code == 404


def test_a_later_version_shows_what_it_changed(world: World, client_of: ClientOf) -> None:
    record = planned(world.carla, world.city, document("traffic")).dataflow
    first = record.versions.get()
    DataflowVersion.objects.create(
        dataflow=record, number=2, text="name: x\nrates: {}\n", format="yaml", document=first.document,
        author=world.carla)
    DataflowVersion.objects.create(
        dataflow=record, number=3, text="name: y\nrates: {}\n", format="yaml", document=first.document,
        author=world.carla)
    page = Markup(client_of("vera").get(reverse("dataflow_version", args=[record.pk, 3])).text)
    assert page.values("data-change") == ["removed", "added", "same"]
    assert page.links(reverse("dataflow_version", args=[record.pk, 2]))


LINES = st.lists(st.sampled_from("abc"), max_size=12)


@given(before=LINES, after=LINES)
def test_changes_lead_from_one_text_to_the_other(before: list[str], after: list[str]) -> None:
    changes = line_changes("\n".join(before), "\n".join(after))
    assert bool(changes) == (before != after)
    removed = [change.text for change in changes if change.what in ("removed", "same")]
    added = [change.text for change in changes if change.what in ("added", "same")]
    if changes and not any(change.what == "gap" for change in changes) and len(before) <= 3:
        assert (removed, added) == (before, after)
    assert [line for line in before if line not in after] == [line for line in removed if line not in after]
    assert [line for line in after if line not in before] == [line for line in added if line not in before]


@pytest.mark.parametrize(("before", "after"), [
    (["a: 1", "b: 2", "c: 3"] * 20_000, ["b: 2", "a: 1", "d: 4"] * 20_000),
    ([""] * 300_000, ["#"] + [""] * 299_000), ([f"{n}" for n in range(30_000)], [f"{n}" for n in range(30_000)][::-1])],
    ids=["few that differ", "empty", "turned round"])
def test_documents_of_many_lines_alike_are_compared_in_little_time(before: list[str], after: list[str]) -> None:
    """Half a million lines are a document: of each with each a server's thread would think for days."""
    changes = line_changes("\n".join(before), "\n".join(after))
    assert 0 < len(changes) <= MOST_SHOWN + 1
