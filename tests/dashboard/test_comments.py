"""Comments on proposals: threads, who may edit and resolve, whom a mention reaches, and that live pages hear of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dashboard.approvals.comments import threads_of, unseen_mentions
from dashboard.approvals.models import Comment
from dashboard.approvals.selectors import live_proposal
from dashboard.approvals.services import comment_on, edit_comment, resolve_thread
from dashboard.audit.models import AuditEntry
from dashboard.core.http_errors import BadInput
from dashboard.teams.permissions import viewer_of
from scheduler.model.errors import NotFound, PermissionDenied
from tests.dashboard.building import World, document, planned

pytestmark = pytest.mark.django_db


def test_a_thread_is_answered_resolved_and_opened_again(world: World) -> None:
    proposal = planned(world.carla, world.city, document("air"))
    before = live_proposal(viewer_of(world.ana), proposal.pk)["comments"]
    head = comment_on(actor=world.ana, proposal_id=proposal.pk, text=" Why 10? \0", task="average")
    comment_on(actor=world.carla, proposal_id=proposal.pk, text="An hour.", reply_to=head.pk, task="ignored")
    last = comment_on(actor=world.ben, proposal_id=proposal.pk, text="Good.", reply_to=head.replies.get().pk)
    comment_on(actor=world.vera, proposal_id=proposal.pk, text="On the whole: fine.")
    assert live_proposal(viewer_of(world.ana), proposal.pk)["comments"] != before
    thread, other = threads_of(viewer_of(world.carla), proposal)
    assert (thread["text"], thread["task"], [reply["text"] for reply in thread["replies"]]) == (
        "Why 10?", "average", ["An hour.", "Good."])
    assert thread["may_resolve"] and not other["replies"]
    with pytest.raises(PermissionDenied):
        resolve_thread(actor=world.ben, proposal_id=proposal.pk, comment_id=head.pk)
    resolve_thread(actor=world.carla, proposal_id=proposal.pk, comment_id=last.pk)  # of the thread, whichever is named
    assert [row["id"] for row in threads_of(viewer_of(world.ben), proposal)] == [other["id"], thread["id"]]
    resolve_thread(actor=world.ana, proposal_id=proposal.pk, comment_id=head.pk, resolved=False)
    assert not threads_of(viewer_of(world.ben), proposal)[0]["resolved"]
    assert {"proposal.comment", "proposal.resolve", "proposal.reopen"} <= set(
        AuditEntry.objects.values_list("verb", flat=True))


def test_one_s_own_is_edited_for_some_minutes_and_the_trail_keeps_what_it_said(world: World) -> None:
    proposal = planned(world.carla, world.city, document("air"))
    comment = comment_on(actor=world.ana, proposal_id=proposal.pk, text="Teh plan")
    with pytest.raises(PermissionDenied):
        edit_comment(actor=world.carla, proposal_id=proposal.pk, comment_id=comment.pk, text="No")
    edit_comment(actor=world.ana, proposal_id=proposal.pk, comment_id=comment.pk, text="The plan")
    assert AuditEntry.objects.get(verb="proposal.edit_comment").details["before"] == "Teh plan"
    Comment.objects.update(created=comment.created - timedelta(minutes=16))
    with pytest.raises(PermissionDenied):
        edit_comment(actor=world.ana, proposal_id=proposal.pk, comment_id=comment.pk, text="Late")


def test_a_mention_reaches_whoever_may_see_the_proposal(world: World) -> None:
    proposal = planned(world.carla, world.city, document("hush", visibility="private"))
    comment_on(actor=world.carla, proposal_id=proposal.pk, text="@ana, @ben: look. mail@abe @nobody @carla")
    counts = {name: unseen_mentions(viewer_of(world.users[name])).count() for name in ("ana", "ben", "abe", "carla")}
    assert counts == {"ana": 1, "ben": 0, "abe": 0, "carla": 0}


def test_what_cannot_be_said_is_refused(world: World) -> None:
    proposal = planned(world.carla, world.city, document("hush", visibility="private"))
    other = planned(world.carla, world.city, document("air"))
    elsewhere = comment_on(actor=world.ana, proposal_id=other.pk, text="Here")
    for bad in ({"text": " "}, {"text": "x", "task": "no such task"}):
        with pytest.raises(BadInput):
            comment_on(actor=world.ana, proposal_id=proposal.pk, **bad)
    with pytest.raises(NotFound):
        comment_on(actor=world.ben, proposal_id=proposal.pk, text="I should not know")
    with pytest.raises(NotFound):
        comment_on(actor=world.ana, proposal_id=proposal.pk, text="x", reply_to=elsewhere.pk)
