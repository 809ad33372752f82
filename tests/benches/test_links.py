"""The bench of links: what a client at the node's end measures, and links that cannot be had."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.benches.links import main, measure
from workers.launcher.links.link import LinkRequest, NoLink

pytestmark = pytest.mark.broker


# The command below measures without a link, too.
@pytest.mark.parametrize("wanted", [pytest.param(None, marks=pytest.mark.long), LinkRequest("relay", 0.5, 200)])
def test_a_process_at_the_nodes_end_measures_questions_and_both_ways(
    wanted: LinkRequest | None, broker_url: str
) -> None:
    row = measure(broker_url, wanted, questions=5, blocks=2)
    assert row["words"] == ("no link" if wanted is None else (
        "0.5 ms each way, 200 Mbit/s; relay on this machine, delay and bandwidth by a relay"))
    assert all(row[name] > 0 for name in ("there and back ms", "p95 ms", "Mbit/s up", "Mbit/s down"))


def test_a_namespace_that_is_not_allowed_is_said_and_the_rest_measured(
    broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NoLink):
        measure(broker_url, LinkRequest("netns"), questions=1, blocks=1)
    file = tmp_path / "links.json"
    assert main(["--questions", "2", "--blocks", "1", "--delay-ms", "0.1", "--json", str(file)]) == 0
    assert "only root" in capsys.readouterr().err
    rows = json.loads(file.read_text())["rows"]
    assert [row["link"] for row in rows] == ["none", "relay"] and all(row["Mbit/s up"] > 0 for row in rows)
