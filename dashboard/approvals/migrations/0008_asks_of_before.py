"""Proposals from before teams had rules were asked by what is the default now: one approver of each team."""

from django.db import migrations

ROWS_AT_ONCE = 2_000


def ask(apps, schema_editor):
    proposals, asks = apps.get_model("approvals", "Proposal"), apps.get_model("approvals", "Ask")
    pairs = proposals.teams.through.objects.order_by("pk").values_list("proposal__plan_id", "team_id")
    rows = [asks(plan_id=plan_id, team_id=team_id) for plan_id, team_id in pairs.iterator(ROWS_AT_ONCE)]
    asks.objects.bulk_create(rows, batch_size=ROWS_AT_ONCE, ignore_conflicts=True)


class Migration(migrations.Migration):

    dependencies = [("approvals", "0007_rules_and_asks")]

    operations = [migrations.RunPython(ask, migrations.RunPython.noop)]
