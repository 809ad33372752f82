"""The dataflows that growth is measured with, in a system that runs: submitted and approved as people do.

    python -m tests.benches.growth_estate RATE      (with WEIR_DATA_DIR and REDIS_URL of that system)
"""

from __future__ import annotations

import json
import os
import sys
import time

SAMPLES = ("urban_etl", "urban_stats")  # beside the one that a new installation runs
DONE_S = 300.0
FILES = {
    "name": "Files", "visibility": "shared",
    "tasks": [
        {"id": "sense", "type": "urban_sensing"}, {"id": "parse", "type": "senml_parse"},
        {"id": "batches", "type": "file_batches", "config": {"folder": "batches"}},
        {"id": "columns", "type": "parquet_files", "config": {"folder": "columns"}},
        {"id": "lines", "type": "json_lines", "config": {"folder": "lines"}}],
    "streams": [{"from": "sense", "to": "parse"}, {"from": "parse", "to": "batches"},
                {"from": "batches", "to": "columns"}, {"from": "parse", "to": "lines"}],
}


def main() -> None:
    """Submit, approve, and wait until all of them run."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
    import django

    django.setup()
    from dashboard import jobs
    from dashboard.approvals.services import approve_proposal, prepare_proposal, submit_dataflow
    from dashboard.teams.models import Team, User

    author, approver = (User.objects.get(username=name) for name in ("carla", "ana"))
    team = Team.objects.get(slug="city")
    texts = [(sample["text"], "yaml") for sample in jobs.samples() if sample["slug"] in SAMPLES]
    _until_done()
    texts.append((json.dumps({**FILES, "rates": {"sense": float(sys.argv[1])}}), "json"))
    for text, format in texts:
        proposal = submit_dataflow(actor=author, team=team, text=text, format=format)
        proposal = prepare_proposal(proposal_id=proposal.pk)
        approve_proposal(actor=approver, proposal_id=proposal.pk, digest=proposal.plan.digest)
        _until_done()


def _until_done() -> None:
    """Wait until every plan so far is in force."""
    from dashboard.approvals.models import Proposal

    deadline = time.monotonic() + DONE_S
    while waiting := list(Proposal.objects.exclude(status="done").values_list("dataflow__name", "status")):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not done after {DONE_S:.0f} s: {waiting}")
        time.sleep(1)


if __name__ == "__main__":
    main()
