"""Prints what the site makes of a state folder's rows, as JSON: statuses, plans that no longer read, pages.

With ``--migrate`` the rows are brought up to date before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from workers.processes import python_path

from .waiting import ROOT

LIMIT_S = 300


def rows_of(data: Path, url: str, *options: str) -> dict:
    """What the site makes of a state folder's rows, in a process of its own; ``url`` is of the folder's broker."""
    variables = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    done = subprocess.run(
        (sys.executable, "-P", "-m", "tests.launcher.stored_rows", *options), capture_output=True, text=True,
        timeout=LIMIT_S, cwd=ROOT, env={
            **variables, "WEIR_DATA_DIR": str(data), "PYTHONPATH": python_path(ROOT), "REDIS_URL": url})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Read every plan, and get every page of a dataflow or proposal as an administrator."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
    import django

    django.setup()
    from django.core.management import call_command
    from django.test import Client

    from dashboard.approvals.models import Proposal
    from dashboard.catalog.models import DataflowRecord
    from dashboard.plans.models import PlanRecord
    from dashboard.plans.selectors import plan_of
    from dashboard.teams.models import User
    from scheduler.model.errors import WeirError

    if "--migrate" in sys.argv:
        call_command("migrate", interactive=False, verbosity=0)
    altered = []
    for record in PlanRecord.objects.all():
        try:
            plan_of(record)
        except WeirError as error:
            altered.append(f"{record.pk}: {error.message}")
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(User.objects.get(username="admin"))
    addresses = [
        "/", "/dataflows/", "/proposals/", "/estate/slots", "/bills/", "/audit/", "/profiles/",
        *(f"/dataflows/{record.pk}/" for record in DataflowRecord.objects.all()),
        *(f"/proposals/{proposal.pk}/" for proposal in Proposal.objects.all()),
    ]
    print(json.dumps({
        "statuses": {record.name: record.status for record in DataflowRecord.objects.all()},
        "altered_plans": altered,
        "pages": {address: client.get(address).status_code for address in addresses},
    }))


if __name__ == "__main__":
    main()
