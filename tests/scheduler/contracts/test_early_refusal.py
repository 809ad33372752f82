"""A text with very many faults is refused at the first of them: each would take memory and time, and texts come from
slots and other nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from scheduler.contracts.codec import Codec, InvalidContract
from scheduler.contracts.copy_reports import COPY_REPORTS
from scheduler.contracts.looks import LOOK_STATES, LookState
from scheduler.contracts.reports import NODE_REPORTS, NodeReport
from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint
from scheduler.contracts.trials import TRIAL_RESULTS, TrialResult

FAULTS = 1_000
NAMED = {str(number): [] for number in range(FAULTS)}  # by name what is none
OF_NONE = {
    "places of a copy": (COPY_REPORTS, {"batch": 1, "places": NAMED}),
    "states": (SAVEPOINTS, {**SAVEPOINTS.document(Savepoint()), "states": {"t": [1] * FAULTS}}),
    "places": (SAVEPOINTS, {**SAVEPOINTS.document(Savepoint()), "places": NAMED}),
    "slots": (NODE_REPORTS, {**NODE_REPORTS.document(NodeReport("n1")), "slots": NAMED}),
    "samples": (TRIAL_RESULTS, {**TRIAL_RESULTS.document(TrialResult("t", ok=True)), "series": [{}] * FAULTS}),
    "messages": (LOOK_STATES, {**LOOK_STATES.document(LookState("")), "unread": [{}] * FAULTS}),
}


@pytest.mark.parametrize("of_none", OF_NONE.values(), ids=OF_NONE)
def test_a_text_of_many_faults_is_refused_at_the_first(of_none: tuple[Codec[Any], dict[str, Any]]) -> None:
    codec, document = of_none
    for read, text in ((codec.loads, json.dumps(document)), (codec.read, document)):
        with pytest.raises(InvalidContract) as refused:
            read(text)
        faults = refused.value.__cause__
        assert isinstance(faults, ValidationError)
        assert faults.error_count() < 10
