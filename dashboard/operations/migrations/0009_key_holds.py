"""Alternates of single keys that people have set by hand."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("operations", "0008_policies"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="KeyHold",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("task", models.CharField(max_length=64)),
                ("key", models.CharField(max_length=200)),
                ("alternate", models.CharField(max_length=64)),
                ("until", models.DateTimeField()),
                ("by", models.ForeignKey(
                    on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL)),
            ],
            options={"ordering": ["task", "key"]},
        ),
        migrations.AddConstraint(
            model_name="keyhold",
            constraint=models.UniqueConstraint(fields=("task", "key"), name="one_hold_a_key"),
        ),
    ]
