"""Changes have values of their aspect's own type, and what was stored before reads as such."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.codec import Codec, InvalidContract
from scheduler.controllers.changes import (
    AlternateName,
    Aspect,
    AspectChange,
    BatchMode,
    Carriage,
    ProfileName,
    RingCut,
    ScheduledRate,
    SlotName,
    Surplus,
)
from scheduler.controllers.loop_values import ControllerPromise, Decision

DECISIONS = Codec(Decision)
VALUES = {
    Aspect.SLOT: st.builds(lambda node, index: SlotName(f"{node}/{index}"), st.sampled_from("ab"), st.integers(0, 9)),
    Aspect.STREAM: st.sampled_from(Carriage), Aspect.TASKS: st.sampled_from(Surplus),
    Aspect.BATCHES: st.sampled_from(BatchMode), Aspect.PROFILE: st.builds(ProfileName, st.text("abc-", min_size=1)),
    Aspect.ALTERNATE: st.builds(AlternateName, st.text("abc-", min_size=1)),
    Aspect.SCHEDULE: st.one_of(st.just(ScheduledRate("own")), st.builds(
        lambda rate: ScheduledRate(f"{rate:g}"), st.floats(1e-6, 1e12))),
    Aspect.KEYS: st.builds(RingCut, st.text("0123456789.% +", min_size=1))}
any_change = st.sampled_from(Aspect).flatmap(
    lambda aspect: st.builds(
        AspectChange, st.just(aspect), st.text("abc>", min_size=1), VALUES[aspect], VALUES[aspect]))


@given(any_change)
def test_a_change_is_stored_as_text_and_read_with_its_types(change: AspectChange) -> None:
    decision = Decision("d", "city", (change,), ControllerPromise("it helps", 60.0), "why")
    document = DECISIONS.document(decision)
    assert document["changes"] == [{
        "aspect": change.aspect.value, "subject": change.subject, "before": str(change.before),
        "after": str(change.after)}]
    (read,) = DECISIONS.read(document).changes
    assert read == change and type(read.after) is type(change.after)
    assert change.reverse.reverse == change


@pytest.mark.parametrize("wrong", [
    {"aspect": "mood", "before": "a", "after": "b"}, {"aspect": "stream", "before": "in a channel", "after": "open"},
    {"aspect": "slot", "before": "n1/0", "after": "n1"}, {"aspect": "schedule of", "before": "own", "after": "0"},
    {"aspect": "keys of", "before": "100.00%", "after": ""}])
def test_what_is_no_value_of_an_aspect_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        AspectChange(subject="s", **wrong)
    document = DECISIONS.document(Decision("d", "city", (), ControllerPromise("it helps", 60.0), "why"))
    with pytest.raises(InvalidContract):
        DECISIONS.read(document | {"changes": [{"subject": "s", **wrong}]})
