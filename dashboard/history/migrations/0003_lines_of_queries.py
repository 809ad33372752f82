from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("history", "0002_annotations_of_teams")]

    operations = [
        migrations.CreateModel(
            name="QueryLine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("query", models.CharField(max_length=100)),
                ("former", models.CharField(db_index=True, max_length=100)),
                ("distance", models.PositiveSmallIntegerField()),
                ("is_main", models.BooleanField()),
                ("at_s", models.BigIntegerField(db_index=True)),
            ],
            options={"ordering": ["query", "distance", "former"]},
        ),
        migrations.AddConstraint(
            model_name="queryline",
            constraint=models.UniqueConstraint(fields=("query", "former"), name="one_row_a_former_query"),
        ),
    ]
