"""Samples, and the documents of README and guide, beside what a new installation runs: sharing is seen at once."""

from __future__ import annotations

import pytest

from dashboard import jobs
from dashboard.catalog.document_checks import parse_document
from dashboard.catalog.selectors import samples
from dashboard.commands.workspace import FIRST_SAMPLE
from dashboard.explorer.offered_samples import CLEAREST, offered_samples
from dashboard.explorer.preview import preview_submission
from dashboard.teams.permissions import viewer_of
from scheduler.reuse.fingerprint import fingerprints
from tests.dashboard.building import World, running
from tests.dashboard.test_docs_examples import ROOT, documents_of

FIRST = next(sample for sample in samples() if sample.slug == FIRST_SAMPLE)


def first_of(page: str, name: str) -> str:
    """The document of that name on a page of the docs."""
    return next(text for text in documents_of(ROOT / page) if f"name: {name}\n" in text)


@pytest.mark.parametrize(("page", "name", "shared"), [
    ("README.md", "Warm sensors", 3), ("docs/guide/documents.md", "Air of the city", 2)])
def test_the_first_document_of_the_docs_shares_tasks_with_the_sample_that_runs(
    page: str, name: str, shared: int
) -> None:
    def of(text: str) -> set[str]:
        return set(fingerprints(parse_document(text), task_types=jobs.task_types()).values())

    assert len(of(first_of(page, name)) & of(FIRST.text)) == shared


@pytest.mark.django_db
def test_samples_of_which_most_runs_come_first_and_say_what_the_preview_says(world: World) -> None:
    viewer = viewer_of(world.carla)
    clearest, *_ = offered_samples(viewer)
    assert clearest.sample.slug == CLEAREST and {offer.in_estate for offer in offered_samples(viewer)} == {0}
    running(world.carla, world.city, FIRST.text, world.ana)
    offered = offered_samples(viewer)
    *others, last = offered
    assert last.sample.slug == FIRST_SAMPLE and last.runs_whole and last.in_estate == FIRST.tasks, "its name is taken"
    assert [offer.in_estate for offer in others] == sorted((offer.in_estate for offer in others), reverse=True)
    assert len({offer.sample.slug for offer in offered if offer.in_estate}) >= 4
    for offer in offered[:2]:
        preview = preview_submission(viewer, team=world.city, text=offer.sample.text, format="yaml")
        assert preview.reused == offer.in_estate > 0


@pytest.mark.django_db
def test_private_tasks_of_others_are_not_told_of(world: World) -> None:
    running(world.carla, world.city, FIRST.text + "visibility: private\n", world.ana)
    for user in (world.carla, world.mo):
        assert {offer.in_estate for offer in offered_samples(viewer_of(user))} == {0}, "a shared one would not join it"
