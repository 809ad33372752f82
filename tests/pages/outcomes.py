"""The page of an outcome, as text."""

from __future__ import annotations

import re

from django.urls import reverse

from dashboard.approvals.models import Proposal
from dashboard.catalog.models import DataflowRecord
from tests.pages.conftest import ClientOf
from tests.pages.test_every_page import assert_sound


def page_of(
    client_of: ClientOf, record: DataflowRecord, *, user: str = "carla", proposal: Proposal | None = None
) -> str:
    """The text of its outcome, or of that of one of its schedules."""
    address = reverse("schedule_outcome", args=[record.pk]) + (f"?proposal={proposal.pk}" if proposal else "")
    response = client_of(user).get(address)
    assert_sound(response, address)
    return " ".join(re.sub(r"<[^>]+>", " ", response.text).split())
