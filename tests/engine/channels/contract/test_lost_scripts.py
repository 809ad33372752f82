"""A broker that has lost the scripts: a slot, which may load none, goes on once its agent has loaded them."""

from __future__ import annotations

import pytest
import redis

from workers.engine.agents.supervising.broker_users import SLOTS, BrokerUsers

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]
SOURCE, COPY = "rehearsal-n1-a", "rehearsal-n1-b"


def test_a_slot_goes_on_when_its_agent_has_loaded_what_the_broker_lost(
    rig: Rig, broker: redis.Redis, users: BrokerUsers
) -> None:
    slot, arrived, wanted = rig.with_config(redis_url=users.url(SLOTS)), f"{COPY}.0", f"{SOURCE}.0"
    ticks = slot.ticks(SOURCE, rate_per_s=200, writes=(wanted,))
    source = slot.start(slot.publish(ticks, SOURCE, readers=(COPY,)), SOURCE)
    copy = slot.start(slot.publish(slot.read(COPY, wanted), COPY), COPY)
    wait_until(lambda: rig.numbers(arrived), what="events", alive=(source, copy))

    def refusals() -> list[str]:
        # Others work at this broker, too: queries of an earlier test log in by the same name with its old password.
        user, others = f"'{users.name(SLOTS)}'", "b'reason': b'auth'"
        log = map(str, broker.execute_command("ACL", "LOG"))
        return [refusal for refusal in log if user in refusal and others not in refusal]

    broker.execute_command("ACL", "LOG", "RESET")
    wait_until(lambda: len(rig.numbers(arrived)) > 400, what="more events", alive=(source, copy))
    assert refusals() == []
    broker.script_flush()
    wait_until(refusals, what="a script that is missed")
    assert [refusal for refusal in refusals() if "script|load" not in refusal] == []
    before = len(rig.numbers(arrived))
    users.look(is_away=False)
    wait_until(lambda: len(rig.numbers(arrived)) > before + 200, what="further events", alive=(source, copy))
    numbers = rig.numbers(arrived)
    assert numbers == list(range(len(numbers)))
