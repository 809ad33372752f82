"""Choices by severity become choices by subject, kept with the messages: `outbox.NoticePreference`."""

from django.db import migrations


def move_choices(apps, schema_editor):
    Preference, NoticePreference = apps.get_model("alerts", "Preference"), apps.get_model("outbox", "NoticePreference")
    NoticePreference.objects.bulk_create(
        NoticePreference(user_id=row.user_id, subject=row.severity, email=row.email, webhook=row.webhook)
        for row in Preference.objects.all())


class Migration(migrations.Migration):

    dependencies = [
        ("alerts", "0003_alert_concerned"),
        ("outbox", "0002_notice_preferences"),
    ]

    operations = [
        migrations.RunPython(move_choices, migrations.RunPython.noop),
        migrations.DeleteModel(name="Preference"),
    ]
