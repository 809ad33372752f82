"""What people of `./weir bench crowd` do, against a site that serves."""

from __future__ import annotations

import pytest

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal
from dashboard.catalog.models import DataflowRecord
from tests.benches.crowd import ACTS, CrowdedSite, Writer, _store, _tokens
from tests.benches.site_estate import let_dataflows_run


@pytest.mark.django_db(transaction=True)
def test_writers_submit_approve_comment_and_cancel(live_server):
    let_dataflows_run(2, nodes=("n1",), slots=4)
    _store(3)
    assert DataflowRecord.objects.count() == 5
    crowd = CrowdedSite(live_server.thread.port, _tokens())
    first, second = Writer(crowd, 0), Writer(crowd, 1)
    for _ in range(4):
        first.submit()
    proposals = list(crowd.waiting)
    second.approve()  # which has no plan yet, and waits on
    assert len(crowd.waiting) == 4 and not crowd.took_s["approve"]
    for proposal in proposals:
        prepare_proposal(proposal_id=proposal)
    first.approve()  # its own, which waits on
    for act in (second.approve, second.comment, second.approve, second.cancel):
        act()
    assert {act: crowd.statuses[act] for act in ACTS} == {
        "submit": {201: 4}, "approve": {200: 2}, "comment": {201: 1}, "cancel": {200: 1}}
    assert len(crowd.waiting) == 1
    assert sorted(Proposal.objects.values_list("status", flat=True)) == [
        "cancelled", "executing", "executing", "pending"]
