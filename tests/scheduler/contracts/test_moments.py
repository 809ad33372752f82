"""What slots and holders of copies tell has moments that are dates: another number stopped every page that shows it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from scheduler.contracts.codec import Codec, InvalidContract
from scheduler.contracts.copy_reports import COPY_REPORTS, CopyReport
from scheduler.contracts.moments import LATEST_MS
from scheduler.contracts.reports import QUERY_REPORTS, ConnectorReport, QueryReport, SinkReport
from scheduler.contracts.switches import KEY_SWITCHES, SWITCHES, AlternateSwitch, KeySwitch

NAMES = {"since_ms", "at_ms"}
TOLD = (
    (QUERY_REPORTS, QueryReport()), (COPY_REPORTS, CopyReport(1)), (SWITCHES, AlternateSwitch("few", "f1-0", 1, 1, 1)),
    (KEY_SWITCHES, KeySwitch({}, "f1-0", 1, 1, 1)), (Codec(ConnectorReport), ConnectorReport()),
    (Codec(SinkReport), SinkReport()))
MOMENTS = [
    (codec, document, name) for codec, value in TOLD for document in [codec.document(value)] for name in document
    if name in NAMES or any(name.endswith(f"_{ending}") for ending in NAMES)]


@pytest.mark.parametrize(("codec", "document", "name"), MOMENTS, ids=[name for _, _, name in MOMENTS])
def test_a_moment_is_a_date(codec: Codec[Any], document: dict[str, Any], name: str) -> None:
    value = codec.read({**document, name: LATEST_MS})
    assert datetime.fromtimestamp(getattr(value, name) / 1000, UTC).year == 9999
    for moment in (-1, LATEST_MS + 1, 2**63 - 1, 10**400):
        with pytest.raises(InvalidContract):
            codec.read({**document, name: moment})
