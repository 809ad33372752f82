from django.db import migrations

from dashboard.core.database import convert_to_shrinking


class Migration(migrations.Migration):

    atomic = False  # SQLite rewrites its file outside of transactions

    dependencies = [
        ('operations', '0011_threads_of_node'),
    ]

    operations = [migrations.RunPython(lambda *_: convert_to_shrinking(), migrations.RunPython.noop)]
