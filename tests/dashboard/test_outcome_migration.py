"""Readings from before they had a proposal get that of the schedule that was in force when they were taken."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from tests.dashboard.building import document, make_world, planned, running

BEFORE, AFTER = [("schedules", "0001_readings")], [("schedules", "0003_readings_of_proposals")]


def test_readings_go_to_the_proposal_that_was_in_force(migrated):
    world = make_world()
    record = running(world.carla, world.city, document("traffic"), world.ana)
    begun = timezone.now() - timedelta(hours=1)
    first = record.proposals.get()
    record.proposals.update(approved_at=begun - timedelta(seconds=5), finished_at=begun)
    second = planned(world.carla, world.city, document("jams", window=20))
    type(second).objects.filter(pk=second.pk).update(
        dataflow=record, status="done", approved_at=begun + timedelta(minutes=20),
        finished_at=begun + timedelta(minutes=21))
    minutes = {-1: None, 0: None, 1: first.pk, 19: first.pk, 20.5: None, 21.5: None, 22: second.pk, 50: second.pk}
    old = migrated(BEFORE)
    reading = old.get_model("schedules", "Reading")
    for minute in minutes:
        reading.objects.create(dataflow_id=record.pk, at=begun + timedelta(minutes=minute), seen={"minute": minute})
    new = migrated(AFTER).get_model("schedules", "Reading")
    readings = {reading.seen["minute"]: (reading.proposal_id, reading.since) for reading in new.objects.all()}
    assert {minute: proposal for minute, (proposal, _) in readings.items()} == {
        minute: proposal for minute, proposal in minutes.items() if proposal}
    assert {since for _, since in readings.values()} == {begun, begun + timedelta(minutes=21)}
