"""Paths that configs of sinks name: none that leads back up, and none that no file system or store can have."""

from __future__ import annotations

from typing import Any

import pytest

from workers.library import registry
from workers.library.config import InvalidConfig

STORE = {"endpoint": "https://s3.example.org", "access_key": {"secret": "a"}, "secret_key": {"secret": "b"}}
BAD = ("a" * 300, "a/" * 150 + "a", "..", "a/..", "../a", "a/../../b", "a/./b", ".")
TAKERS: dict[str, Any] = {
    "to_s3 prefix": lambda place: ("to_s3", STORE | {"bucket": "events", "prefix": place}),
    "to_delta url": lambda place: ("to_delta", STORE | {"url": f"s3://events/{place}"}),
    "to_delta folder": lambda place: ("to_delta", {"folder": place}),
    "parquet_files": lambda place: ("parquet_files", {"folder": place}),
    "json_lines": lambda place: ("json_lines", {"folder": place}),
    "file_batches": lambda place: ("file_batches", {"folder": place}),
}


def refused(name: str, config: dict[str, Any]) -> InvalidConfig | None:
    return registry.check(registry.task_types()[name], config)


@pytest.mark.parametrize("taker", TAKERS)
def test_a_path_that_leads_elsewhere_or_is_too_long_is_refused(taker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_SINK_HOSTS", "s3.example.org")
    for place in BAD:
        error = refused(*TAKERS[taker](place))
        assert error is not None and error.remedy and error.facts["parameter"] in ("prefix", "url", "folder"), place
    assert refused(*TAKERS[taker]("a/b-1")) is None
