"""Containment and secrets on real slots: what is refined and posted equals what the dataflow alone would post."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from scheduler.applying import apply_plan
from scheduler.model.documents import read_document
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.prices import Prices
from scheduler.planning import plan_submission
from scheduler.reuse.containment import Containment
from tests.scheduler.sibling_index import SiblingIndex
from workers.engine import sealed_secrets
from workers.library import registry
from workers.library.registry import task_types

from .recording import public_data, recorded
from .rig import NODE, running_agent

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]
KEY = "a key for this test"
TOKENS = {"city/hook": "token-of-the-city", "roads/hook": "token-of-the-roads"}
DOCUMENT = """
name: {name}
visibility: {visibility}
tasks:
  - {{id: spout, type: replay, config: {{path: sys.senml, format: senml}}}}
  - {{id: parse, type: senml_parse, config: {{schema: urban}}}}
  - {{id: warm, type: range_filter, config: {{ranges: {{temperature: [{low}, {high}]}}}}}}
  - {{id: mean, type: exact_average, config: {{window: {window}, by: [obs]}}}}
  - {{id: post, type: http_post, config: {{url: "http://{host}/{name}", token: {{secret: hook}}}}}}
  - {{id: means, type: http_post, config: {{url: "http://{host}/{name}-means", token: {{secret: hook}}}}}}
streams:
  - {{from: spout, to: parse}}
  - {{from: parse, to: warm}}
  - {{from: warm, to: post}}
  - {{from: parse, to: mean}}
  - {{from: mean, to: means}}
rates: {{spout: 100}}
"""


class Receiver(HTTPServer):
    """Keeps the events that were posted to each path, each once, and the tokens that came with them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.events: dict[str, list[dict]] = {}
        self.tokens: dict[str, set[str]] = {}
        self.keys: set[str] = set()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        name, key = self.path.strip("/"), self.path + self.headers["Idempotency-Key"]
        if key not in self.server.keys:
            self.server.keys.add(key)
            self.server.events.setdefault(name, []).extend(json.loads(line) for line in body.splitlines())
        self.server.tokens.setdefault(name, set()).add(self.headers["Authorization"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver():
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def submitted(estate, host, name, *, low, high, window, visibility="shared", team="city", contained=False):
    text = DOCUMENT.format(name=name, visibility=visibility, low=low, high=high, window=window, host=host)
    plan = plan_submission(
        estate, read_document(text, task_types=task_types()), dataflow_id=name, team=team, task_types=task_types(),
        prices=Prices(),
        containment=Containment(SiblingIndex(estate.tasks.values()), registry.refinement) if contained else None)
    return apply_plan(estate, plan), plan


def delivered(events):
    return [{name: value for name, value in event.items() if name != "_born"} for event in events]


def test_refined_and_posted_it_is_what_it_is_alone(broker, broker_url, tmp_path, receiver):
    replayed, data, host = tmp_path / "replay", tmp_path / "data", f"127.0.0.1:{receiver.server_port}"
    replayed.mkdir()
    data.mkdir()
    (replayed / "sys.senml").write_text(recorded(public_data()))

    estate = Estate(slots=(Slot(NODE, 0),))
    estate, _ = submitted(estate, host, "wide", low=0, high=45, window=2)
    estate, plan = submitted(estate, host, "contained", low=10, high=30, window=6, contained=True)
    assert {refinement.task for refinement in plan.refined} == {"warm", "mean"}
    estate, _ = submitted(estate, host, "alone", low=10, high=30, window=6, visibility="private", team="roads")

    environment = {"WEIR_REPLAY_DIRS": str(replayed), "WEIR_HTTP_HOSTS": host, "WEIR_SECRETS_KEY": KEY}
    with running_agent(broker, broker_url, data, slots=1, task_types=task_types(), **environment) as rig:
        rig.publish(estate)
        rig.wait(lambda: "secret hook of team city is not here" in str(rig.report()), what="it says so")
        vault = sealed_secrets.Vault(data, {"WEIR_SECRETS_KEY": KEY})
        sealed_secrets.publish(broker, {name: vault.seal(token) for name, token in TOKENS.items()})
        rig.wait_running(*estate.fragments)
        wait_for_all(rig, receiver)
        for name in ("contained", "contained-means"):
            alone = delivered(receiver.events[name.replace("contained", "alone")])
            assert len(alone) > 50 and delivered(receiver.events[name]) == alone
        assert receiver.tokens["contained"] == {"Bearer token-of-the-city"}
        assert receiver.tokens["alone"] == {"Bearer token-of-the-roads"}
        reported = json.dumps(rig.report()) + (data / "agent.log").read_text()
    texts = "".join(path.read_text(errors="replace") for path in data.rglob("*.json"))
    for token in TOKENS.values():
        assert token not in reported and token not in texts, \
            "no report, log, record or checkpoint's chain holds a secret"


def wait_for_all(rig, receiver) -> None:
    """Wait until as much came of the one way as of the other, and nothing more comes."""
    seen: list[int] = []

    def is_over() -> bool:
        counts = [len(receiver.events.get(name, ())) for name in (
            "wide", "contained", "alone", "contained-means", "alone-means")]
        seen.append(sum(counts))
        return min(counts) > 0 and counts[1] == counts[2] and counts[3] == counts[4] and (
            len(seen) > 60 and seen[-60] == seen[-1])

    rig.wait(is_over, what="everything is posted")
