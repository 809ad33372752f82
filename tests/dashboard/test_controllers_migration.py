"""What teams chose for defragmentation before there were controllers still holds."""

from __future__ import annotations

BEFORE = [("teams", "0004_when_behind"), ("controllers", "0001_settings_rounds_and_reasons")]
AFTER = [("controllers", "0002_defragmentation_of_teams")]


def test_what_a_team_chose_is_taken_over(migrated) -> None:
    teams = migrated(BEFORE).get_model("teams", "Team").objects
    for mode in ("off", "recommends", "acts"):
        teams.create(slug=mode, name=mode, defragmentation=mode)
    rows = migrated(AFTER).get_model("controllers", "ControllerSettings").objects.order_by("team__slug")
    assert [(row.team.slug, row.controller, row.mode) for row in rows] == [
        ("acts", "defragmentation", "acts"), ("off", "defragmentation", "off")]
