"""The live protocol: topics, messages and JSON merge patches (RFC 7386).

1. ``GET /live/snapshot?topic=<topic>`` gives ``{"topic", "seq", "state"}``. ``seq`` 0 means that the broker is away:
   the state is what the database knows, and the client asks again after some seconds.
2. Over the WebSocket ``/ws/live`` the client sends ``{"type": "subscribe", "topic", "seq"}`` with the snapshot's
   ``seq``, or ``{"type": "unsubscribe", "topic"}``.
3. The server sends ``{"type": "delta", "topic", "from", "seq", "patch"}`` at most twice a second. A client whose own
   ``seq`` is not ``from`` has a gap: it fetches the snapshot and subscribes again. Other messages:
   ``{"type": "refetch", "topic"}`` says the same; ``{"type": "away", "topic"}`` that the broker is away (as ``seq`` 0);
   ``{"type": "gone", "topic"}`` that the viewer may not know of this topic (any more);
   ``{"type": "error", "message"}`` that a message was not understood.
4. Close code 4401: log in again (the session ended). 4408: the client did not read for 30 s; it may connect again.
   4429: the user, or each team of the user, has as many connections as are allowed (``WEIR_LIVE_CONNECTIONS``,
   ``WEIR_TEAM_CONNECTIONS``), and another page has to be closed; or the connection sent more messages than a page does.

A state holds no nulls: what is not known is absent.

A topic is ``estate``, ``dataflow:<id>``, ``proposal:<id>`` or ``sweep:<id>``. What it shows depends on the viewer's
scope (the set of teams, or everything), so versions are numbered for each topic and scope; viewers of one scope share
them. Numbers are kept in the broker (``state_versions.py``): the snapshot and the WebSocket agree, whichever process
answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dashboard.approvals.permissions import proposal_for
from dashboard.approvals.selectors import live_proposal
from dashboard.catalog.permissions import dataflow_for, is_uuid
from dashboard.operations.live_reader import live_dataflow, live_estate
from dashboard.operations.live_view.estate_view import Look, view_for
from dashboard.profiles.permissions import sweep_for
from dashboard.profiles.sweep_progress import live_sweep
from dashboard.teams.permissions import NOBODY, Viewer
from scheduler.model.errors import NotFound

State = dict[str, Any]
_BUILDERS: Mapping[str, Callable[[Viewer, str], State]] = {"proposal": live_proposal, "sweep": live_sweep}
_SUBJECTS: Mapping[str, Callable[[Viewer, str], Any]] = {  # the record, or NotFound
    "dataflow": dataflow_for, "proposal": proposal_for, "sweep": sweep_for}


def build(viewer: Viewer, topic: str, *, look: Look = view_for) -> State:
    """The state of a topic for a viewer, without nulls; ``NotFound`` where the viewer may not know of it.

    What is observed comes from the view that ``look`` gives.
    """
    if topic == "estate":
        require_known(viewer, topic)
        view = look(viewer)  # whoever may know the same gets the same document
        return view.known_figures.once(
            ("live estate", view.own_ids), lambda: without_nulls(live_estate(viewer, look=lambda _: view)))
    return without_nulls(_build(viewer, topic, look))


def is_topic(topic: str) -> bool:
    """True if there can be such a topic at all; what is none is not looked for."""
    kind, _, subject = topic.partition(":")
    return topic == "estate" or (kind in _SUBJECTS and is_uuid(subject))


def require_known(viewer: Viewer, topic: str) -> None:
    """Raise ``NotFound`` where the viewer may not know of a topic; this builds nothing."""
    if viewer.user_id == NOBODY.user_id:
        raise NotFound("There is no such topic.", remedy="Log in.")
    if topic == "estate":
        return
    kind, _, subject = topic.partition(":")
    if kind not in _SUBJECTS:
        raise NotFound(
            "There is no such topic.", remedy="Topics are estate, dataflow:<id>, proposal:<id> and sweep:<id>.")
    _SUBJECTS[kind](viewer, subject)


def _build(viewer: Viewer, topic: str, look: Look) -> State:
    kind, _, subject = topic.partition(":")
    if kind == "dataflow" and viewer.user_id != NOBODY.user_id:  # which itself looks whether the viewer may know of it
        return live_dataflow(viewer, subject, look=look)
    require_known(viewer, topic)
    return _BUILDERS[kind](viewer, subject)


def difference(before: State, after: State) -> State:
    """The merge patch that makes ``before`` into ``after``; empty where they are equal. Neither holds nulls."""
    patch: State = {}
    for name in before.keys() - after.keys():
        patch[name] = None
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            inner = difference(old, value)
            if inner:
                patch[name] = inner
        elif old != value or type(old) is not type(value):
            patch[name] = value
    return patch


def without_nulls(state: State) -> State:
    """The state with nothing where it had null: a merge patch cannot tell the two apart."""
    return {
        name: without_nulls(value) if isinstance(value, dict) else value
        for name, value in state.items() if value is not None
    }
