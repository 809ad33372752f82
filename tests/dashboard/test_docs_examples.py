"""The documents and commands that the docs show: each document is checked as a submission is, and the command is run as
it is written."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
import yaml
from markdown_it import MarkdownIt

from dashboard import jobs
from dashboard.catalog.document_checks import check_document
from dashboard.operations.models import RunningTaskRow
from dashboard.teams.services import set_secret
from tests.dashboard.building import World, running
from tests.written_blocks import read_blocks
from workers.engine.channels import keys
from workers.engine.channels.channel_registry import Channels
from workers.engine.connectors.formats import layout_of
from workers.engine.connectors.intake import IntakeStore

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "guide").glob("*.md"))]
CONNECTORS = ROOT / "docs" / "connectors.md"
PARTS = {"name", "tasks", "streams"}
TOKEN = "a-token-of-the-meters"


def code_of(page: Path) -> list[str]:
    """The code that a page shows, paragraph by paragraph: what stands behind an empty line is something else."""
    tokens = MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
    blocks = [token.content for token in tokens if token.type in ("code_block", "fence")]
    return [part for block in blocks for part in re.split(r"\n\n(?=\S)", block)]


def documents_of(page: Path) -> Iterator[str]:
    """The whole documents of dataflows among it."""
    for code in code_of(page):
        if not all(part in code for part in PARTS):
            continue
        try:
            document = yaml.safe_load(code)
        except yaml.YAMLError:
            continue
        if isinstance(document, dict) and set(document) >= PARTS:
            yield code


SHOWN = [(page, text) for page in PAGES for text in documents_of(page)]


def test_documents_are_found() -> None:
    assert len(list(documents_of(CONNECTORS))) >= 4 and len({page for page, _ in SHOWN}) >= 2


@pytest.mark.parametrize(
    ("page", "text"), SHOWN, ids=[f"{page.name}-{yaml.safe_load(text)['name']}" for page, text in SHOWN])
def test_every_document_that_the_docs_show_is_valid_with_its_columns(
    page: Path, text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WEIR_INBOX_DIRS", str(tmp_path))
    monkeypatch.setenv("WEIR_SPARK_SOURCES", "rate-micro-batch")
    for variable in ("WEIR_CONNECTOR_HOSTS", "WEIR_DATABASE_HOSTS", "WEIR_HTTP_HOSTS"):  # as its operator would
        hosts = {*re.findall(r"[a-z0-9.-]+\.(?:org|com)", text), "s3.example.org", "s3.eu-west-1.amazonaws.com"}
        monkeypatch.setenv(variable, ",".join({"localhost", *hosts}))
    checked = check_document(text, format="yaml")
    assert checked.problems == (), page
    if page == CONNECTORS:
        for task in checked.dataflow.tasks:
            given = checked.columns[task.id].outputs
            assert given.complete and None not in given.types.values(), task.id


@pytest.fixture
def broker_of_site(broker: redis.Redis, broker_url: str, settings, tmp_path: Path, monkeypatch) -> redis.Redis:
    settings.DATA_DIR, settings.REDIS_URL = tmp_path, broker_url
    monkeypatch.delenv("WEIR_SECRETS_KEY", raising=False)
    jobs.broker.cache_clear()
    yield broker
    jobs.broker.cache_clear()


@pytest.mark.broker
def test_the_command_that_posts_events_does_so(
    committed_world: World, broker_of_site: redis.Redis, live_server
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed: apt-get install curl")
    document = next(text for text in documents_of(CONNECTORS) if "http_ingest" in text)
    command = next(code for code in code_of(CONNECTORS) if code.startswith("curl"))
    answer = next(code for code in code_of(CONNECTORS) if code.startswith('{"taken"'))
    city = committed_world.city
    set_secret(actor=committed_world.dev, team=city, name="meters-token", value=TOKEN)
    running(committed_world.carla, city, document, committed_world.ana)
    source = RunningTaskRow.objects.get(type="http_ingest")
    store = IntakeStore(broker_of_site)
    store.open(source.pk, layout_of(source.config), known_readers=["f1-0"], node="n1")
    store.join(source.pk, "f1-0")

    def posted() -> dict:
        done = subprocess.run(
            ["bash", "-c", command.replace("https://weir.example.org", live_server.url)], capture_output=True,
            text=True, timeout=60, env={"TOKEN": TOKEN, "PATH": "/usr/local/bin:/usr/bin:/bin"}, check=True)
        return json.loads(done.stdout)

    assert posted() == json.loads(answer)
    assert posted()["again"], "the key is that of the first"
    [(_, [event])] = read_blocks(Channels(broker_of_site), keys.intake(source.pk))
    assert (event["meter"], event["kwh"], event["_time"]) == ("m1", 1.5, 1_777_636_800_000)
