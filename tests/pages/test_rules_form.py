"""The form of a team's rules: what it begins with, and what it says of handovers here."""

from __future__ import annotations

import pytest

from dashboard.approvals.approval_rules import current_rules
from dashboard.operations.live_view.handover_pauses import LEAST, note_pauses
from dashboard.pages.templatetags.weir import latency
from scheduler.approving import Automatic
from tests.dashboard.building import World
from tests.pages.conftest import ClientOf
from tests.pages.markup import assert_sound

FORM = "/teams/city/rules"


@pytest.mark.parametrize("trigger_ms", [100, 500, 2_000])
def test_the_preset_lets_a_usual_handover_through_whatever_the_batches_are(
    world: World, client_of: ClientOf, settings, trigger_ms: int
) -> None:
    settings.TRIGGER_MS = trigger_ms
    note_pauses([{"kind": "handed_over", "fragment": f"f{number}-0", "at_ms": 1_000 * number, "gap_ms": 90,
                  "between_nodes": False} for number in range(LEAST)])
    page = client_of("ana").get(FORM)
    assert_sound(page, FORM)
    text = " ".join(page.text.split())
    assert f'name="automatic-pause" type="number" min="0" step="any" value="{trigger_ms + 250}"' in text
    pause = latency(trigger_ms + 90)
    assert f"for {pause} within a node (19 of 20 stay below {pause})" in text
    assert f"for {latency(trigger_ms + 3_600)} between nodes" in text

    client_of("ana").post(FORM, {
        "automatic": "1", "automatic-kinds": ["move"], "automatic-alone": "1", "otherwise-approvals": "1"})
    client_of("abe").post(f"{FORM}/1/agree")  # it asks for less
    _, rules = current_rules([world.city.pk])[world.city.pk]
    assert rules.automatic == Automatic(kinds=("move",), most_pause_ms=trigger_ms + 250.0)


def test_days_that_are_none_are_left_out(world: World, client_of: ClientOf) -> None:
    """One of 5,000 digits was an error of the site."""
    sent = {"otherwise-approvals": "1", "window-0-begin": "08:00", "window-0-end": "09:00"}
    answer = client_of("ana").post(FORM, sent | {"window-0-days": ["1", "9" * 5_000, "\u00b2", "\u0663"]})
    assert answer.status_code == 302
    _, rules = current_rules([world.city.pk])[world.city.pk]
    assert [window.days for window in rules.windows] == [(1, 3)]
